//! The loaded traces, within the memory that all of them may take.

use std::fs::File;
use std::time::Instant;

use ferretto_mcp::{Answer, Call, Root, path_of_file};
use ferretto_tables::Trace;
use ferretto_text::amount::human_bytes;

use super::loaded::{Loaded, Stamp, max_prepared};
use super::loading::Loading;
use super::queries::{PATIENCE, Sql, TOO_LARGE, Target, Unanswered};

/// The number of traces that are kept, and that of programs that run queries.
const MAX_TRACES: usize = 8;
/// The import takes more memory than its tables.
const TABLES_SHARE: usize = 2;
/// The share of the memory that the samples of a trace may take; others are read for each question.
const SAMPLES_SHARE: usize = 8;

/// Returns the bytes that are too few for a trace, if so: those for reading it, or all of which
/// the tables and what is prepared of them need more.
fn exceeded(trace: &Trace, needed: usize, max: usize) -> Option<usize> {
    if trace.exceeds_memory() {
        return Some(max / TABLES_SHARE);
    }
    (needed > max).then_some(max)
}

/// Something that takes memory, and the number of the call that used it last.
struct Held<T> {
    used: u64,
    it: T,
}

/// The program that runs queries of a trace.
struct Queried {
    stamp: Stamp,
    file: File,
    sql: Sql,
}

/// The loaded traces, and the programs that run queries of traces. Each is closed on its own, the
/// one that was not used for the longest time first.
pub(super) struct Traces {
    pub(super) root: Root,
    max: usize,
    calls: u64,
    loaded: Vec<Held<Loaded>>,
    queried: Vec<Held<Queried>>,
    loading: Option<Loading>,
    /// The latest trace that takes too much memory, and the reason.
    too_large: Option<(Stamp, String)>,
}

