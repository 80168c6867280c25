//! Output files, which never overwrite an input or write into files of other users.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{Access, FlockOperation, Mode, OFlags, access, fdatasync, flock};
use rustix::io::{Errno, retry_on_intr};

use crate::unfinished::Unfinished;
use ferretto_client::destination::{Destination, RegularFile};

/// Writes a file, or standard output if the path is `-`. `inputs` are the files that `write` reads
/// or has read, `-` among them being standard input.
///
/// A file is written under a temporary name in its folder and then renamed, so that it is never
/// incomplete, an earlier file is kept if writing fails, and a file of another user is replaced,
/// not written into. Devices and pipes are written directly. Users who may not read all inputs and
/// an earlier file may not read the new one.
///
/// # Errors
///
/// Fails if the output is one of the inputs, under any name, without changing it; if another user
/// may have planted it as a link or pipe; or if it cannot be written.
pub fn write(
    path: &Path,
    inputs: &[&Path],
    write: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    put(path, inputs, EVERYBODY, write)
}

/// Writes a trace like [`write`]. Only the owner can read a new file.
///
/// # Errors
///
/// Those of [`write`].
pub fn write_private(
    path: &Path,
    inputs: &[&Path],
    write: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    put(path, inputs, OWNER, write)
}

/// The permissions of a new file, before the user's umask.
const EVERYBODY: u32 = 0o666;
const OWNER: u32 = 0o600;

fn put(
    path: &Path,
    inputs: &[&Path],
    mode: u32,
    write: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    if is_standard(path) {
        return put_on_standard_output(inputs, write);
    }
    let name = path.display().to_string();
    let cannot_write = || format!("cannot write {name}");
    let target = match Destination::of(path).with_context(cannot_write)? {
        Destination::Regular(target) => target,
        Destination::Special(_) if is_standard_output(path) => {
            return put_on_standard_output(inputs, write);
        }
        Destination::Special(special) => {
            let file = special.open(OpenOptions::new().write(true));
            let file = file.with_context(cannot_write)?;
            refuse_inputs(&file, path, inputs)?;
            truncate(&file).with_context(cannot_write)?;
            return fill(file, &name, write);
        }
    };
    let existing = fs::symlink_metadata(&target.path).ok();
    if let Some(existing) = &existing {
        refuse_input(existing, path, inputs)?;
    }
    if let Err(error) = access(target.folder(), Access::WRITE_OK | Access::EXEC_OK) {
        // A file may be writable in a folder in which none can be created.
        if existing.is_none() {
            return Err(io::Error::from(error)).with_context(cannot_write);
        }
        let file = target.open(OpenOptions::new().write(true));
        let file = file.with_context(cannot_write)?;
        refuse_inputs(&file, path, inputs)?;
        truncate(&file).with_context(cannot_write)?;
        return fill(file, &name, write);
    }
    let existing = existing.filter(|_| !target.may_be_planted);
    let mode = mode & permitted(&target, inputs, existing.as_ref());
    let (file, unfinished) =
        Unfinished::create(target.folder(), mode).with_context(cannot_write)?;
    fill(file.as_file(), &name, write)?;
    if existing.is_some() {
        write_to_disk(file.as_file()).with_context(cannot_write)?;
    }
    file.persist(&target.path).with_context(cannot_write)?;
    drop(unfinished);
    Ok(())
}

