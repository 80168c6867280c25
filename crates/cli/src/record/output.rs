//! The output of a recording.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ferretto_edit::Every;
use ferretto_trace::{Summary, summarize_and_complete};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::command::RanCommand;
use super::draft::{Draft, busy};
use super::segments::Segments;
use super::symbols;
use super::tee::Tee;
use crate::errors::message;
use crate::output::{
    Destination, RegularFile, SpecialFile, is_standard, is_standard_output, lock, refuse_inputs,
};
use crate::session::Signals;

/// The time that the parts of a failed recording may take to be completed.
const PATIENCE: Duration = Duration::from_secs(10);
/// The period of checks for a pipe's reader.
const READER_PERIOD: Duration = Duration::from_millis(50);

/// The output of the trace.
#[derive(Debug)]
pub(super) struct Target {
    /// The name in messages.
    pub(super) name: String,
    kind: Kind,
    /// The facts about the recorded command, to append to the trace.
    pub(super) ran_command: RanCommand,
}

#[derive(Debug)]
enum Kind {
    /// A file, renamed once it has data.
    File(Draft),
    /// A pipe, a device, or a file in a folder without write permission.
    Direct(File),
    /// Standard output, which cannot be read back and so is summarised on the way.
    Standard(File, Tee),
    /// Several files, which are summarised on the way, too.
    Parts(File, Tee),
}

impl Target {
    /// Opens the output; `-` is standard output. Waits until a pipe has a reader. Returns `None` if
    /// a signal to end came first.
    ///
    /// # Errors
    ///
    /// Fails if it is one of `inputs`, another recording writes to it, or it cannot be written.
    pub(super) fn open(
        path: &Path,
        inputs: &[&Path],
        signals: &mut Signals,
    ) -> Result<Option<Self>> {
        if is_standard(path) || is_standard_output(path) {
            return Self::standard_output().map(Some);
        }
        let destination = Destination::of(path);
        let special = match destination.with_context(|| cannot_write(path))? {
            Destination::Regular(file) => return Self::regular(path, inputs, &file).map(Some),
            Destination::Special(special) => special,
        };
        let Some(file) = open_special(&special, path, signals)? else {
            return Ok(None);
        };
        refuse_inputs(&file, path, inputs)?;
        Self::direct(path, file).map(Some)
    }

    /// Opens a regular file.
    ///
    /// # Errors
    ///
    /// Fails if it is not a regular file, another recording writes to it, or it cannot be written.
    pub(super) fn file(path: &Path) -> Result<Self> {
        match Destination::of(path).with_context(|| cannot_write(path))? {
            Destination::Regular(file) => Self::regular(path, &[], &file),
            Destination::Special(_) => bail!("{}: it is not a file", cannot_write(path)),
        }
    }

    fn regular(path: &Path, inputs: &[&Path], target: &RegularFile) -> Result<Self> {
        let there = target.open(OpenOptions::new().read(true).write(true));
        if let Ok(there) = &there {
            refuse_inputs(there, path, inputs)?;
        }
        let kind = match (Draft::begin(target), there) {
            (Ok(draft), _) => Kind::File(draft),
            // The file is writable, but its folder is not.
            (Err(error), Ok(there)) if is_not_permitted(&error) => {
                return Self::direct(path, there);
            }
            (Err(error), _) => return Err(error),
        };
        let name = path.display().to_string();
        Ok(Self {
            name,
            kind,
            ran_command: RanCommand::default(),
        })
    }

    fn direct(path: &Path, file: File) -> Result<Self> {
        let name = path.display().to_string();
        refuse_terminal(&file)?;
        if is_regular(&file) {
            if !lock(&file) {
                bail!("{}", busy(path));
            }
            file.set_len(0)
                .with_context(|| format!("cannot write {name}"))?;
        }
        let kind = Kind::Direct(file);
        Ok(Self {
            name,
            kind,
            ran_command: RanCommand::default(),
        })
    }

    fn standard_output() -> Result<Self> {
        refuse_terminal(&io::stdout())?;
        let (read, write) = io::pipe().context("cannot create a pipe")?;
        let ran_command = RanCommand::default();
        let name = "standard output";
        let tee = Tee::start(read, ran_command.clone(), name, io::stdout())?;
        Ok(Self {
            name: name.to_owned(),
            kind: Kind::Standard(OwnedFd::from(write).into(), tee),
            ran_command,
        })
    }

    /// Opens several files.
    ///
    /// # Errors
    ///
    /// Fails if they cannot be written.
    pub(super) fn segments(path: &Path, every: Every, keep: Option<u32>) -> Result<Self> {
        let segments = Segments::start(path, every, keep)?;
        let (read, write) = io::pipe().context("cannot create a pipe")?;
        let ran_command = RanCommand::default();
        let tee = Tee::start(read, ran_command.clone(), "the parts", segments)?;
        Ok(Self {
            name: format!("the parts of {}", path.display()),
            kind: Kind::Parts(OwnedFd::from(write).into(), tee),
            ran_command,
        })
    }

    /// Returns the file to write to.
    pub(super) fn writer(&self) -> io::Result<File> {
        self.handle().try_clone()
    }

    fn handle(&self) -> &File {
        match &self.kind {
            Kind::File(draft) => draft.file(),
            Kind::Direct(file) | Kind::Standard(file, _) | Kind::Parts(file, _) => file,
        }
    }

    /// Returns its path, if other files can be created next to it.
    pub(super) fn path(&self) -> Option<PathBuf> {
        self.draft().map(|draft| draft.path().to_path_buf())
    }

    /// Returns the file to rename.
    pub(super) fn draft(&self) -> Option<Draft> {
        match &self.kind {
            Kind::File(draft) => Some(draft.clone()),
            Kind::Direct(_) | Kind::Standard(..) | Kind::Parts(..) => None,
        }
    }

