//! `ferretto view --live`: shows a recording while it grows.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use ferretto_tables::{Continue, Options};
use ferretto_view::{Live, View};
use rustix::process::{Pid, Signal, getpgrp, kill_process};
use rustix::termios::tcgetpgrp;

use super::{ViewArgs, bind, serve, with_queries};
use crate::output::is_standard;
use crate::session::{Signal as Arrived, Signals};

/// The period of checking the file for growth.
const PERIOD: Duration = Duration::from_secs(1);
/// The factor between the time of reading the file and the pause after it.
const PAUSE_FACTOR: u32 = 3;

/// A running recording and its file.
struct Recording {
    child: Child,
    path: PathBuf,
    /// The identity of an earlier file at the path.
    old: Option<(u64, u64)>,
    /// The size of the file when it was last read.
    size: u64,
    signals: Signals,
    /// True if a signal requested the end of this program.
    is_ending: bool,
    /// True if the recording ends with the page, since there is no command to wait for.
    ends_with_page: bool,
    /// The options of imports.
    options: Options,
}

pub(super) fn run(args: &ViewArgs) -> Result<ExitCode> {
    if is_standard(&args.file) {
        bail!("--live needs a file to record into; name one instead of -");
    }
    let mut recording = Recording::start(args)?;
    let Some(view) = recording.first_view()? else {
        return Ok(exit_code(recording.child.wait()?));
    };
    let server = bind(view, None, args.no_browser)?;
    let server = with_queries(server, &args.file);
    let live = server.live();
    live.begin();
    let (closed, page) = UnixStream::pair().context("cannot create a socket")?;
    let no_browser = args.no_browser;
    let server = thread::Builder::new()
        .name("serve".to_owned())
        .spawn(move || {
            let served = serve(server, no_browser);
            drop(page);
            served
        })
        .context("cannot start a thread")?;
    let status = recording.follow(&live, &closed)?;
    recording.signals.set_cleaned();
    recording.handle_signals();
    if !recording.is_ending {
        join(server)?;
    }
    Ok(exit_code(status))
}

fn join(server: thread::JoinHandle<Result<()>>) -> Result<()> {
    server
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl Recording {
    fn start(args: &ViewArgs) -> Result<Self> {
        // Before the recording starts, so that a signal cannot end only this program.
        let signals = Signals::new().context("cannot handle signals")?;
        let old = identity(&args.file);
        let program = std::env::current_exe().context("cannot find ferretto itself")?;
        let mut record = Command::new(program);
        record.arg0("ferretto").args(["record", "--quiet"]);
        if args.command.is_empty() {
            record.arg("--duration=0");
        }
        record.arg("--output").arg(&args.file);
        if !args.command.is_empty() {
            record.arg("--").args(&args.command);
        }
        let child = record.spawn().context("cannot start ferretto record")?;
        Ok(Self {
            child,
            path: args.file.clone(),
            old,
            size: 0,
            signals,
            is_ending: false,
            ends_with_page: args.command.is_empty(),
            options: args.options(),
        })
    }

    /// Waits for the first data. Returns `None` if the recording ended without any.
    fn first_view(&mut self) -> Result<Option<View>> {
        loop {
            let is_over = self.child.try_wait()?.is_some();
            if !self.is_ending
                && let Some(view) = self.read()
            {
                return Ok(Some(view));
            }
            if is_over {
                return Ok(None);
            }
            self.signals.wait(Some(Instant::now() + PERIOD / 5));
            self.handle_signals();
        }
    }

    /// Reads the file repeatedly as it grows, until the recording is over. `closed` reaches its end
    /// when the page is closed.
    fn follow(&mut self, live: &Live, closed: &UnixStream) -> Result<ExitStatus> {
        let mut next = Instant::now() + PERIOD;
        let mut is_closed = false;
        loop {
            if is_closed {
                self.signals.wait(None);
            } else if self.signals.wait_or(closed, Some(next)) {
                is_closed = true;
                if self.ends_with_page && !self.is_ending {
                    self.signal(Signal::INT);
                }
            }
            self.handle_signals();
            let over = self.child.try_wait()?;
            let is_due = over.is_some() || next <= Instant::now();
            if is_due && !self.is_ending && !is_closed {
                let start = Instant::now();
                if let Some(view) = self.read() {
                    live.grow(view, over.is_none());
                } else if over.is_some() {
                    live.end();
                }
                next = Instant::now() + PERIOD.max(start.elapsed() * PAUSE_FACTOR);
            }
            if let Some(status) = over {
                return Ok(status);
            }
        }
    }

    /// Handles signals. The recording ends before this program, so that no data is lost.
    fn handle_signals(&mut self) {
        for signal in self.signals.take() {
            self.is_ending |= signal.ends();
            match signal {
                // The terminal sends Ctrl-C to all its foreground programs, also to the recorder.
                Arrived::Interrupt if is_in_foreground() => {}
                Arrived::Interrupt => self.signal(Signal::INT),
                Arrived::Terminate => self.signal(Signal::TERM),
                Arrived::Child | Arrived::Snapshot => {}
            }
        }
    }

    fn signal(&mut self, signal: Signal) {
        // The recording may be over already.
        if let Ok(None) = self.child.try_wait() {
            let _ = kill_process(Pid::from_child(&self.child), signal);
        }
    }

    /// Returns the trace if the file has grown.
    fn read(&mut self) -> Option<View> {
        let size = self.path.metadata().ok()?.len();
        let is_old = identity(&self.path) == self.old;
        if is_old || size == self.size {
            return None;
        }
        let (path, options) = (self.path.clone(), self.options.clone());
        let view = View::open(&path, &options, |_| {
            self.handle_signals();
            if self.is_ending {
                Continue::No
            } else {
                Continue::Yes
            }
        });
        let view = view.ok()?;
        self.size = size;
        Some(view)
    }
}

/// Returns true if Ctrl-C in a terminal reaches this process and its children.
fn is_in_foreground() -> bool {
    let terminal = File::open("/dev/tty");
    let group = terminal.and_then(|terminal| Ok(tcgetpgrp(terminal)?));
    group.is_ok_and(|group| group == getpgrp())
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = path.metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status
        .code()
        .or(status.signal().map(|signal| 128 + signal))
        .unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
