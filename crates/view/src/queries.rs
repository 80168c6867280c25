//! The program that runs SQL, as a child of the server. It reads the same file, and answers on its
//! standard output.

use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;

use ferretto_wire::{Fields, encode};

/// The largest size of a result. Further rows are left out.
const MAX_RESULT: usize = 256 << 20;
/// The largest size of a message of the program.
const MAX_MESSAGE: u64 = 1 << 30;
/// The size of the kept end of the program's messages on standard error.
const MAX_SAID: usize = 4096;

// The numbers of upstream's messages `TraceProcessorRpcStream`, `TraceProcessorRpc`, `QueryArgs`
// and `QueryResult`.
const STREAM_MESSAGE: u32 = 1;
const REQUEST: u32 = 2;
const FATAL_ERROR: u32 = 5;
const QUERY_ARGUMENTS: u32 = 103;
const QUERY_RESULT: u32 = 203;
const METHOD_QUERY: u64 = 3;
const RESULT_ERROR: u32 = 2;
const RESULT_BATCH: u32 = 3;
const BATCH_IS_LAST: u32 = 6;

// The fields of a reply to the page.
const REPLY_RESULT: u32 = 1;
const REPLY_IS_CUT: u32 = 2;

/// A failure to run a query, without those that the program reports in its result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum QueryError {
    #[error("Another query is running; stop it first.")]
    Busy,
    #[error("The query was stopped.")]
    Stopped,
    #[error("Cannot start {0}: {1}.")]
    NotStarted(String, io::Error),
    #[error("ferretto-query has ended: {0}")]
    Ended(String),
}

impl QueryError {
    /// Returns the failure as a result.
    pub(crate) fn reply(&self) -> Vec<u8> {
        let result = encode(|result| result.string(RESULT_ERROR, &self.to_string()));
        encode(|reply| reply.bytes(REPLY_RESULT, &result))
    }
}

/// The program that runs SQL over the file of the trace. It starts with the first query.
#[derive(Debug)]
pub(crate) struct Queries {
    program: PathBuf,
    trace: PathBuf,
    session: Mutex<Option<Session>>,
    child: Mutex<Option<Child>>,
    is_stopped: AtomicBool,
}

/// The pipes of a running program.
#[derive(Debug)]
struct Session {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    said: JoinHandle<String>,
    /// The state of a growing trace that the program has read.
    generation: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queries {
    pub(crate) fn new(program: &Path, trace: &Path) -> Self {
        Self {
            program: program.to_owned(),
            trace: trace.to_owned(),
            session: Mutex::default(),
            child: Mutex::default(),
            is_stopped: AtomicBool::new(false),
        }
    }

    /// Runs statements, and returns the result of the last one as the page reads it: messages
    /// `QueryResult`, and whether rows were left out.
    pub(crate) fn run(&self, sql: &str, generation: u64) -> Result<Vec<u8>, QueryError> {
        let mut session = match self.session.try_lock() {
            Ok(session) => session,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(QueryError::Busy),
        };
        self.is_stopped.store(false, Ordering::Release);
        if session
            .as_ref()
            .is_some_and(|it| it.generation != generation)
        {
            self.end(session.take());
        }
        if session.is_none() {
            *session = Some(self.start(generation)?);
        }
        let result = match &mut *session {
            Some(running) => running.query(sql),
            None => return Err(QueryError::Stopped),
        };
        result.map_err(|error| {
            let said = self.end(session.take());
            if self.is_stopped.load(Ordering::Acquire) {
                return QueryError::Stopped;
            }
            QueryError::Ended(if said.is_empty() {
                error.to_string()
            } else {
                said
            })
        })
    }

    /// Ends the running query, and the program with it. The next query starts it again.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        self.kill();
    }

    fn start(&self, generation: u64) -> Result<Session, QueryError> {
        let failed = |error| QueryError::NotStarted(self.program.display().to_string(), error);
        let mut command = Command::new(&self.program);
        command.args(["--serve", "--stdio", "--"]).arg(&self.trace);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().map_err(failed)?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        *lock(&self.child) = Some(child);
        let (Some(input), Some(output), Some(errors)) = pipes else {
            return Err(failed(io::ErrorKind::BrokenPipe.into()));
        };
        let said = std::thread::Builder::new().name("query-errors".to_owned());
        let said = said.spawn(move || last_of(errors)).map_err(failed)?;
        Ok(Session {
            input,
            output: BufReader::with_capacity(1 << 16, output),
            said,
            generation,
        })
    }

