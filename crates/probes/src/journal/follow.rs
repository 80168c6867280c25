//! The program that reads the journal.

use std::ffi::OsString;
use std::io::{self, BufReader};
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Since;
use super::entry::{Entry, wanted};

/// Entries that wait to be written. While there are more, the program waits.
const WAITING: usize = 1024;
/// Entries that one look at the journal may find.
const MAX_FOUND: usize = 100_000;

/// The program, and the thread that reads its output. They end with this.
#[derive(Debug)]
struct Program {
    child: Child,
    /// `None` once no more are wanted, or there are none.
    entries: Option<Receiver<Entry>>,
    thread: Option<JoinHandle<()>>,
}

impl Program {
    fn start(mut command: Command) -> io::Result<Self> {
        let mut child = command.spawn()?;
        let output = child.stdout.take();
        let (sender, entries) = mpsc::sync_channel(WAITING);
        let mut program = Self {
            child,
            entries: Some(entries),
            thread: None,
        };
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || pass_on(output, &sender));
        program.thread = Some(thread?);
        Ok(program)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The thread may wait for the channel, or for the program.
        self.entries = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The program while it follows the journal.
#[derive(Debug)]
pub(super) struct Follower {
    program: Program,
    has_ended: bool,
}

impl Follower {
    pub(super) fn start(
        program: &Path,
        since: &Since,
        conditions: &[OsString],
    ) -> io::Result<Self> {
        let mut command = command(program, since, conditions);
        command.arg("--follow").arg("--no-tail");
        Ok(Self {
            program: Program::start(command)?,
            has_ended: false,
        })
    }

    /// Returns the next entry, if one has come.
    pub(super) fn next(&mut self) -> Option<Entry> {
        match self.program.entries.as_ref()?.try_recv() {
            Ok(entry) => Some(entry),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                self.program.entries = None;
                self.has_ended = true;
                None
            }
        }
    }

    /// Returns true once if the program has ended by itself.
    pub(super) fn has_failed(&mut self) -> bool {
        std::mem::take(&mut self.has_ended)
    }
}

fn command(program: &Path, since: &Since, conditions: &[OsString]) -> Command {
    let mut command = Command::new(program);
    command
        .args(["--quiet", "--output=export"])
        .arg(format!("--output-fields={}", wanted()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    match since {
        Since::Time(time) => {
            let (seconds, rest) = (time / 1_000_000, time % 1_000_000);
            command.arg(format!("--since=@{seconds}.{rest:06}"));
        }
        Since::Cursor(cursor) => {
            let cursor = [b"--after-cursor=", &cursor[..]].concat();
            command.arg(OsString::from_vec(cursor));
        }
    }
    command.args(conditions);
    command
}

fn pass_on(output: Option<ChildStdout>, entries: &SyncSender<Entry>) {
    let Some(output) = output else { return };
    let mut output = BufReader::new(output);
    while let Ok(Some(entry)) = Entry::read(&mut output) {
        if entries.send(entry).is_err() {
            return;
        }
    }
}

/// A look at what the journal has, by a program of its own.
#[derive(Debug)]
pub(super) struct Look {
    program: Program,
    found: Vec<Entry>,
    end: Instant,
}

impl Look {
    /// Begins to look, for so long at most.
    pub(super) fn start(
        program: &Path,
        since: &Since,
        conditions: &[OsString],
        limit: Duration,
    ) -> io::Result<Self> {
        Ok(Self {
            program: Program::start(command(program, since, conditions))?,
            found: Vec::new(),
            end: Instant::now() + limit,
        })
    }

    /// Takes what was found so far, without waiting. Returns true if that is all, or the time is
    /// over.
    pub(super) fn go_on(&mut self) -> bool {
        loop {
            let Some(entries) = &self.program.entries else {
                return true;
            };
            match entries.try_recv() {
                Ok(entry) if self.found.len() < MAX_FOUND => self.found.push(entry),
                Err(TryRecvError::Empty) => return Instant::now() >= self.end,
                _ => self.program.entries = None,
            }
        }
    }

    /// Waits until all is found, or the time is over.
    pub(super) fn wait(&mut self) {
        while let Some(entries) = &self.program.entries {
            let left = self.end.saturating_duration_since(Instant::now());
            match entries.recv_timeout(left) {
                Ok(entry) if self.found.len() < MAX_FOUND => self.found.push(entry),
                _ => self.program.entries = None,
            }
        }
    }

    /// Returns what was found. It comes first in the journal, so the rest can still come the usual
    /// way.
    pub(super) fn take(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.found)
    }
}
