//! Output files of commands, which never overwrite an input.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use rustix::fs::{Access, FlockOperation, Mode, OFlags, access, flock};
use rustix::io::Errno;

use crate::unfinished::Unfinished;

/// Writes a file, or standard output if the path is `-`. `inputs` are the files that `write` reads
/// or has read, `-` among them being standard input.
///
/// A file is written under a temporary name in its folder and then renamed, so that it is never
/// incomplete, and an earlier file is kept if writing fails. Devices and pipes are written
/// directly.
///
/// # Errors
///
/// Fails if the output is one of the inputs, under any name, without changing it; or if it cannot
/// be written.
pub(crate) fn write(
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
pub(crate) fn write_private(
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
        check_standard_output(inputs)?;
        return fill(io::stdout().lock(), "standard output", write);
    }
    let name = path.display().to_string();
    // A link is kept, and points to the new file.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let existing = target.metadata().ok();
    if existing
        .as_ref()
        .is_some_and(|existing| !existing.is_file())
    {
        return fill(create(path, inputs)?, &name, write);
    }
    if let Some(input) = existing
        .as_ref()
        .and_then(|existing| same(existing, inputs))
    {
        bail!("{name} is the same file as the input {input}; choose another output with -o");
    }
    let folder = target.parent().filter(|it| !it.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if let Err(error) = access(folder, Access::WRITE_OK | Access::EXEC_OK) {
        // A file may be writable in a folder in which none can be created.
        return match existing {
            Some(_) => fill(create(path, inputs)?, &name, write),
            None => Err(io::Error::from(error)).with_context(|| format!("cannot write {name}")),
        };
    }
    let (file, unfinished) =
        Unfinished::create(folder, mode).with_context(|| format!("cannot write {name}"))?;
    fill(file.as_file(), &name, write)?;
    file.persist(&target)
        .with_context(|| format!("cannot write {name}"))?;
    drop(unfinished);
    Ok(())
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

/// Prints the names of written files, for people and for other commands. A result on standard
/// output has no name.
///
/// # Errors
///
/// Fails if standard output cannot be written.
pub(crate) fn print_written(paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<()> {
    let mut out = io::stdout().lock();
    for path in paths {
        if !is_standard(path.as_ref()) {
            writeln!(out, "{}", path.as_ref().display())
                .context("cannot write to standard output")?;
        }
    }
    Ok(())
}

/// Creates or truncates a file, which must not be one of `inputs`.
///
/// # Errors
///
/// Fails if it is one of them, without changing it; or if it cannot be written.
pub(crate) fn create(path: &Path, inputs: &[&Path]) -> Result<File> {
    let name = path.display();
    // Truncated only after the check.
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).open(path);
    let file = file.with_context(|| format!("cannot write {name}"))?;
    refuse_inputs(&file, path, inputs)?;
    if file.metadata()?.is_file() {
        file.set_len(0)
            .with_context(|| format!("cannot write {name}"))?;
    }
    Ok(file)
}

/// Checks that a file, opened at `path`, is not one of `inputs`.
///
/// # Errors
///
/// Fails if it is one of them.
pub(crate) fn refuse_inputs(file: &File, path: &Path, inputs: &[&Path]) -> Result<()> {
    let name = path.display();
    if let Some(input) = same(&file.metadata()?, inputs) {
        bail!("{name} is the same file as the input {input}; choose another output with -o");
    }
    Ok(())
}

/// Checks that standard output is not one of `inputs`, since it would be read again.
///
/// # Errors
///
/// Fails if it is one of them.
pub(crate) fn check_standard_output(inputs: &[&Path]) -> Result<()> {
    if let Some(input) = standard_output().and_then(|output| same(&output, inputs)) {
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
        let (name, metadata) = match is_standard(input) {
            true => ("standard input".to_owned(), metadata(io::stdin())),
            false => (input.display().to_string(), input.metadata().ok()),
        };
        metadata.filter(is_output).map(|_| name)
    })
}

/// Returns the identity of standard output.
pub(crate) fn standard_output() -> Option<Metadata> {
    metadata(io::stdout())
}

/// Locks a file against other recordings while it or a copy of its descriptor is open. Returns
/// false if another recording has it. Files that cannot be locked are not protected.
pub(crate) fn lock(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK)
}

/// Returns true if a recording is being written to the file at `path`.
pub(crate) fn is_locked(path: &Path) -> bool {
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
pub(crate) fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}