impl Traces {
    pub(super) fn new(root: Root, max: usize) -> Self {
        Self {
            root,
            max,
            calls: 0,
            loaded: Vec::new(),
            queried: Vec::new(),
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
        let (file, stamp) = self.find(name)?;
        let is_same = |held: &Held<Loaded>| held.it.stamp == stamp;
        let mut loaded = match self.loaded.iter().position(is_same) {
            Some(at) => self.loaded.remove(at).it,
            None => self.load(name, file, stamp, call)?,
        };
        loaded.rename(name);
        self.shrink(loaded.max_memory());
        let used = self.calls;
        self.loaded.push(Held { used, it: loaded });
        let at = self.loaded.len() - 1;
        Ok(&mut self.loaded[at].it)
    }

    /// Runs SQL over a trace. The program that does it is closed after others, but gets the memory
    /// of all that is loaded if it needs it.
    ///
    /// # Errors
    ///
    /// Fails with a sentence if that fails, or if the trace cannot be read.
    pub(super) fn query(&mut self, name: &str, sql: &str, call: &Call) -> Result<Answer, String> {
        let (file, stamp) = self.find(name)?;
        let is_same = |held: &Held<Queried>| held.it.stamp == stamp;
        let mut queried = match self.queried.iter().position(is_same) {
            Some(at) => self.queried.remove(at).it,
            None => Queried {
                stamp,
                file,
                sql: Sql::default(),
            },
        };
        let until = Instant::now() + PATIENCE;
        let mut ask = |traces: &mut Self| {
            let target = Target {
                path: path_of_file(&queried.file),
                name: name.to_owned(),
                memory: traces.left_for(&mut queried),
                until,
            };
            queried.sql.answer(&target, sql, call)
        };
        let mut answer = ask(self);
        if matches!(answer, Err(Unanswered::TooLarge(_))) && !self.is_empty() {
            self.close_all();
            answer = ask(self);
        }
        let used = self.calls;
        self.queried.push(Held { used, it: queried });
        answer.map_err(Unanswered::reason)
    }

    /// Returns the memory that is left for SQL. Closes what is kept of other traces before; what is
    /// kept of this one is closed only if there is not enough without it.
    fn left_for(&mut self, queried: &mut Queried) -> usize {
        if !queried.sql.is_running() {
            let is_of_other = |stamp: &Stamp| *stamp != queried.stamp;
            while self.taken() > self.max / 2 && self.close_oldest(is_of_other) {}
            while self.queried.len() >= MAX_TRACES && self.close_oldest(is_of_other) {}
        }
        self.max.saturating_sub(self.taken())
    }

    /// Opens a file, and forgets what was read of an earlier state of it.
    fn find(&mut self, name: &str) -> Result<(File, Stamp), String> {
        self.calls += 1;
        let file = self.root.file(name)?;
        let stamp = Stamp::of(&file)?;
        if stamp.bytes == 0 {
            return Err(format!("cannot read {name}: the file is empty"));
        }
        self.loaded.retain(|it| !it.it.stamp.is_outdated_by(&stamp));
        self.queried
            .retain(|it| !it.it.stamp.is_outdated_by(&stamp));
        Ok((file, stamp))
    }

    /// Returns the bytes of memory that all traces and programs take. One that is being read takes
    /// what it may.
    fn taken(&self) -> usize {
        let loaded = self.loaded.iter().map(|it| it.it.max_memory());
        let queried = self.queried.iter().map(|it| it.it.sql.memory());
        let loading = self.loading.as_ref().map_or(0, |_| self.max / TABLES_SHARE);
        loaded.chain(queried).sum::<usize>() + loading
    }

    /// Closes traces and programs until another trace of this size fits.
    fn shrink(&mut self, bytes: usize) {
        while self.loaded.len() >= MAX_TRACES || self.taken().saturating_add(bytes) > self.max {
            if !self.close_oldest(|_| true) {
                return;
            }
        }
    }

    /// Closes the trace or the program that was not used for the longest time, of those of some
    /// files. Returns false if there is none.
    fn close_oldest(&mut self, is_wanted: impl Fn(&Stamp) -> bool) -> bool {
        let oldest = |items: &mut dyn Iterator<Item = (u64, Stamp)>| {
            let wanted = items.enumerate().filter(|(_, (_, stamp))| is_wanted(stamp));
            wanted.map(|(at, (used, _))| (used, at)).min()
        };
        let loaded = oldest(&mut self.loaded.iter().map(|it| (it.used, it.it.stamp)));
        let queried = oldest(&mut self.queried.iter().map(|it| (it.used, it.it.stamp)));
        match (loaded, queried) {
            (Some((used, at)), queried) if queried.is_none_or(|other| used <= other.0) => {
                drop(self.loaded.remove(at));
            }
            (_, Some((_, at))) => drop(self.queried.remove(at)),
            (_, None) => return false,
        }
        true
    }

    fn is_empty(&self) -> bool {
        self.loaded.is_empty() && self.queried.is_empty() && self.loading.is_none()
    }

    fn close_all(&mut self) {
        self.loaded.clear();
        self.queried.clear();
        self.loading = None;
    }

    fn load(
        &mut self,
        name: &str,
        file: File,
        stamp: Stamp,
        call: &Call,
    ) -> Result<Loaded, String> {
        if let Some((_, reason)) = self.too_large.as_ref().filter(|it| it.0 == stamp) {
            return Err(format!("{name} {reason}"));
        }
        let running = self.loading.take().filter(|it| it.stamp == stamp);
        let loading = match running {
            Some(mut running) => {
                running.rename(name);
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
        let contents = done?;
        let needed = contents.trace.memory() + max_prepared(&contents.trace);
        if let Some(most) = exceeded(&contents.trace, needed, self.max) {
            let most = human_bytes(most as u64);
            let reason = format!("needs more than {most} of memory: {TOO_LARGE}");
            let sentence = format!("{name} {reason}");
            self.too_large = Some((stamp, reason));
            return Err(sentence);
        }
        let file = loading.file.try_clone();
        let file = file.map_err(|error| error.to_string())?;
        let max_samples = (self.max / SAMPLES_SHARE).min(self.max - needed);
        Ok(Loaded::new(name, stamp, file, contents, max_samples))
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
        let needed = loaded.max_memory();
        loaded.why();
        loaded.slices();
        loaded.recording();
        let own = loaded.memory();
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
            let refused = refused.unwrap_or_default();
            assert!(refused.contains("512.0 KiB of memory"), "{refused}");
            assert!(refused.contains("--max-memory"), "{refused}");
        }
    }
}
