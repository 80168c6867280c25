//! SQL over a loaded trace, by a server of `ferretto-query` that keeps the trace, too.

use std::fs::File;
use std::io::{self, Read, Seek as _, Write as _};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ferretto_mcp::{Answer, Call};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::errors::message;
use crate::query::{check_installed, program};

/// The time that a call waits for a trace. Clients give up after a minute.
pub(super) const PATIENCE: Duration = Duration::from_secs(50);

/// The time that a query may take, in milliseconds.
const TIMEOUT_MS: u64 = 60_000;
/// The bytes of a result; the rest is left out.
const MAX_RESULT: u64 = 16 << 20;
/// The bytes of messages.
const MAX_MESSAGES: u64 = 16 << 10;
/// The period in which a cancelled call is noticed.
const PERIOD: Duration = Duration::from_millis(5);

/// The part of the memory for SQL that statements may take; the process takes up to three times as
/// much. The tables of the trace may take the rest.
const SQL_SHARE: usize = 8;
/// The memory that the simplest statements need.
const MIN_SQL: usize = 16 << 20;
/// The advice if a trace is too large.
pub(super) const TOO_LARGE: &str =
    "start ferretto mcp with a larger --max-memory, or cut a part out of it with ferretto cut";

/// A trace to query.
pub(super) struct Target {
    pub(super) path: PathBuf,
    /// Its name in the call.
    pub(super) name: String,
    /// The bytes of memory that the tables for SQL and the statements may take.
    pub(super) memory: usize,
    /// The time until which the call waits for the trace.
    pub(super) until: Instant,
}

impl Target {
    /// Returns a message with the name of the trace.
    fn named(&self, text: &str) -> String {
        text.replace(&self.path.display().to_string(), &self.name)
    }
}

/// The reason why a trace cannot be queried.
enum Unready {
    /// It is still being loaded.
    Loading(String),
    /// It cannot be loaded.
    Failed(String),
    /// The program was ended from outside.
    Killed(ExitStatus),
}

/// A server of `ferretto-query`, and the folder of its socket.
pub(super) struct Queries {
    server: Child,
    folder: TempDir,
    /// Reads its messages, and returns the first.
    messages: Option<JoinHandle<String>>,
    /// The time at which it was started, until it has loaded the trace.
    loading_since: Option<Instant>,
    /// The memory that it may take.
    max_memory: usize,
}

impl Drop for Queries {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Queries {
    fn start(trace: &Path, memory: usize) -> Result<Self, String> {
        check_installed().map_err(|error| message(&error))?;
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let statements = (memory / SQL_SHARE).max(MIN_SQL);
        let tables = memory.saturating_sub(statements * 3).max(1);
        let server = Command::new(program())
            .args(["--serve", "--idle-timeout", "30m", "--socket"])
            .arg(folder.path().join("queries"))
            .args(["--timeout", &TIMEOUT_MS.to_string()])
            .args(["--memory-limit", &statements.to_string()])
            .args(["--trace-memory", &tables.to_string()])
            .arg(trace)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut server = server.map_err(|error| format!("cannot run ferretto-query: {error}"))?;
        let stderr = server.stderr.take();
        let mut queries = Self {
            server,
            folder,
            messages: None,
            loading_since: Some(Instant::now()),
            max_memory: memory,
        };
        if let Some(stderr) = stderr {
            let thread = thread::Builder::new().name("ferretto-messages".to_owned());
            let started = thread.spawn(move || first_messages(stderr));
            let started = started.map_err(|error| format!("cannot start a thread: {error}"))?;
            queries.messages = Some(started);
        }
        Ok(queries)
    }

    /// Returns true if it had loaded the trace, and has ended.
    fn is_gone(&mut self) -> bool {
        self.loading_since.is_none() && !matches!(self.server.try_wait(), Ok(None))
    }

