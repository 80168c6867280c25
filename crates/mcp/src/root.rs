//! Files below a folder.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, openat, openat2, statat};
use rustix::io::Errno;

/// A folder that files are opened below.
#[derive(Debug)]
pub struct Root {
    folder: OwnedFd,
    path: PathBuf,
}

impl Root {
    /// Opens the folder.
    ///
    /// # Errors
    ///
    /// Fails if it is not a folder, or cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
        let folder = openat(CWD, &path, flags, Mode::empty())?;
        Ok(Self { folder, path })
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens an ordinary file to read.
    ///
    /// # Errors
    ///
    /// Fails with a sentence if it is not below the folder, or cannot be opened.
    pub fn file(&self, name: &str) -> Result<File, String> {
        // Opening a pipe waits for its writer.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let file = File::from(self.below(&self.relative(name)?, name, flags)?);
        match file.metadata() {
            Ok(metadata) if metadata.is_file() => Ok(file),
            _ => Err(format!("cannot open {name}: it is not a file")),
        }
    }

    /// Opens the folder of a file to write, and returns it with the name of the file in it.
    ///
    /// # Errors
    ///
    /// Fails with a sentence if it is not below the root, or something else than a file has its
    /// name.
    pub fn new_file(&self, name: &str) -> Result<NewFile, String> {
        let path = self.relative(name)?;
        let Some(file) = path.file_name() else {
            return Err(format!("cannot write {name}: it has no name of a file"));
        };
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let folder = self.below(parent, name, OFlags::DIRECTORY | OFlags::PATH)?;
        match statat(&folder, file, rustix::fs::AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => {}
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {}
            _ => return Err(format!("cannot write {name}: it is not a file")),
        }
        Ok(NewFile {
            folder,
            file: file.into(),
        })
    }

    /// Returns the path of a file relative to the root.
    fn relative(&self, name: &str) -> Result<PathBuf, String> {
        let path = Path::new(name);
        let path = if path.is_absolute() {
            path.strip_prefix(&self.path)
                .map_err(|_| self.outside(name))?
        } else {
            path
        };
        if path.components().any(|part| part == Component::ParentDir) {
            return Err(self.outside(name));
        }
        if path.as_os_str().is_empty() {
            Err("the name of the file is empty".to_owned())
        } else {
            Ok(path.to_owned())
        }
    }

    fn below(&self, path: &Path, name: &str, flags: OFlags) -> Result<OwnedFd, String> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let opened = openat2(
            &self.folder,
            path,
            flags | OFlags::CLOEXEC,
            Mode::empty(),
            resolve,
        );
        opened.map_err(|error| match error {
            Errno::XDEV => self.outside(name),
            Errno::NOSYS => {
                format!("cannot open {name}: this kernel is too old to keep files below a folder")
            }
            Errno::NOENT => format!("cannot open {name}: there is no such file below the root"),
            error => format!("cannot open {name}: {}", io::Error::from(error).kind()),
        })
    }

    fn outside(&self, name: &str) -> String {
        format!(
            "{name} is not below {}; start ferretto mcp with --root of a folder that contains it",
            self.path.display()
        )
    }
}

/// A file to write: its folder and its name.
#[derive(Debug)]
pub struct NewFile {
    folder: OwnedFd,
    file: PathBuf,
}

impl NewFile {
    /// Returns a path of the file that child processes can open, too, as long as this exists.
    pub fn path(&self) -> PathBuf {
        path_of(self.folder.as_raw_fd()).join(&self.file)
    }
}

/// Returns a path of an open file that child processes can open, too.
fn path_of(descriptor: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{descriptor}", std::process::id()))
}

/// Returns a path of an open file that child processes can open, too.
pub fn path_of_file(file: &File) -> PathBuf {
    path_of(file.as_raw_fd())
}
