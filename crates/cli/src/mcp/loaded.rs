//! A loaded trace, and what tools prepare of it.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use ferretto_diff::Recording;
use ferretto_mcp::{Answer, Call, path_of_file};
use ferretto_tables::Trace;
use ferretto_why::{Prepared, Why};
use serde_json::Value;

use super::slices::ThreadSlices;
use crate::errors::message;
use crate::profile::KeptSamples;
use crate::read::ShownAs;

/// The number of answers about a trace that are kept.
const MAX_ANSWERS: usize = 32;

/// The state of a file, by which a change is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    pub(super) bytes: u64,
    modified: Option<SystemTime>,
    /// The seconds and nanoseconds of the latest change, also of its times.
    changed: (i64, i64),
}

impl Stamp {
    pub(super) fn of(file: &File) -> Result<Self, String> {
        let metadata = file.metadata().map_err(|error| error.to_string())?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: metadata.modified().ok(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    /// Returns true if the other one is of another state of the same file.
    pub(super) fn is_outdated_by(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode) && self != other
    }
}

/// The samples of a trace.
enum Samples {
    /// No question needed them yet.
    Unread,
    Kept(Box<KeptSamples>),
    TooLarge,
}

/// The contents of a trace that its first question needs.
pub(super) struct Contents {
    pub(super) trace: Trace,
    pub(super) summary: Result<Value, String>,
}

/// A loaded trace.
pub(super) struct Loaded {
    /// Its name in the call.
    pub(super) name: String,
    pub(super) stamp: Stamp,
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
}

impl Loaded {
    /// Returns a trace, whose samples may take some bytes.
    pub(super) fn new(
        name: &str,
        stamp: Stamp,
        file: File,
        contents: Contents,
        max_samples: usize,
    ) -> Self {
        let Contents { trace, summary } = contents;
        Self {
            name: name.to_owned(),
            stamp,
            shown: ShownAs::new(path_of_file(&file), name),
            file,
            max_prepared: max_prepared(&trace),
            trace,
            summary,
            prepared: None,
            slices: None,
            recording: None,
            samples: Samples::Unread,
            max_samples,
            answers: VecDeque::new(),
        }
    }

    /// Names it as a call does.
    pub(super) fn rename(&mut self, name: &str) {
        name.clone_into(&mut self.name);
        self.shown.rename(name);
    }

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

    /// Returns the bytes that it takes once it is prepared for all tools.
    pub(super) fn max_memory(&self) -> usize {
        self.memory() + self.max_prepared.saturating_sub(self.prepared_memory())
    }

    /// Returns the bytes of the tables, and of all that is kept beside them.
    pub(super) fn memory(&self) -> usize {
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

/// Returns the most bytes that what all tools prepare of a trace takes.
pub(super) fn max_prepared(trace: &Trace) -> usize {
    Prepared::max_memory(trace) + ThreadSlices::max_memory(trace)
}