    /// Waits until the trace is loaded.
    fn wait(&mut self, target: &Target, call: &Call) -> Result<(), Unready> {
        let Some(since) = self.loading_since else {
            return Ok(());
        };
        let (name, until) = (&target.name, target.until);
        while !self.socket().exists() {
            if let Ok(Some(status)) = self.server.try_wait() {
                let messages = self.messages.take().map(JoinHandle::join);
                let text = messages.and_then(Result::ok).unwrap_or_default();
                let text = text.trim().trim_start_matches("ferretto-query: ");
                return Err(match status.code() {
                    Some(_) if !text.is_empty() => Unready::Failed(text.to_owned()),
                    _ => Unready::Killed(status),
                });
            }
            if call.is_cancelled() || Instant::now() > until {
                return Err(Unready::Loading(format!(
                    "{name} is still being loaded for SQL, for {} s now; call again",
                    since.elapsed().as_secs()
                )));
            }
            let step = format!("loading {name} for SQL");
            // The time is what is known of its progress.
            call.progress(since.elapsed().as_secs(), 600, &step);
            thread::sleep(PERIOD);
        }
        self.loading_since = None;
        Ok(())
    }

    /// Returns the bytes of the program's memory.
    pub(super) fn memory(&self) -> usize {
        let path = format!("/proc/{}/statm", self.server.id());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let pages = text.split(' ').nth(1).and_then(|pages| pages.parse().ok());
        pages.unwrap_or(0usize) * rustix::param::page_size()
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("queries")
    }

