//! The mounted hierarchies of control groups.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ferretto_format::cgroup::{MAX_PATH, Mounted};

use super::Counters;
use super::counters::{Source, V1, V2};

/// The maximum number of folders of a hierarchy that are looked at.
const MAX_FOLDERS: usize = 16 << 10;

/// A mounted hierarchy.
#[derive(Debug)]
pub(super) struct Hierarchy {
    mount: PathBuf,
    /// The path of the group at the mount, without a slash at its end.
    root: String,
    sources: Vec<&'static Source>,
}

/// Returns the hierarchies of this process: that of version 2, and those of version 1 that have
/// counters.
pub(super) fn find(root: &Path) -> Vec<Hierarchy> {
    let text = fs::read(root.join("proc/self/mountinfo")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut found: Vec<Hierarchy> = Vec::new();
    for line in text.lines() {
        let Some(mounted) = Mounted::parse(line) else {
            continue;
        };
        let sources: Vec<&'static Source> = if mounted.is_unified() {
            V2.iter().collect()
        } else {
            let has = |source: &&Source| mounted.has(source.controller);
            V1.iter().filter(has).collect()
        };
        // The same hierarchy may be mounted again elsewhere.
        let is_known = found.iter().any(|it| it.sources == sources);
        if sources.is_empty() || is_known {
            continue;
        }
        found.push(Hierarchy {
            mount: root.join(mounted.folder.trim_start_matches('/')),
            // Outside of the namespace of this process, whose names nobody here knows.
            root: match mounted.root.trim_end_matches('/') {
                outside if outside.contains("/..") => String::new(),
                group => group.to_owned(),
            },
            sources,
        });
    }
    found
}

impl Hierarchy {
    /// Passes on the path of each group. Returns a folder that could not be read.
    pub(super) fn walk(&self, mut visit: impl FnMut(String)) -> Option<(PathBuf, io::Error)> {
        let mut refused = None;
        let mut waiting = vec![self.mount.clone()];
        let mut count = 0;
        while let Some(folder) = waiting.pop() {
            if let Some(path) = self.group_at(&folder) {
                visit(path);
            }
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) => {
                    if error.kind() == io::ErrorKind::PermissionDenied {
                        refused.get_or_insert((folder, error));
                    }
                    continue;
                }
            };
            for entry in entries.flatten() {
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_folder && count < MAX_FOLDERS {
                    count += 1;
                    waiting.push(entry.path());
                }
            }
        }
        refused
    }

    fn group_at(&self, folder: &Path) -> Option<String> {
        let below = folder.strip_prefix(&self.mount).ok()?.to_str()?;
        let path = match (self.root.as_str(), below) {
            ("", "") => "/".to_owned(),
            (root, "") => root.to_owned(),
            (root, below) => format!("{root}/{below}"),
        };
        (path.len() <= MAX_PATH).then_some(path)
    }

    /// Returns the files of a group that exist.
    pub(super) fn counters(&self, path: &str) -> Vec<Counters> {
        let Some(below) = path.strip_prefix(&self.root) else {
            return Vec::new();
        };
        let folder = self.mount.join(below.trim_start_matches('/'));
        let all = self.sources.iter().map(|source| Counters {
            path: folder.join(source.file),
            source,
        });
        all.filter(|counters| counters.path.exists()).collect()
    }
}
