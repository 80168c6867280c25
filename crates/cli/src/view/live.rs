//! `ferretto view --live`: shows a recording while it grows.

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use ferretto_tables::{Continue, Options};
use ferretto_view::{Live, View};
use rustix::process::{Pid, Signal, kill_process};

use super::{ViewArgs, bind, serve};
use crate::output::is_standard;

/// The time between two looks at the file.
const PERIOD: Duration = Duration::from_secs(1);
/// Of the time, at most one part in so many is spent on reading the file again.
const SHARE: u32 = 3;

/// A recording that is under way, and its file.
struct Recording {
    child: Child,
    path: PathBuf,
    /// The file that was there before, which is not of this recording.
    old: Option<(u64, u64)>,
    /// The size when it was last read.
    size: u64,
}

pub(super) fn run(args: &ViewArgs) -> Result<ExitCode> {
    if is_standard(&args.file) {
        bail!("--live shows a file while it is recorded; name one instead of -");
    }
    let mut recording = Recording::start(args)?;
    let Some(view) = recording.first()? else {
        return Ok(exit_code(recording.child.wait()?));
    };
    let server = bind(view, None)?;
    let live = server.live();
    live.begin();
    let pid = Pid::from_child(&recording.child);
    let follower = thread::Builder::new()
        .name("follow".to_owned())
        .spawn(move || recording.follow(&live))
        .context("cannot start a thread")?;
    serve(server, args.no_browser)?;
    if args.command.is_empty() && !follower.is_finished() {
        // Nobody looks at it any more. It may be over already.
        let _ = kill_process(pid, Signal::INT);
    }
    match follower.join() {
        Ok(status) => Ok(exit_code(status?)),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

impl Recording {
    fn start(args: &ViewArgs) -> Result<Self> {
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
        })
    }

    /// Waits for the first data; `None` if the recording ended without.
    fn first(&mut self) -> Result<Option<View>> {
        loop {
            let is_over = self.child.try_wait()?.is_some();
            if let Some(view) = self.read() {
                return Ok(Some(view));
            }
            if is_over {
                return Ok(None);
            }
            thread::sleep(PERIOD / 5);
        }
    }

    /// Reads the file again and again, as it grows, until the recording is over.
    fn follow(mut self, live: &Live) -> Result<ExitStatus> {
        let mut pause = PERIOD;
        loop {
            thread::sleep(pause);
            let over = self.child.try_wait()?;
            let start = Instant::now();
            if let Some(view) = self.read() {
                live.grow(view, over.is_none());
            } else if over.is_some() {
                live.end();
            }
            if let Some(status) = over {
                return Ok(status);
            }
            pause = PERIOD.max(start.elapsed() * SHARE);
        }
    }

    /// Returns the trace if there is more of it than before.
    fn read(&mut self) -> Option<View> {
        let size = self.path.metadata().ok()?.len();
        let is_old = identity(&self.path) == self.old;
        if is_old || size == self.size {
            return None;
        }
        let view = View::open(&self.path, &Options::default(), |_| Continue::Yes).ok()?;
        self.size = size;
        Some(view)
    }
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
