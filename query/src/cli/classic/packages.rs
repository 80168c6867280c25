//! Modules of SQL in folders.

use std::io;
use std::path::Path;

/// Reads the modules of a folder: `DIR/a/b.sql` is `NAME.a.b`.
pub(super) fn read(argument: &str) -> Result<Vec<(String, String)>, String> {
    let (folder, name) = match argument.rsplit_once('@') {
        Some((folder, name)) => (Path::new(folder), name.to_owned()),
        None => {
            let folder = Path::new(argument);
            let name = folder.file_name().map(|n| n.to_string_lossy().into_owned());
            (folder, name.unwrap_or_default())
        }
    };
    let mut modules = Vec::new();
    let mut folders = vec![(folder.to_owned(), name)];
    while let Some((folder, name)) = folders.pop() {
        let failed = |e: io::Error| format!("cannot read {}: {e}", folder.display());
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned());
            let module = format!("{name}.{}", stem.unwrap_or_default());
            // Links are not followed: they can form cycles.
            if path.is_dir() && !path.is_symlink() {
                folders.push((path, module));
            } else if path.extension().is_some_and(|e| e == "sql") {
                let sql = std::fs::read_to_string(&path)
                    .map_err(|e| format!("cannot read {}: {e}", path.display()))?;
                modules.push((module, sql));
            }
        }
    }
    Ok(modules)
}

/// Reads the modules of all packages of a folder.
pub(super) fn read_all(folder: &Path) -> Result<Vec<(String, String)>, String> {
    let failed = |e: io::Error| format!("cannot read {}: {e}", folder.display());
    let mut modules = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() && !path.is_symlink() {
            modules.extend(read(&path.to_string_lossy())?);
        }
    }
    Ok(modules)
}
