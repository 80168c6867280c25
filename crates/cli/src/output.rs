//! Output files of commands: never one of their inputs.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Seek as _, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;

/// Writes a file, whole, or standard output if the path is `-`. `inputs` are the files that `write`
/// reads or has read, `-` among them being standard input.
///
/// # Errors
///
/// If the output is one of the inputs, under any name, which is left as it is; or if it cannot be
/// written.
pub(crate) fn write(
    path: &Path,
    inputs: &[&Path],
    write: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    let (name, out): (_, Box<dyn Write>) = match is_standard(path) {
        true => {
            check_standard_output(inputs)?;
            ("standard output".to_owned(), Box::new(io::stdout().lock()))
        }
        false => (path.display().to_string(), Box::new(create(path, inputs)?)),
    };
    let mut out = BufWriter::new(out);
    write(&mut out).with_context(|| format!("cannot write {name}"))?;
    out.flush().with_context(|| format!("cannot write {name}"))
}

/// Writes a file beside its place, whole, and then moves it there, so that nobody sees a part of
/// it. Only its owner may read it.
///
/// # Errors
///
/// If the output is one of the inputs, or if it cannot be written. An earlier file stays.
pub(crate) fn replace(
    path: &Path,
    inputs: &[&Path],
    write: impl FnOnce(&mut BufWriter<&File>) -> Result<()>,
) -> Result<()> {
    let name = path.display();
    if let Ok(there) = path.metadata() {
        if !there.is_file() {
            // A device, say, or a pipe: nothing can take its place.
            return self::write(path, inputs, |out| {
                let mut file = tempfile::tempfile()?;
                let mut buffer = BufWriter::new(&file);
                write(&mut buffer)?;
                buffer.flush()?;
                drop(buffer);
                file.rewind()?;
                io::copy(&mut file, out)?;
                Ok(())
            });
        }
        if let Some(input) = same(&there, inputs) {
            bail!(
                "{name} is the same file as {input}, which it is made from; name another one with -o"
            );
        }
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let file = tempfile::Builder::new()
        .prefix(".ferretto-")
        .tempfile_in(folder.unwrap_or(Path::new(".")))
        .with_context(|| format!("cannot write {name}"))?;
    let mut out = BufWriter::new(file.as_file());
    write(&mut out).with_context(|| format!("cannot write {name}"))?;
    out.flush()
        .with_context(|| format!("cannot write {name}"))?;
    drop(out);
    file.persist(path)
        .with_context(|| format!("cannot write {name}"))?;
    Ok(())
}

/// Creates or empties a file that is none of `inputs`.
///
/// # Errors
///
/// If it is one of them, which is left as it is; or if it cannot be written.
pub(crate) fn create(path: &Path, inputs: &[&Path]) -> Result<File> {
    let name = path.display();
    // Emptied only when it is known which file it is.
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

/// Refuses a file, opened at `path`, that is one of `inputs`.
///
/// # Errors
///
/// If it is one of them.
pub(crate) fn refuse_inputs(file: &File, path: &Path, inputs: &[&Path]) -> Result<()> {
    let name = path.display();
    if let Some(input) = same(&file.metadata()?, inputs) {
        bail!(
            "{name} is the same file as {input}, which it is made from; name another one with -o"
        );
    }
    Ok(())
}

/// Refuses a standard output that is one of `inputs`: the output would be read again.
///
/// # Errors
///
/// If it is one of them.
pub(crate) fn check_standard_output(inputs: &[&Path]) -> Result<()> {
    if let Some(input) = standard_output().and_then(|output| same(&output, inputs)) {
        bail!("standard output is the same file as {input}; send it to another one");
    }
    Ok(())
}

/// The name of the input that the output is.
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

/// Keeps a file from being written by another recording, for as long as it is open here or where it
/// was passed to. `false` if another has it. Where files cannot be locked, nothing is.
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

/// Returns true if a path stands for standard output, or input.
pub(crate) fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}