    /// Runs SQL, and returns the rows as JSON lines, and true if some are left out.
    fn run(&self, sql: &str, call: &Call) -> Result<(String, bool), String> {
        let cannot = |error: io::Error| format!("cannot run ferretto-query: {error}");
        let mut client = Command::new(program())
            .arg("--remote")
            .arg(self.socket())
            .args(["--format", "ndjson", "--file", "-"])
            .stdin(input(sql).map_err(cannot)?)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(cannot)?;
        let (mut rows, mut messages) = (Vec::new(), Vec::new());
        let read = read_both(&mut client, &mut rows, &mut messages, call);
        // It waits for nobody any more if it has closed both.
        if !matches!(read, Ok(Ended::Closed)) {
            let _ = client.kill();
        }
        let status = client.wait();
        read.map_err(cannot)?;
        let status = status.map_err(cannot)?;
        let is_cut = rows.len() as u64 > MAX_RESULT;
        if !is_cut && !status.success() {
            let text = String::from_utf8_lossy(&messages);
            let text = text.trim().trim_start_matches("ferretto-query: ");
            return Err(text.to_owned());
        }
        Ok((String::from_utf8_lossy(&rows).into_owned(), is_cut))
    }
}

/// Returns a file with a text, which is deleted when it is closed.
fn input(text: &str) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

/// The reason for which the output of a program is not read any further.
enum Ended {
    /// It has closed its output.
    Closed,
    /// There is more than is wanted, or the call is cancelled.
    Left,
}

/// Reads the rows of a program up to one byte more than is wanted, and the first of its messages.
fn read_both(
    client: &mut Child,
    rows: &mut Vec<u8>,
    messages: &mut Vec<u8>,
    call: &Call,
) -> io::Result<Ended> {
    let (mut output, mut errors) = (client.stdout.take(), client.stderr.take());
    let mut part = vec![0; 1 << 16];
    while output.is_some() || errors.is_some() {
        let files = [
            output.as_ref().map(AsFd::as_fd),
            errors.as_ref().map(AsFd::as_fd),
        ];
        let wait = |file| PollFd::from_borrowed_fd(file, PollFlags::IN);
        let mut waits: Vec<PollFd<'_>> = files.into_iter().flatten().map(wait).collect();
        let period = Timespec::try_from(PERIOD).ok();
        match poll(&mut waits, period.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if call.is_cancelled() {
            return Ok(Ended::Left);
        }
        let mut ready = waits.iter().map(|wait| !wait.revents().is_empty());
        let has_rows = output.is_some() && ready.next() == Some(true);
        let has_messages = errors.is_some() && ready.next() == Some(true);
        if has_rows {
            read_part(&mut output, rows, &mut part)?;
        }
        if has_messages {
            read_part(&mut errors, messages, &mut part)?;
            messages.truncate(MAX_MESSAGES as usize);
        }
        if rows.len() as u64 > MAX_RESULT {
            return Ok(Ended::Left);
        }
    }
    Ok(Ended::Closed)
}

/// Reads what a pipe has, and closes it at its end.
fn read_part(pipe: &mut Option<impl Read>, into: &mut Vec<u8>, part: &mut [u8]) -> io::Result<()> {
    let Some(open) = pipe else {
        return Ok(());
    };
    match open.read(part) {
        Ok(0) => *pipe = None,
        Ok(count) => into.extend_from_slice(&part[..count]),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Returns the first messages of a program. The others are read, too: they would block it.
fn first_messages(mut stderr: impl Read) -> String {
    let mut first = Vec::new();
    let _ = (&mut stderr).take(MAX_MESSAGES).read_to_end(&mut first);
    let _ = std::io::copy(&mut stderr, &mut std::io::sink());
    String::from_utf8_lossy(&first).into_owned()
}

/// The reason why a query has no answer.
#[derive(Clone)]
pub(super) enum Unanswered {
    /// The tables of the trace take more than the memory that they may.
    TooLarge(String),
    Other(String),
}

impl Unanswered {
    /// Returns the sentence.
    pub(super) fn reason(self) -> String {
        match self {
            Self::TooLarge(reason) | Self::Other(reason) => reason,
        }
    }
}

/// The program that runs queries of a trace.
#[derive(Default)]
pub(super) struct Sql {
    running: Option<Queries>,
    /// The memory with which the trace could not be loaded, and the reason.
    refused: Option<(usize, Unanswered)>,
}

impl Sql {
    /// Returns the bytes of the program's memory.
    pub(super) fn memory(&self) -> usize {
        self.running.as_ref().map_or(0, Queries::memory)
    }

    /// Returns true if the program runs, also if it has not loaded the trace yet.
    pub(super) fn is_running(&mut self) -> bool {
        if self.running.as_mut().is_some_and(Queries::is_gone) {
            self.running = None;
        }
        self.running.is_some()
    }

    /// Answers a query. Starts the program if it does not run.
    pub(super) fn answer(
        &mut self,
        target: &Target,
        sql: &str,
        call: &Call,
    ) -> Result<Answer, Unanswered> {
        let queries = self.loaded(target, call)?;
        let (text, is_cut) = queries
            .run(sql, call)
            .map_err(|error| Unanswered::Other(target.named(&error)))?;
        let rows = text.lines().filter(|line| !line.is_empty());
        // The last line may be cut.
        let rows: Vec<Value> = rows
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let head = json!({ "file": target.name, "rows": rows.len(), "rows_left_out": is_cut });
        Ok(Answer::new(head, rows))
    }

    /// Returns the program once it has loaded the trace.
    fn loaded(&mut self, target: &Target, call: &Call) -> Result<&mut Queries, Unanswered> {
        let is_running = self.is_running();
        if let Some((memory, reason)) = &self.refused
            && !is_running
            && target.memory <= *memory
        {
            return Err(reason.clone());
        }
        let mut queries = match self.running.take() {
            Some(queries) => queries,
            None => Queries::start(&target.path, target.memory).map_err(Unanswered::Other)?,
        };
        match queries.wait(target, call) {
            Ok(()) => Ok(self.running.insert(queries)),
            Err(Unready::Loading(reason)) => {
                self.running = Some(queries);
                Err(Unanswered::Other(reason))
            }
            Err(Unready::Failed(reason)) => {
                let (memory, reason) = if reason.contains("--trace-memory") {
                    let reason = target.named(&format!("{reason}: {TOO_LARGE}"));
                    (queries.max_memory, Unanswered::TooLarge(reason))
                } else {
                    (usize::MAX, Unanswered::Other(target.named(&reason)))
                };
                self.refused = Some((memory, reason.clone()));
                Err(reason)
            }
            Err(Unready::Killed(status)) => Err(Unanswered::Other(format!(
                "ferretto-query has ended while it loaded {}: {status}",
                target.name
            ))),
        }
    }
}
