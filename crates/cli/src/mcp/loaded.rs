//! The loaded traces.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use ferretto_diff::Recording;
use ferretto_mcp::{Answer, Call, Root, path_of_file};
use ferretto_tables::schema::{TableId, TableSet};
use ferretto_tables::{Continue, Options, Progress, Trace};
use ferretto_why::{Prepared, Why};
use serde_json::Value;

use super::queries::{PATIENCE, Sql, TOO_LARGE, Target};
use super::slices::ThreadSlices;
use crate::errors::message;
use crate::profile::KeptSamples;
use crate::read::{ShownAs, explained};
use crate::summary;

/// The tables of all tools.
const TABLES: TableSet = ferretto_why::TABLES
    .union(ferretto_diff::TABLES)
    .with(TableId::slice);
/// The number of traces that are kept.
const MAX_TRACES: usize = 8;
/// The number of answers about a trace that are kept.
const MAX_ANSWERS: usize = 32;
/// The import takes more memory than its tables.
const TABLES_SHARE: usize = 2;
/// The share of the memory that the samples of a trace may take; others are read for each question.
const SAMPLES_SHARE: usize = 8;
/// The period in which a cancelled call is noticed, and progress is told.
const PERIOD: Duration = Duration::from_millis(50);

/// The state of a file, by which a change is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: Option<SystemTime>,
    /// The seconds and nanoseconds of the latest change, also of its times.
    changed: (i64, i64),
}