    fn kill(&self) {
        if let Some(child) = &mut *lock(&self.child) {
            // It may have ended by itself.
            let _ = child.kill();
        }
    }

    /// Ends the program, and returns the end of what it said.
    fn end(&self, session: Option<Session>) -> String {
        self.kill();
        if let Some(mut child) = lock(&self.child).take() {
            let _ = child.wait();
        }
        let said = session.map(|session| session.said.join().unwrap_or_default());
        said.unwrap_or_default().trim().to_owned()
    }
}

impl Drop for Queries {
    fn drop(&mut self) {
        let session = lock(&self.session).take();
        self.end(session);
    }
}

/// Reads to the end, and returns the last bytes as text.
fn last_of(mut errors: ChildStderr) -> String {
    let mut kept = Vec::new();
    let mut piece = [0; MAX_SAID];
    while let Ok(count @ 1..) = errors.read(&mut piece) {
        kept.extend_from_slice(&piece[..count]);
        let excess = kept.len().saturating_sub(MAX_SAID);
        kept.drain(..excess);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

impl Session {
    fn query(&mut self, sql: &str) -> io::Result<Vec<u8>> {
        let request = encode(|stream| {
            stream.nested(STREAM_MESSAGE, |message| {
                message.varint(REQUEST, METHOD_QUERY);
                message.nested(QUERY_ARGUMENTS, |arguments| arguments.string(1, sql));
            });
        });
        self.input.write_all(&request)?;
        self.input.flush()?;
        let mut reply = Vec::new();
        let mut is_cut = false;
        loop {
            let message = self.message()?;
            let field = |number| Fields::find(number, &message).and_then(|it| it.as_bytes());
            if let Some(error) = field(FATAL_ERROR) {
                return Err(io::Error::other(
                    String::from_utf8_lossy(error).into_owned(),
                ));
            }
            let Some(result) = field(QUERY_RESULT) else {
                continue;
            };
            if reply.len() + result.len() <= MAX_RESULT {
                reply.extend(encode(|reply| reply.bytes(REPLY_RESULT, result)));
            } else {
                is_cut = true;
                if let Some(error) = Fields::find(RESULT_ERROR, result).and_then(|it| it.as_bytes())
                {
                    let result = encode(|result| result.bytes(RESULT_ERROR, error));
                    reply.extend(encode(|reply| reply.bytes(REPLY_RESULT, &result)));
                }
            }
            if is_last(result) {
                reply.extend(encode(|reply| reply.bool(REPLY_IS_CUT, is_cut)));
                return Ok(reply);
            }
        }
    }

    /// Reads a message of the stream.
    fn message(&mut self) -> io::Result<Vec<u8>> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "its reply is malformed");
        let mut byte = [0];
        self.output.read_exact(&mut byte)?;
        if u32::from(byte[0]) != STREAM_MESSAGE << 3 | 2 {
            return Err(invalid());
        }
        let mut length = 0_u64;
        for shift in (0..35).step_by(7) {
            self.output.read_exact(&mut byte)?;
            length |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] < 0x80 {
                let mut message = Vec::new();
                let mut rest = (&mut self.output).take(length);
                let read = rest.read_to_end(&mut message)?;
                let is_whole = length <= MAX_MESSAGE && read as u64 == length;
                return is_whole.then_some(message).ok_or_else(invalid);
            }
        }
        Err(invalid())
    }
}

fn is_last(result: &[u8]) -> bool {
    let mut is_last = false;
    Fields::walk(result, |field| {
        if field.number == RESULT_BATCH {
            let batch = field.as_bytes().unwrap_or_default();
            let last = Fields::find(BATCH_IS_LAST, batch).and_then(|it| it.as_bool());
            is_last |= last == Some(true);
        }
    });
    is_last
}
