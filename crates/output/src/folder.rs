//! Output folders.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use ferretto_client::destination::Destination;
use tempfile::TempDir;

/// A new folder, which is written under another name beside its own, and removed if it is dropped
/// before [`finish`](Self::finish).
#[derive(Debug)]
pub struct Folder {
    draft: TempDir,
    target: PathBuf,
    name: String,
}

impl Folder {
    /// Begins a folder, which only its owner can enter until it is complete.
    ///
    /// # Errors
    ///
    /// Fails if there is a file or a folder with entries already, if another user may have planted
    /// it, or if the folder cannot be created.
    pub fn new(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let cannot_write = || format!("cannot write to {name}");
        let taken = || format!("{name} exists already and is not an empty folder: name a new one");
        let target = match fs::symlink_metadata(path) {
            // A link to a folder that does not exist yet is followed if nobody else made it.
            Ok(found) if found.is_dir() => std::path::absolute(path).with_context(cannot_write)?,
            _ => match Destination::of(path) {
                Ok(Destination::Regular(file)) if fs::symlink_metadata(&file.path).is_err() => {
                    std::path::absolute(file.path).with_context(cannot_write)?
                }
                Ok(_) => bail!(taken()),
                // A link to a folder.
                Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                    path.canonicalize().with_context(cannot_write)?
                }
                Err(error) => return Err(error).with_context(cannot_write),
            },
        };
        if let Ok(mut entries) = fs::read_dir(&target)
            && entries.next().is_some()
        {
            bail!(taken());
        }
        let parent = target.parent().unwrap_or(Path::new("/"));
        let draft = tempfile::Builder::new()
            .prefix(".ferretto-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(parent)
            .with_context(cannot_write)?;
        Ok(Self {
            draft,
            target,
            name,
        })
    }

    /// Returns the path of the folder until it is complete.
    pub fn path(&self) -> &Path {
        self.draft.path()
    }

    /// Creates a file below the folder, and the folders on its way.
    ///
    /// # Errors
    ///
    /// Fails if the file exists or cannot be created.
    pub fn create(&self, name: impl AsRef<Path>) -> io::Result<File> {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
        File::create_new(path)
    }

    /// Gives the folder its name. An empty folder is replaced. Others get the permissions of the
    /// process's new folders, if they may read all `inputs`.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot be renamed. It is removed then.
    pub fn finish<'a>(self, inputs: impl IntoIterator<Item = &'a Path>) -> Result<()> {
        let cannot_write = || format!("cannot write to {}", self.name);
        // The permissions of a new folder are those that the mask of the process leaves.
        let example = self.path().join(".mode");
        fs::create_dir(&example)
            .and_then(|()| fs::metadata(&example))
            .and_then(|made| {
                fs::remove_dir(&example)?;
                let mode = made.mode() & permitted(inputs);
                fs::set_permissions(self.path(), Permissions::from_mode(mode))
            })
            .with_context(cannot_write)?;
        fs::rename(self.draft.path(), &self.target).with_context(cannot_write)
    }
}

/// Returns the permissions for a folder: users who may not read all inputs may not enter it.
fn permitted<'a>(inputs: impl IntoIterator<Item = &'a Path>) -> u32 {
    const GROUP: (u32, u32) = (0o040, 0o070);
    const OTHERS: (u32, u32) = (0o004, 0o007);
    let found = inputs.into_iter().filter_map(|input| input.metadata().ok());
    found.fold(0o777, |mode, input| {
        let hidden = [GROUP, OTHERS].into_iter();
        let hidden = hidden.filter(|(read, _)| input.mode() & read == 0);
        hidden.fold(mode, |mode, (_, all)| mode & !all)
    })
}