impl Stamp {
    fn of(file: &File) -> Result<Self, String> {
        let metadata = file.metadata().map_err(|error| error.to_string())?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: metadata.modified().ok(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    fn is_of_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// The samples of a trace.
enum Samples {
    /// No question needed them yet.
    Unread,
    Kept(Box<KeptSamples>),
    TooLarge,
}

/// A loaded trace.
pub(super) struct Loaded {
    /// Its name in the call.
    pub(super) name: String,
    stamp: Stamp,
    file: File,
    shown: ShownAs,
    pub(super) trace: Trace,
    summary: Result<Value, String>,
    prepared: Option<Arc<Prepared>>,
    /// The most bytes that `prepared` and `slices` may take.
    max_prepared: usize,
    slices: Option<Arc<ThreadSlices>>,
    recording: Option<Recording>,
    samples: Samples,
    max_samples: usize,
    /// Answers by the name of the file and the question.
    answers: VecDeque<(String, String, Answer)>,
    /// The program that runs queries.
    pub(super) sql: Sql,
}

impl Loaded {
    /// Returns a path of the file, which is open: another file of its name does not matter.
    pub(super) fn path(&self) -> PathBuf {
        path_of_file(&self.file)
    }

    /// Returns the causes of times.
    pub(super) fn why(&mut self) -> Why<'_> {
        let trace = &self.trace;
        let prepared = self
            .prepared
            .get_or_insert_with(|| Arc::new(Prepared::new(trace)));
        Why::with(trace, prepared.clone())
    }

    /// Returns the slices for pictures.
    pub(super) fn slices(&mut self) -> Arc<ThreadSlices> {
        let trace = &self.trace;
        let new = || Arc::new(ThreadSlices::new(trace));
        self.slices.get_or_insert_with(new).clone()
    }

    /// Returns the features for comparisons.
    pub(super) fn recording(&mut self) -> Recording {
        if let Some(recording) = &self.recording {
            return recording.clone();
        }
        let recording = Recording::of(self.why(), None);
        self.recording.insert(recording).clone()
    }

    /// Returns the summary.
    ///
    /// # Errors
    ///
    /// Fails with a sentence if there is none.
    pub(super) fn summary(&self) -> Result<Value, String> {
        self.summary.clone()
    }

    /// Returns the time of the first event.
    pub(super) fn start(&self) -> i64 {
        self.trace.tables().trace_bounds.start_ts().get(0)
    }

    /// Returns the samples, which are read when they are first needed; `None` if they are too many
    /// to be kept.
    ///
    /// # Errors
    ///
    /// Fails with a sentence if they cannot be read.
    pub(super) fn samples(&mut self, call: &Call) -> Result<Option<&KeptSamples>, String> {
        if matches!(self.samples, Samples::Unread) {
            let (call, bytes) = (call.clone(), self.stamp.bytes);
            let step = format!("reading the samples of {}", self.name);
            let watch = move |done| {
                call.progress(done, bytes, &step);
                !call.is_cancelled()
            };
            let kept = KeptSamples::read(&self.path(), self.max_samples, watch);
            self.samples = match kept.map_err(|error| message(&error))? {
                Some(kept) => Samples::Kept(Box::new(kept)),
                None => Samples::TooLarge,
            };
        }
        Ok(match &self.samples {
            Samples::Kept(kept) => Some(kept),
            _ => None,
        })
    }

    /// Returns the answer to a question, which is asked once.
    ///
    /// # Errors
    ///
    /// Fails with a sentence.
    pub(super) fn answer(
        &mut self,
        question: &str,
        ask: impl FnOnce(&mut Self) -> Result<Answer, String>,
    ) -> Result<Answer, String> {
        if let Some(answer) = self.known(question) {
            return Ok(answer);
        }
        let answer = ask(self)?;
        self.remember(question, answer.clone());
        Ok(answer)
    }

    /// Returns the answer to a question that was asked before.
    pub(super) fn known(&self, question: &str) -> Option<Answer> {
        let is_same =
            |(name, known, _): &&(String, String, Answer)| *name == self.name && known == question;
        let known = self.answers.iter().find(is_same);
        known.map(|(_, _, answer)| answer.clone())
    }

    pub(super) fn remember(&mut self, question: &str, answer: Answer) {
        if self.answers.len() == MAX_ANSWERS {
            self.answers.pop_front();
        }
        let (name, question) = (self.name.clone(), question.to_owned());
        self.answers.push_back((name, question, answer));
    }

    /// Returns a text that tells this state of the file from all others.
    pub(super) fn identity(&self) -> String {
        format!("{} {:?}", self.name, self.stamp)
    }

    /// Returns the bytes of the tables, the samples and the program that runs queries.
    fn memory(&self) -> usize {
        self.own_memory() + self.sql.memory()
    }

    /// Returns the bytes that it takes once it is prepared for all tools, without the program that
    /// runs queries.
    fn max_own_memory(&self) -> usize {
        self.own_memory() + self.max_prepared.saturating_sub(self.prepared_memory())
    }

    /// Returns the bytes of the tables, and of all that is kept beside them.
    fn own_memory(&self) -> usize {
        let samples = match &self.samples {
            Samples::Kept(kept) => kept.memory(),
            _ => 0,
        };
        self.trace.memory() + samples + self.prepared_memory()
    }

    fn prepared_memory(&self) -> usize {
        let prepared = self.prepared.as_ref().map_or(0, |it| it.memory());
        prepared + self.slices.as_ref().map_or(0, |it| it.memory())
    }
}

/// The contents of a trace that its first question needs.
struct Contents {
    trace: Trace,
    summary: Result<Value, String>,
}

/// A trace that a thread reads. A call that does not wait for its end leaves it to the next.
struct Loading {
    name: String,
    stamp: Stamp,
    file: File,
    shown: ShownAs,
    state: Arc<State>,
    done: Receiver<Result<Contents, String>>,
}

/// The state that the reading threads share with the waiting one.
#[derive(Default)]
struct State {
    bytes: AtomicU64,
    is_cancelled: AtomicBool,
}

impl Drop for Loading {
    fn drop(&mut self) {
        self.state.is_cancelled.store(true, Ordering::Relaxed);
    }
}

impl Loading {
    fn start(name: &str, file: File, stamp: Stamp, memory: usize) -> Result<Self, String> {
        let (sender, done) = channel();
        let path = path_of_file(&file);
        let loading = Self {
            name: name.to_owned(),
            stamp,
            state: Arc::default(),
            done,
            shown: ShownAs::new(path.clone(), name),
            file,
        };
        let (name, state) = (loading.name.clone(), loading.state.clone());
        let read = move || drop(sender.send(read(&path, &name, &state, memory)));
        let started = thread::Builder::new().name("ferretto-read".to_owned());
        started
            .spawn(read)
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(loading)
    }

    /// Waits for the trace; `None` if the call ends before.
    fn wait(&self, call: &Call) -> Option<Result<Contents, String>> {
        let until = Instant::now() + PATIENCE;
        let step = format!("reading {}", self.name);
        loop {
            match self.done.recv_timeout(PERIOD) {
                Ok(done) => return Some(done),
                Err(RecvTimeoutError::Disconnected) => {
                    return Some(Err(format!("cannot read {}", self.name)));
                }
                Err(RecvTimeoutError::Timeout) if call.is_cancelled() => return None,
                Err(RecvTimeoutError::Timeout) if Instant::now() > until => return None,
                Err(RecvTimeoutError::Timeout) => {
                    let bytes = self.state.bytes.load(Ordering::Relaxed);
                    call.progress(bytes, self.stamp.bytes, &step);
                }
            }
        }
    }

    fn percent(&self) -> u64 {
        let bytes = self.state.bytes.load(Ordering::Relaxed);
        (u128::from(bytes) * 100 / u128::from(self.stamp.bytes.max(1))).min(99) as u64
    }
}

/// Reads the tables of a trace, and its summary beside them.
fn read(path: &Path, name: &str, state: &State, memory: usize) -> Result<Contents, String> {
    let options = Options {
        tables: TABLES,
        memory,
        ..Options::default()
    };
    let goes_on = || !state.is_cancelled.load(Ordering::Relaxed);
    let watch = |progress: Progress| {
        state.bytes.store(progress.bytes, Ordering::Relaxed);
        if goes_on() {
            Continue::Yes
        } else {
            Continue::No
        }
    };
    thread::scope(|scope| {
        let summarize = || {
            let text = summary::answer(path, name, |_| goes_on());
            let text = text.map_err(|error| message(&error))?;
            serde_json::from_str(&text).map_err(|error| error.to_string())
        };
        let beside = thread::Builder::new().spawn_scoped(scope, summarize);
        let trace = Trace::open(path, &options, watch);
        let trace =
            trace.map_err(|error| format!("cannot read {name}: {}", message(&explained(error))));
        // The rest of the file does not matter then.
        if !trace.as_ref().is_ok_and(|trace| !trace.exceeds_memory()) {
            state.is_cancelled.store(true, Ordering::Relaxed);
        }
        let summary = match beside {
            Ok(beside) => beside
                .join()
                .unwrap_or_else(|_| Err(format!("cannot summarize {name}"))),
            // Without a thread, it is read after the tables.
            Err(_) => summarize(),
        };
        Ok(Contents {
            trace: trace?,
            summary,
        })
    })
}

/// Returns the most bytes that what all tools prepare of a trace takes.
fn max_prepared(trace: &Trace) -> usize {
    Prepared::max_memory(trace) + ThreadSlices::max_memory(trace)
}

/// Returns the bytes that are too few for a trace, if so: those for reading it, or all of which
/// the tables and what is prepared of them need more.
fn exceeded(trace: &Trace, needed: usize, max: usize) -> Option<usize> {
    if trace.exceeds_memory() {
        return Some(max / TABLES_SHARE);
    }
    (needed > max).then_some(max)
}

/// The loaded traces, the latest used last.
pub(super) struct Traces {
    pub(super) root: Root,
    max: usize,
    loaded: Vec<Loaded>,
    loading: Option<Loading>,
    /// The latest trace that takes too much memory, and the reason.
    too_large: Option<(Stamp, String)>,
}

impl Traces {
    pub(super) fn new(root: Root, max: usize) -> Self {
        Self {
            root,
            max,
            loaded: Vec::new(),
            loading: None,
            too_large: None,
        }
    }

    /// Returns a trace, and loads it if it is not.
    ///
    /// # Errors
    ///
    /// Fails with a sentence if it cannot be read, or if that takes longer than a call may.
    pub(super) fn open(&mut self, name: &str, call: &Call) -> Result<&mut Loaded, String> {
        let file = self.root.file(name)?;
        let stamp = Stamp::of(&file)?;
        let is_old = |it: &Loaded| it.stamp != stamp && it.stamp.is_of_same_file(&stamp);
        self.loaded.retain(|it| !is_old(it));
        let is_same = |it: &Loaded| it.stamp == stamp;
        let mut loaded = match self.loaded.iter().position(is_same) {
            Some(at) => self.loaded.remove(at),
            None => self.load(name, file, stamp, call)?,
        };
        loaded.name = name.to_owned();
        loaded.shown.rename(name);
        self.shrink(loaded.max_own_memory() + loaded.sql.memory());
        self.loaded.push(loaded);
        let at = self.loaded.len() - 1;
        Ok(&mut self.loaded[at])
    }

    /// Returns a trace, the program that runs SQL over it, and the trace as that needs it.
    ///
    /// # Errors
    ///
    /// Fails as [`open`](Self::open) does.
    pub(super) fn open_for_sql(
        &mut self,
        name: &str,
        call: &Call,
    ) -> Result<(&mut Sql, Target), String> {
        self.open(name, call)?;
        let loaded = self.loaded.pop().ok_or("the trace is not loaded")?;
        // Its program is not started anew when the trace is prepared for other tools.
        let own = loaded.max_own_memory();
        while !self.loaded.is_empty() && self.taken() + own > self.max / 2 {
            self.loaded.remove(0);
        }
        let taken = self.taken() + own;
        let memory = self.max.saturating_sub(taken);
        self.loaded.push(loaded);
        let at = self.loaded.len() - 1;
        let loaded = &mut self.loaded[at];
        let target = Target {
            path: loaded.path(),
            name: loaded.name.clone(),
            memory,
        };
        Ok((&mut loaded.sql, target))
    }

    /// Returns the bytes of memory that the loaded traces take.
    fn taken(&self) -> usize {
        self.loaded.iter().map(Loaded::memory).sum()
    }

    /// Closes traces until another of this size fits.
    fn shrink(&mut self, bytes: usize) {
        while !self.loaded.is_empty() {
            if self.loaded.len() < MAX_TRACES && self.taken().saturating_add(bytes) <= self.max {
                return;
            }
            self.loaded.remove(0);
        }
    }

    fn load(
        &mut self,
        name: &str,
        file: File,
        stamp: Stamp,
        call: &Call,
    ) -> Result<Loaded, String> {
        if stamp.bytes == 0 {
            return Err(format!("cannot read {name}: the file is empty"));
        }
        if let Some((_, reason)) = self.too_large.as_ref().filter(|it| it.0 == stamp) {
            return Err(format!("{name} {reason}"));
        }
        let running = self.loading.take().filter(|it| it.stamp == stamp);
        let loading = match running {
            Some(mut running) => {
                name.clone_into(&mut running.name);
                running.shown.rename(name);
                running
            }
            None => {
                self.shrink(usize::try_from(stamp.bytes).unwrap_or(usize::MAX));
                Loading::start(name, file, stamp, self.max / TABLES_SHARE)?
            }
        };
        let Some(done) = loading.wait(call) else {
            let reason = format!(
                "{name} is still being read ({} %); call again",
                loading.percent()
            );
            self.loading = Some(loading);
            return Err(reason);
        };
        let Contents { trace, summary } = done?;
        let max_prepared = max_prepared(&trace);
        let needed = trace.memory() + max_prepared;
        if let Some(most) = exceeded(&trace, needed, self.max) {
            let most = most >> 20;
            let reason = format!("needs more than {most} MiB of memory: {TOO_LARGE}");
            let sentence = format!("{name} {reason}");
            self.too_large = Some((stamp, reason));
            return Err(sentence);
        }
        let file = loading.file.try_clone();
        let file = file.map_err(|error| error.to_string())?;
        Ok(Loaded {
            name: name.to_owned(),
            stamp,
            shown: ShownAs::new(path_of_file(&file), name),
            file,
            max_prepared,
            trace,
            summary,
            prepared: None,
            slices: None,
            recording: None,
            samples: Samples::Unread,
            max_samples: (self.max / SAMPLES_SHARE).min(self.max - needed),
            answers: VecDeque::new(),
            sql: Sql::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// Returns the lines of switches between threads, whose states take more memory than their rows
    /// in tables.
    fn switches(count: u32) -> String {
        let mut text = String::from("# tracer: nop\n#\n");
        for at in 0..count {
            let (from, to) = (at % 7 + 1, (at + 1) % 7 + 1);
            let _ = writeln!(
                text,
                "  t{from}-{from} [000] d..2 {}.{:06}: sched_switch: prev_comm=t{from} prev_pid={from} \
                 prev_prio=120 prev_state=S ==> next_comm=t{to} next_pid={to} next_prio=120",
                at / 1000 + 1,
                at % 1000 * 1000,
            );
        }
        text
    }

    #[test]
    fn a_trace_takes_at_most_the_memory_that_is_allowed_or_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("t"), switches(5_000)).expect("a file");
        let call = Call::default();
        let with = |max| Traces::new(Root::open(folder.path()).expect("a root"), max);
        let mut traces = with(64 << 20);
        let loaded = traces.open("t", &call).expect("a trace");
        let needed = loaded.max_own_memory();
        loaded.why();
        loaded.slices();
        loaded.recording();
        let own = loaded.own_memory();
        // More than the tables, and not far from what was expected.
        assert!(own > loaded.trace.memory() * 2, "{own}");
        assert!(own <= needed && needed < own * 3 / 2, "{own} of {needed}");
        assert_eq!(exceeded(&loaded.trace, needed, needed), None);
        assert_eq!(
            exceeded(&loaded.trace, needed, needed - 1),
            Some(needed - 1)
        );
        // It cannot be read with this memory.
        for _ in 0..2 {
            let refused = with(1 << 20).open("t", &call).err();
            assert!(refused.is_some_and(|reason| reason.contains("--max-memory")));
        }
    }
}