    /// Returns true if the trace goes into several files.
    pub(super) fn are_parts(&self) -> bool {
        matches!(self.kind, Kind::Parts(..))
    }

    /// Returns true if the trace goes to standard output, where a command prints.
    pub(super) fn is_standard_output(&self) -> bool {
        matches!(self.kind, Kind::Standard(..))
    }

    /// Returns the file, if its size grows.
    pub(super) fn sized(&self) -> Option<File> {
        let file = self.handle();
        is_regular(file).then(|| file.try_clone().ok()).flatten()
    }

    /// Renames the file if it has data.
    ///
    /// # Errors
    ///
    /// See [`Draft::rename`].
    pub(super) fn rename(&self) -> Result<()> {
        self.draft().map_or(Ok(()), |draft| draft.rename())
    }

    /// Completes the file or the parts of a recording that failed or was aborted.
    ///
    /// # Errors
    ///
    /// See [`Draft::rename`]. Fails if a part cannot be written.
    pub(super) fn keep(self, signals: &mut Signals) -> Result<()> {
        match self.kind {
            Kind::File(draft) => draft.rename(),
            Kind::Parts(file, tee) => {
                drop(file);
                tee.complete_parts(signals, Some(PATIENCE)).map(|_| ())
            }
            Kind::Direct(_) | Kind::Standard(..) => Ok(()),
        }
    }

    /// Completes the output of a failed recording. Returns the error to report: if standard output
    /// failed, the service only knows that its pipe was closed.
    pub(super) fn fail(self, error: anyhow::Error, signals: &mut Signals) -> anyhow::Error {
        if let Kind::Standard(file, tee) = self.kind {
            drop(file);
            return tee.into_error(signals, PATIENCE).unwrap_or(error);
        }
        if let Err(error) = self.keep(signals) {
            eprintln!("ferretto: {}", message(&error));
        }
        error
    }

    /// Describes its content in half a sentence.
    pub(super) fn state(&self) -> String {
        match self.sized().map(|file| file.metadata()) {
            Some(Ok(file)) if file.len() == 0 => "nothing was recorded".to_owned(),
            _ => format!("the data recorded so far is in {}", self.name),
        }
    }

    /// Returns the number of bytes written, once the writers are done; `None` if the output cannot
    /// be read, or a signal came before everything was forwarded.
    ///
    /// # Errors
    ///
    /// Fails if reading it or forwarding it to standard output fails.
    pub(super) fn into_summary(self, signals: &mut Signals) -> Result<Option<Summary>> {
        let Self {
            name,
            kind,
            ran_command,
        } = self;
        match kind {
            Kind::Standard(file, tee) => {
                drop(file);
                tee.finish(signals)
            }
            Kind::Parts(file, tee) => {
                drop(file);
                tee.complete_parts(signals, None)
            }
            Kind::File(draft) => summarize(draft.file(), &name, &ran_command).map(Some),
            Kind::Direct(file) if is_regular(&file) && is_readable(&file) => {
                summarize(&file, &name, &ran_command).map(Some)
            }
            Kind::Direct(_) => Ok(None),
        }
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// Opens a file that is not regular. Waits until a pipe has a reader. Returns `None` if a signal to
/// end came first.
///
/// # Errors
///
/// Fails if it cannot be opened.
fn open_special(file: &SpecialFile, path: &Path, signals: &mut Signals) -> Result<Option<File>> {
    let shown = path.display();
    let mut is_reported = false;
    loop {
        let mut options = OpenOptions::new();
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        options.write(true).custom_flags(flags.bits().cast_signed());
        let error = match file.open(&options) {
            Ok(file) => return Ok(Some(file)),
            Err(error) => error,
        };
        let has_no_reader =
            error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) && file.is_pipe();
        if !has_no_reader {
            return Err(error).with_context(|| format!("cannot write {shown}"));
        }
        if !std::mem::replace(&mut is_reported, true) {
            eprintln!("ferretto: waiting for a reader of {shown}");
        }
        signals.wait(Some(Instant::now() + READER_PERIOD));
        if signals.take().iter().any(|signal| signal.ends()) {
            return Ok(None);
        }
    }
}

/// Reads a trace back, and appends the names of its functions and the facts about its command.
fn summarize(file: &File, name: &str, command: &RanCommand) -> Result<Summary> {
    let mut reader = file.try_clone()?;
    reader.seek(SeekFrom::Start(0))?;
    let mut written = Ok(());
    let summary = summarize_and_complete(reader, |modules| {
        let more = [symbols::packets(modules), command.packets()].concat();
        written = append(file, &more);
        more
    });
    written.with_context(|| {
        format!("cannot append the names of functions and the resources of the command to {name}, which is complete otherwise")
    })?;
    summary.with_context(|| format!("cannot read {name} back"))
}

/// Appends all bytes or none.
fn append(file: &File, bytes: &[u8]) -> io::Result<()> {
    let end = file.metadata()?.len();
    let written = file.write_all_at(bytes, end);
    if written.is_err() {
        file.set_len(end)?;
    }
    written
}

fn refuse_terminal(file: &impl IsTerminal) -> Result<()> {
    if file.is_terminal() {
        bail!("a trace is binary and would garble the terminal; use -o FILE or a pipe");
    }
    Ok(())
}

fn is_not_permitted(error: &anyhow::Error) -> bool {
    let mut causes = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|error| {
        matches!(
            error.kind(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
        )
    })
}

fn is_readable(file: &File) -> bool {
    rustix::fs::fcntl_getfl(file).is_ok_and(|flags| flags.contains(OFlags::RDWR))
}

fn is_regular(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.is_file())
}