/// Writes a file to the disk before it replaces another one. Otherwise an empty file may be left if
/// the power fails, since the new name can be on the disk before the content is.
fn write_to_disk(file: &File) -> io::Result<()> {
    match retry_on_intr(|| fdatasync(file)) {
        // The file system has nothing to write.
        Ok(()) | Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn put_on_standard_output(
    inputs: &[&Path],
    write: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    check_standard_output(inputs)?;
    fill(io::stdout().lock(), "standard output", write)
}

/// Returns the permissions of an output: users who may not read all inputs and the earlier file may
/// not read it. The owner may always read and write it.
fn permitted(target: &RegularFile, inputs: &[&Path], existing: Option<&Metadata>) -> u32 {
    const GROUP: u32 = 0o070;
    const OTHERS: u32 = 0o007;
    let group = match target.folder().metadata() {
        Ok(folder) if folder.mode() & 0o2000 != 0 => folder.gid(),
        _ => rustix::process::getegid().as_raw(),
    };
    let inputs = inputs.iter().filter_map(|input| {
        if is_standard(input) {
            metadata(io::stdin())
        } else {
            input.metadata().ok()
        }
    });
    let mode = inputs
        .chain(existing.cloned())
        .fold(EVERYBODY, |mode, file| {
            // The group of a file means other users than that of the output.
            let is_other_group = file.gid() != group && file.mode() & OTHERS == 0;
            let hidden = if is_other_group { GROUP } else { 0 };
            mode & file.mode() & !hidden
        });
    mode | OWNER
}

/// Truncates a regular file.
fn truncate(file: &File) -> io::Result<()> {
    if file.metadata()?.is_file() {
        file.set_len(0)
    } else {
        Ok(())
    }
}

/// Creates a file under its final name, to be written while others read it. A file of this user is
/// truncated, except in folders that others may write to, where it is replaced. Returns `None` if
/// another recording is being written to it.
///
/// # Errors
///
/// Fails if it is one of `inputs`, without changing it; or if it cannot be created.
pub fn create(
    target: &RegularFile,
    path: &Path,
    inputs: &[&Path],
    mode: u32,
) -> Result<Option<File>> {
    let name = path.display().to_string();
    let cannot_write = || format!("cannot write {name}");
    if target.is_in_shared_folder() {
        if let Ok(existing) = fs::symlink_metadata(&target.path) {
            refuse_input(&existing, path, inputs)?;
        }
        let (file, unfinished) =
            Unfinished::create(target.folder(), mode).with_context(cannot_write)?;
        // Both are locked, so that no other recording replaces either.
        if !lock(file.as_file()) || is_locked(&target.path) {
            return Ok(None);
        }
        let file = file.persist(&target.path).with_context(cannot_write)?;
        drop(unfinished);
        return Ok(Some(file));
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(mode);
    // Truncated only after the checks.
    let file = target.open(&options).with_context(cannot_write)?;
    refuse_inputs(&file, path, inputs)?;
    if !lock(&file) {
        return Ok(None);
    }
    file.set_len(0).with_context(cannot_write)?;
    Ok(Some(file))
}

/// Checks that the file at `path` can be replaced by another one: it is missing or a regular file
/// of this user, or a link, which is not followed.
///
/// # Errors
///
/// Fails if it cannot be replaced, or is one of `inputs`.
pub fn check_replaced(path: &Path, inputs: &[PathBuf]) -> Result<()> {
    let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
    if let Ok(found) = fs::symlink_metadata(path) {
        refuse_input(&found, path, &inputs)?;
    }
    let cannot_write = || format!("cannot write {}", path.display());
    match Destination::of(path).with_context(cannot_write)? {
        Destination::Regular(_) => Ok(()),
        Destination::Special(_) => bail!("cannot write {}: it is not a file", path.display()),
    }
}

/// Opens a file that was read from `path` to append to it.
///
/// # Errors
///
/// Fails if it cannot be written, or if `path` is another file by now.
pub fn append_to(path: &Path, read: &File) -> io::Result<File> {
    let file = OpenOptions::new().append(true).open(path)?;
    let (there, read) = (file.metadata()?, read.metadata()?);
    if (there.dev(), there.ino()) != (read.dev(), read.ino()) {
        return Err(io::Error::other("it was replaced by another file"));
    }
    Ok(file)
}

fn fill(
    out: impl Write,
    name: &str,
    write: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    let mut out = BufWriter::new(out);
    write(&mut out).with_context(|| format!("cannot write {name}"))?;
    out.flush().with_context(|| format!("cannot write {name}"))
}

/// Checks that a file, opened at `path`, is not one of `inputs`.
///
/// # Errors
///
/// Fails if it is one of them.
pub fn refuse_inputs(file: &File, path: &Path, inputs: &[&Path]) -> Result<()> {
    refuse_input(&file.metadata()?, path, inputs)
}

fn refuse_input(found: &Metadata, path: &Path, inputs: &[&Path]) -> Result<()> {
    if let Some(input) = same(found, inputs) {
        let name = path.display();
        bail!("{name} is the same file as the input {input}; choose another output");
    }
    Ok(())
}

/// Checks that standard output is not one of `inputs`, since it would be read again.
///
/// # Errors
///
/// Fails if it is one of them.
pub fn check_standard_output(inputs: &[&Path]) -> Result<()> {
    if let Some(input) = metadata(io::stdout()).and_then(|output| same(&output, inputs)) {
        bail!("standard output is the same file as the input {input}; redirect it to another one");
    }
    Ok(())
}

/// Returns the name of the input that is the same file as the output.
fn same(output: &Metadata, inputs: &[&Path]) -> Option<String> {
    if !output.is_file() {
        return None;
    }
    let is_output = |input: &Metadata| (input.dev(), input.ino()) == (output.dev(), output.ino());
    inputs.iter().find_map(|input| {
        let (name, metadata) = if is_standard(input) {
            ("standard input".to_owned(), metadata(io::stdin()))
        } else {
            (input.display().to_string(), input.metadata().ok())
        };
        metadata.filter(is_output).map(|_| name)
    })
}

/// Returns true if a path is standard output, such as `/dev/stdout`.
pub fn is_standard_output(path: &Path) -> bool {
    let (Ok(there), Some(output)) = (path.metadata(), metadata(io::stdout())) else {
        return false;
    };
    (there.dev(), there.ino()) == (output.dev(), output.ino())
}

/// Locks a file against other recordings while it or a copy of its descriptor is open. Returns
/// false if another recording has it. Files that cannot be locked are not protected.
pub fn lock(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK)
}

/// Returns true if a recording is being written to the file at `path`.
pub fn is_locked(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).is_ok_and(|file| {
        flock(file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
    })
}

fn metadata(stream: impl AsFd) -> Option<Metadata> {
    let file: File = stream.as_fd().try_clone_to_owned().ok()?.into();
    file.metadata().ok()
}

/// Returns true if a path means standard output or input.
pub fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}
