//! Numbered files that are the parts of a trace.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::output::{check_replaced, is_locked, lock};

/// The files of the parts. Each is written under a temporary name and renamed when complete.
#[derive(Debug)]
pub(crate) struct Parts {
    path: PathBuf,
    /// The files that are read meanwhile, which no part may replace.
    inputs: Vec<PathBuf>,
    /// The number of newest parts to keep.
    keep: Option<usize>,
    complete: VecDeque<PathBuf>,
    /// The newest complete part, which stays locked.
    newest: Option<File>,
}

/// The part that is being written. It is removed if it is not finished.
#[derive(Debug)]
pub(crate) struct Part {
    out: BufWriter<File>,
    beside: PathBuf,
    path: PathBuf,
    is_complete: bool,
}

impl Parts {
    /// Creates parts named after the file at `path`: `trace-000.pftrace` and so on.
    pub(crate) fn new(path: &Path, inputs: &[&Path], keep: Option<usize>) -> Self {
        Self {
            path: path.to_path_buf(),
            inputs: inputs.iter().map(|input| input.to_path_buf()).collect(),
            keep,
            complete: VecDeque::new(),
            newest: None,
        }
    }

    /// Returns true if another process writes parts of this name.
    pub(crate) fn are_busy(&self) -> bool {
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let Ok(entries) = fs::read_dir(folder) else {
            return false;
        };
        let names = entries.flatten().map(|entry| entry.file_name());
        let mut parts = names.filter(|name| self.is_part(Path::new(name)));
        parts.any(|name| is_locked(&folder.join(name)))
    }

    /// Returns true for the name of a part, complete or not.
    fn is_part(&self, name: &Path) -> bool {
        let bytes = |text: Option<&OsStr>| text.unwrap_or_default().as_encoded_bytes().to_vec();
        let name = if bytes(name.extension()) == b"part" {
            Path::new(name.file_stem().unwrap_or_default())
        } else {
            name
        };
        let (stem, of) = (bytes(name.file_stem()), bytes(self.path.file_stem()));
        let number = stem
            .strip_prefix(&of[..])
            .and_then(|rest| rest.strip_prefix(b"-"));
        let is_number = number.is_some_and(|it| it.len() > 2 && it.iter().all(u8::is_ascii_digit));
        is_number && name.extension() == self.path.extension()
    }

    /// Finishes the current part, and begins the one with this number.
    ///
    /// # Errors
    ///
    /// Fails if a part cannot be written.
    pub(crate) fn next(&mut self, number: u32, before: Option<Part>) -> io::Result<Part> {
        before.map_or(Ok(()), |before| self.finish(before))?;
        let path = self.numbered(number);
        check_replaced(&path, &self.inputs)
            .map_err(|error| io::Error::other(format!("{error:#}")))?;
        let mut beside = OsString::from(&path);
        beside.push(".part");
        let beside = PathBuf::from(beside);
        let mut options = OpenOptions::new();
        // Traces contain private data, and existing links are not followed.
        options.write(true).create_new(true).mode(0o600);
        let file = match options.open(&beside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(&beside).and_then(|()| options.open(&beside))
            }
            other => other,
        };
        let file = file.map_err(|error| named(&beside, &error))?;
        lock(&file);
        Ok(Part {
            out: BufWriter::new(file),
            beside,
            path,
            is_complete: false,
        })
    }

    /// Renames a complete part, and removes the oldest ones.
    ///
    /// # Errors
    ///
    /// Fails if renaming or removing fails.
    pub(crate) fn finish(&mut self, mut part: Part) -> io::Result<()> {
        part.out
            .flush()
            .map_err(|error| named(&part.path, &error))?;
        fs::rename(&part.beside, &part.path).map_err(|error| named(&part.path, &error))?;
        part.is_complete = true;
        self.newest = part.out.get_ref().try_clone().ok();
        self.complete.push_back(part.path.clone());
        if self.keep.is_some_and(|keep| self.complete.len() > keep)
            && let Some(oldest) = self.complete.pop_front()
        {
            fs::remove_file(&oldest).map_err(|error| named(&oldest, &error))?;
        }
        Ok(())
    }

    /// Returns the existing files.
    pub(crate) fn complete(&self) -> impl Iterator<Item = &Path> {
        self.complete.iter().map(PathBuf::as_path)
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = self.path.file_stem().unwrap_or_default().to_owned();
        name.push(format!("-{number:03}"));
        if let Some(extension) = self.path.extension() {
            name.push(".");
            name.push(extension);
        }
        self.path.with_file_name(name)
    }
}

/// Adds the name of a file to an error.
fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

impl Write for Part {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes);
        written.map_err(|error| named(&self.path, &error))
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.flush();
        flushed.map_err(|error| named(&self.path, &error))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.is_complete {
            // If it cannot be removed, the next recording overwrites it.
            let _ = fs::remove_file(&self.beside);
        }
    }
}
