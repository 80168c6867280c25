//! The loaded traces.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Result;
use ferretto_diff::Recording;
use ferretto_mcp::{Call, Root, path_of_file};
use ferretto_tables::schema::{TableId, TableSet};
use ferretto_tables::{Continue, Options, Trace};
use ferretto_why::{Prepared, Why};
use serde_json::Value;

use super::queries::Queries;
use crate::errors::message;
use crate::read::explained;

/// The tables of all tools.
const TABLES: TableSet = ferretto_why::TABLES
    .union(ferretto_diff::TABLES)
    .with(TableId::slice);
/// The number of traces that are kept.
const MAX_TRACES: usize = 8;
/// The number of answers about a trace that are kept.
const MAX_ANSWERS: usize = 16;
/// The import takes more memory than its tables.
const TABLES_SHARE: usize = 2;

/// The state of a file, by which a change is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: Option<SystemTime>,
}

/// A loaded trace.
pub(super) struct Loaded {
    /// Its name in the call.
    pub(super) name: String,
    stamp: Stamp,
    file: File,
    pub(super) trace: Trace,
    prepared: Option<Arc<Prepared>>,
    recording: Option<Recording>,
    /// Answers that take a pass over the file, by their question.
    answers: VecDeque<(String, Value)>,
    /// The program that runs queries.
    pub(super) queries: Option<Queries>,
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

    /// Returns the features for comparisons.
    pub(super) fn recording(&mut self) -> &Recording {
        let trace = &self.trace;
        self.recording
            .get_or_insert_with(|| Recording::new(trace, None))
    }

    /// Returns the answer to a question, which is asked once.
    ///
    /// # Errors
    ///
    /// Fails with a sentence.
    pub(super) fn answer(
        &mut self,
        question: &str,
        ask: impl FnOnce(&Self) -> Result<String>,
    ) -> Result<Value, String> {
        if let Some((_, answer)) = self.answers.iter().find(|(known, _)| known == question) {
            return Ok(answer.clone());
        }
        let text = ask(self).map_err(|error| self.sentence(&error))?;
        let answer: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        if self.answers.len() == MAX_ANSWERS {
            self.answers.pop_front();
        }
        self.answers
            .push_back((question.to_owned(), answer.clone()));
        Ok(answer)
    }

    /// Returns an error as a sentence with the name of the file in the call.
    pub(super) fn sentence(&self, error: &anyhow::Error) -> String {
        message(error).replace(&self.path().display().to_string(), &self.name)
    }

    fn memory(&self) -> usize {
        self.trace.memory()
    }
}

/// The loaded traces, the latest used last.
pub(super) struct Traces {
    pub(super) root: Root,
    max: usize,
    loaded: Vec<Loaded>,
}

impl Traces {
    pub(super) fn new(root: Root, max: usize) -> Self {
        Self {
            root,
            max,
            loaded: Vec::new(),
        }
    }

    /// Returns a trace, and loads it if it is not.
    ///
    /// # Errors
    ///
    /// Fails with a sentence if it cannot be read.
    pub(super) fn open(&mut self, name: &str, call: &Call) -> Result<&mut Loaded, String> {
        let file = self.root.file(name)?;
        let metadata = file.metadata().map_err(|error| error.to_string())?;
        let stamp = Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: metadata.modified().ok(),
        };
        let is_same = |it: &Loaded| it.stamp == stamp;
        let mut loaded = match self.loaded.iter().position(is_same) {
            Some(at) => self.loaded.remove(at),
            None => {
                self.shrink(stamp.bytes);
                self.load(name, file, stamp, call)?
            }
        };
        loaded.name = name.to_owned();
        self.loaded.push(loaded);
        let at = self.loaded.len() - 1;
        Ok(&mut self.loaded[at])
    }

    /// Closes traces until another of this size is likely to fit.
    fn shrink(&mut self, bytes: u64) {
        let next = usize::try_from(bytes).unwrap_or(usize::MAX);
        while !self.loaded.is_empty() {
            let taken: usize = self.loaded.iter().map(Loaded::memory).sum();
            if self.loaded.len() < MAX_TRACES && taken.saturating_add(next) <= self.max {
                return;
            }
            self.loaded.remove(0);
        }
    }

    fn load(&self, name: &str, file: File, stamp: Stamp, call: &Call) -> Result<Loaded, String> {
        let options = Options {
            tables: TABLES,
            memory: self.max / TABLES_SHARE,
            ..Options::default()
        };
        if stamp.bytes == 0 {
            return Err(format!("cannot read {name}: the file is empty"));
        }
        let call = call.clone();
        let go_on = move |_| match call.is_cancelled() {
            true => Continue::No,
            false => Continue::Yes,
        };
        let trace = Trace::open(path_of_file(&file), &options, go_on);
        let trace =
            trace.map_err(|error| format!("cannot read {name}: {}", message(&explained(error))))?;
        Ok(Loaded {
            name: name.to_owned(),
            stamp,
            file,
            trace,
            prepared: None,
            recording: None,
            answers: VecDeque::new(),
            queries: None,
        })
    }
}
