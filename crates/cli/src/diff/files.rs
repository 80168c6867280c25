//! Files of a set of recordings.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use ferretto_format::pattern::{has_wildcards, is_like};

/// Returns the files that paths name. Patterns in the last part of a path are expanded.
pub(crate) fn expanded(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        let pattern = path.file_name().and_then(|name| name.to_str());
        let Some(pattern) = pattern.filter(|name| has_wildcards(name) && !path.exists()) else {
            files.push(path.clone());
            continue;
        };
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let shown = || format!("cannot list {}", folder.display());
        let mut found = Vec::new();
        for entry in folder.read_dir().with_context(shown)? {
            let name = entry.with_context(shown)?.file_name();
            if name.to_str().is_some_and(|name| is_like(pattern, name)) {
                found.push(path.with_file_name(&name));
            }
        }
        if found.is_empty() {
            bail!("no file matches {}", path.display());
        }
        found.sort();
        files.append(&mut found);
    }
    Ok(files)
}
