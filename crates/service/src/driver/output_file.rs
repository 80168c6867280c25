//! Creates the file at the path that the service chose.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, Uid, fchown, open, openat};
use rustix::io::Errno;

use crate::OutputPath;

/// Creates the file, readable and writable only by its owner.
pub(super) fn create(output: &OutputPath) -> io::Result<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let fd = match &output.folder {
        None => open(&output.path, flags, mode)?,
        Some(folder) => {
            let name = output.path.file_name().ok_or(Errno::INVAL)?;
            let parents = output.path.parent().unwrap_or(Path::new(""));
            openat(descend(folder, parents)?, name, flags, mode)?
        }
    };
    if let Some(user) = output.owner {
        // Without the privilege, the service remains the owner, and the consumer has to ask for the
        // file.
        let _ = fchown(&fd, Some(Uid::from_raw(user)), None);
    }
    Ok(fd)
}

/// Descends from a folder name by name, and refuses symbolic links, which another user may have
/// created.
fn descend(folder: &Path, parents: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = open(folder, flags, Mode::empty())?;
    for part in parents.components() {
        match part {
            Component::Normal(name) => {
                at = openat(&at, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
            }
            Component::CurDir => {}
            _ => return Err(Errno::INVAL.into()),
        }
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn output(folder: Option<&Path>, path: impl AsRef<Path>) -> OutputPath {
        OutputPath {
            folder: folder.map(Path::to_owned),
            path: path.as_ref().to_owned(),
            owner: None,
        }
    }

    #[test]
    fn a_file_is_private_to_its_owner_and_links_are_refused() {
        let outer = std::env::temp_dir().join(format!("ferretto-output-{}", std::process::id()));
        let (folder, elsewhere) = (outer.join("folder"), outer.join("elsewhere"));
        std::fs::create_dir_all(folder.join("sub")).unwrap();
        std::fs::create_dir(&elsewhere).unwrap();

        create(&output(None, folder.join("one"))).unwrap();
        create(&output(Some(&folder), "sub/two")).unwrap();
        for name in ["one", "sub/two"] {
            let status = std::fs::metadata(folder.join(name)).unwrap();
            assert_eq!(status.permissions().mode() & 0o777, 0o600, "{name}");
        }
        symlink(&elsewhere, folder.join("link")).unwrap();
        symlink(elsewhere.join("file"), folder.join("file")).unwrap();
        for name in [
            "link/file",
            "file",
            "one",
            "../elsewhere/file",
            "sub/two/three",
        ] {
            assert!(create(&output(Some(&folder), name)).is_err(), "{name}");
        }
        assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
        // The folder itself was chosen by root.
        create(&output(Some(&folder.join("link")), "file")).unwrap();
        assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 1);
        std::fs::remove_dir_all(&outer).unwrap();
    }
}
