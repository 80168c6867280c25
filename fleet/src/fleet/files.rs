//! Finds the files of many traces by paths, patterns, folders and addresses of object stores.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::TryStreamExt;
use glob::{MatchOptions, Pattern};
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt};
use url::Url;

use crate::error::SqlError;

/// The file of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceFile {
    /// The id of the trace in tables, a hash of its path.
    pub id: String,
    /// The path, or the address in an object store.
    pub path: String,
    /// The size of the file in bytes.
    pub size: u64,
}

impl TraceFile {
    fn new(path: String, size: u64) -> Self {
        // FNV-1a. With the letter, readers of partitioned files do not take the id for a number.
        let hash = path.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self {
            id: format!("t{hash:016x}"),
            path,
            size,
        }
    }
}

/// The rules of patterns: wildcards do not match slashes, nor the dot of hidden files.
const MATCH: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// Returns true if a name is a pattern and not a file.
pub fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?', '[']) && !Path::new(name).exists()
}

/// Returns true if a name is an address of an object store.
pub fn is_address(name: &str) -> bool {
    name.split_once("://")
        .is_some_and(|(scheme, _)| scheme.chars().all(|c| c.is_ascii_alphanumeric()))
}

/// Finds the files of all names. Returns each once, sorted by path.
///
/// # Errors
///
/// Fails if there is no file of a name, or if a folder or store cannot be listed.
pub async fn find(names: &[String]) -> Result<Vec<TraceFile>, SqlError> {
    let mut files = Vec::new();
    for name in names {
        let before = files.len();
        if is_address(name) {
            find_in_store(name, &mut files).await?;
        } else {
            find_local(name, &mut files)?;
        }
        if files.len() == before {
            return Err(SqlError::new(format!("{name}: no such file")));
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.dedup();
    Ok(files)
}

fn find_local(name: &str, files: &mut Vec<TraceFile>) -> Result<(), SqlError> {
    let mut paths: Vec<PathBuf> = Vec::new();
    if is_pattern(name) {
        let found = glob::glob_with(name, MATCH)
            .map_err(|e| SqlError::new(format!("{name} is not a pattern: {e}")))?;
        for path in found {
            let path = path.map_err(|e| SqlError::new(format!("cannot read a folder: {e}")))?;
            if path.is_file() {
                paths.push(path);
            }
        }
    } else if Path::new(name).is_dir() {
        let mut folders = vec![PathBuf::from(name)];
        while let Some(folder) = folders.pop() {
            let failed =
                |e: std::io::Error| SqlError::new(format!("cannot read {}: {e}", folder.display()));
            for entry in std::fs::read_dir(&folder).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let kind = entry.file_type().map_err(failed)?;
                if entry.file_name().to_string_lossy().starts_with('.') {
                    continue;
                }
                // Links to folders are not followed: they can form cycles.
                if kind.is_dir() {
                    folders.push(entry.path());
                } else if entry.path().is_file() {
                    paths.push(entry.path());
                }
            }
        }
    } else if Path::new(name).exists() {
        paths.push(PathBuf::from(name));
    }
    for path in paths {
        let absolute = std::path::absolute(&path)
            .map_err(|e| SqlError::new(format!("{}: {e}", path.display())))?;
        let size = std::fs::metadata(&absolute).map_or(0, |data| data.len());
        files.push(TraceFile::new(
            absolute.to_string_lossy().into_owned(),
            size,
        ));
    }
    Ok(())
}

fn store_error(name: &str) -> impl Fn(object_store::Error) -> SqlError {
    move |error| SqlError::new(format!("{name}: {error}"))
}

/// Returns the store of an address, and the path within it. Credentials, regions and other
/// settings are read from the same environment variables as by the store's own tools.
pub(super) fn store(address: &str) -> Result<(Arc<dyn ObjectStore>, ObjectPath), SqlError> {
    let url = Url::parse(address)
        .map_err(|e| SqlError::new(format!("{address} is not an address: {e}")))?;
    let own = |name: &str| {
        ["AWS_", "AZURE_", "GOOGLE_"]
            .iter()
            .any(|own| name.starts_with(own))
    };
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let mut settings: Vec<(String, String)> = std::env::vars_os()
        .filter_map(text)
        .filter(|(name, _)| own(name))
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .collect();
    if url.scheme() == "http" {
        settings.push(("allow_http".to_owned(), "true".to_owned()));
    }
    let (store, path) =
        object_store::parse_url_opts(&url, settings).map_err(store_error(address))?;
    Ok((Arc::from(store), path))
}

async fn find_in_store(name: &str, files: &mut Vec<TraceFile>) -> Result<(), SqlError> {
    let failed = store_error(name);
    let pattern_at = name.find(['*', '?', '[']);
    let fixed = &name[..pattern_at.unwrap_or(name.len())];
    // A pattern can start in the middle of a name, so the folder before it is listed.
    let prefix = match pattern_at {
        Some(_) => &fixed[..=fixed.rfind('/').unwrap_or(0)],
        None => fixed,
    };
    let (store, path) = store(prefix)?;
    let root = prefix
        .strip_suffix(path.as_ref())
        .or_else(|| prefix.trim_end_matches('/').strip_suffix(path.as_ref()))
        .unwrap_or(prefix)
        .to_owned();
    if pattern_at.is_none()
        && !name.ends_with('/')
        && let Ok(meta) = store.head(&path).await
    {
        files.push(TraceFile::new(name.to_owned(), meta.size));
        return Ok(());
    }
    let pattern = match pattern_at {
        Some(_) => Some(
            Pattern::new(&name[root.len()..])
                .map_err(|e| SqlError::new(format!("{name} is not a pattern: {e}")))?,
        ),
        None => None,
    };
    let mut objects = store.list(Some(&path));
    while let Some(meta) = objects.try_next().await.map_err(&failed)? {
        let location = meta.location.as_ref();
        let wanted = pattern
            .as_ref()
            .is_none_or(|p| p.matches_with(location, MATCH));
        if wanted {
            files.push(TraceFile::new(format!("{root}{location}"), meta.size));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn patterns_and_folders_find_each_file_once() {
        let folder = tempfile::tempdir().expect("folder");
        let root = folder.path().to_string_lossy().into_owned();
        std::fs::create_dir_all(folder.path().join("a/b")).expect("folders");
        for name in [
            "a/one.pftrace",
            "a/b/two.pftrace",
            "a/b/other.txt",
            "a/.hidden.pftrace",
        ] {
            std::fs::write(folder.path().join(name), name).expect("file");
        }
        let names = |files: Vec<TraceFile>| -> Vec<String> {
            let short =
                |f: &TraceFile| f.path.trim_start_matches("file://")[root.len() + 1..].to_owned();
            files.iter().map(short).collect()
        };
        let find = async |names: &[&str]| {
            let all: Vec<String> = names.iter().map(|n| n.replace("ROOT", &root)).collect();
            find(&all).await
        };
        let traces = ["a/b/two.pftrace", "a/one.pftrace"];
        let twice = ["ROOT/**/*.pftrace", "ROOT/a/one.pftrace"];
        assert_eq!(names(find(&twice).await.expect("files")), traces);
        assert_eq!(
            names(find(&["ROOT/a/*"]).await.expect("files")),
            ["a/one.pftrace"]
        );
        let all = ["a/b/other.txt", "a/b/two.pftrace", "a/one.pftrace"];
        assert_eq!(names(find(&["ROOT"]).await.expect("files")), all);
        let address = find(&["file://ROOT/**/*.pftrace"]).await.expect("files");
        assert_eq!(address[0].size, 15);
        assert_eq!(names(address), traces);
        let none = find(&["ROOT/*.nothing"]).await.expect_err("no file");
        assert!(none.to_string().contains("no such file"), "{none}");
    }
}
