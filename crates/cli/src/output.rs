//! Output files of commands, which never overwrite an input.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, BufWriter, Read as _, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use anyhow::{Context, Result, bail};
use rustix::fs::{Access, FlockOperation, Mode, OFlags, access, flock};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tempfile::NamedTempFile;

/// Writes a file, or standard output if the path is `-`. `inputs` are the files that `write` reads
/// or has read, `-` among them being standard input.
///
/// A file is written beside its place and then moved there, so that nobody sees a part of it, and
/// an earlier one stays if it cannot be written. Devices and pipes are written as they are.
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

/// The same for a trace: a new file can be read by its owner alone.
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

/// Permissions of a new file, of which the user's mask takes some away.
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
    // A link stays a link, to a new file.
    let place = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let there = place.metadata().ok();
    if there.as_ref().is_some_and(|there| !there.is_file()) {
        return fill(create(path, inputs)?, &name, write);
    }
    if let Some(input) = there.as_ref().and_then(|there| same(there, inputs)) {
        bail!(
            "{name} is the same file as {input}, which it is made from; name another one with -o"
        );
    }
    let folder = place.parent().filter(|it| !it.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if let Err(error) = access(folder, Access::WRITE_OK | Access::EXEC_OK) {
        // A file may be written where none can be made.
        return match there {
            Some(_) => fill(create(path, inputs)?, &name, write),
            None => Err(io::Error::from(error)).with_context(|| format!("cannot write {name}")),
        };
    }
    let (file, unfinished) =
        Unfinished::create(folder, mode).with_context(|| format!("cannot write {name}"))?;
    fill(file.as_file(), &name, write)?;
    file.persist(&place)
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

/// A file that is removed if a signal ends this process.
#[derive(Debug)]
struct Unfinished(PathBuf);

/// The files to remove.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

impl Unfinished {
    /// Makes a file and watches over it until the second result is dropped. Where signals cannot be
    /// taken over, the file would stay.
    fn create(folder: &Path, mode: u32) -> io::Result<(NamedTempFile, Self)> {
        static WATCHING: Once = Once::new();
        WATCHING.call_once(|| drop(remove_at_signals()));
        // Held, so that a signal now waits until the file is known.
        let mut list = list();
        let file = tempfile::Builder::new()
            .prefix(".ferretto-")
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(folder)?;
        let path = file.path().to_owned();
        list.push(path.clone());
        drop(list);
        Ok((file, Self(path)))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        list().retain(|path| *path != self.0);
    }
}

fn list() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a thread that waits for a signal to end.
fn remove_at_signals() -> io::Result<()> {
    let signalled = Arc::new(AtomicUsize::new(0));
    let (mut read, write) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_usize(signal, Arc::clone(&signalled), signal as usize)?;
        signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
    }
    let wait = move || {
        if read.read_exact(&mut [0]).is_ok() {
            // Held to the end, so that nothing is finished meanwhile.
            let unfinished = list();
            for path in &*unfinished {
                let _ = fs::remove_file(path);
            }
            let signal = signalled.load(Ordering::Acquire) as i32;
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    };
    let thread = std::thread::Builder::new().name("signals".to_owned());
    thread.spawn(wait).map(drop)
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
