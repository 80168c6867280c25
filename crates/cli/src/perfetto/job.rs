//! The job of a command, once its command line is parsed and the output is open.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use ferretto_proto::clone_session_request::Selector;
use ferretto_proto::{CloneSessionRequest, Message as _, TraceConfig};

use super::service::Provider;
use crate::session::{Task, Then};

/// The work of a job.
#[derive(Debug, Clone)]
pub(super) enum Work {
    Session(Task),
    /// Activates the triggers that the config names. There is no session.
    Triggers,
    /// Clones every session with a bug report score.
    SaveAll,
}

/// A job, which can be passed to a background process.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) work: Work,
    pub(super) provider: Provider,
    pub(super) config: TraceConfig,
    /// The name of the output in messages.
    pub(super) name: String,
    /// The output, unless the service creates it.
    pub(super) file: Option<File>,
    /// The path of the output; `-` for standard output.
    pub(super) path: Option<PathBuf>,
    /// The path from which the names of snapshots are derived.
    pub(super) snapshots: Option<PathBuf>,
    /// True if existing files are not overwritten.
    pub(super) no_clobber: bool,
}

impl Job {
    /// Returns a job without an output.
    pub(super) fn new(work: Work, provider: Provider) -> Self {
        Self {
            work,
            provider,
            config: TraceConfig::default(),
            name: "the output file".to_owned(),
            file: None,
            path: None,
            snapshots: None,
            no_clobber: false,
        }
    }

    /// Adds an output.
    pub(super) fn into(mut self, path: &Path, opened: (String, File)) -> Self {
        let (name, file) = opened;
        (self.name, self.file) = (name, Some(file));
        self.path = Some(path.to_path_buf());
        self.snapshots = self.path.clone();
        self
    }

    /// Encodes the work as a word and bytes, for a background process of this program.
    pub(super) fn encode(&self) -> (&'static str, Vec<u8>) {
        match &self.work {
            Work::Session(Task::Record) => ("record", self.config.encode_to_vec()),
            // Not reachable: --detach is refused in the background.
            Work::Session(Task::Detach(key)) => ("detach", key.clone()),
            Work::Session(Task::Attach { key, then }) => {
                let word = match then {
                    Then::Wait => "attach",
                    Then::Stop => "attach-stop",
                    Then::Leave => "is-detached",
                };
                (word, key.clone())
            }
            Work::Session(Task::Clone(request)) => ("clone", request.encode_to_vec()),
            Work::Triggers => ("triggers", self.config.encode_to_vec()),
            Work::SaveAll => ("save-all", Vec::new()),
        }
    }

    /// Decodes the result of [`encode`](Self::encode).
    pub(super) fn decode(word: &str, bytes: Vec<u8>, provider: Provider) -> Result<Self> {
        let attach = |then| {
            let key = bytes.clone();
            Work::Session(Task::Attach { key, then })
        };
        let work = match word {
            "record" => Work::Session(Task::Record),
            "attach" => attach(Then::Wait),
            "attach-stop" => attach(Then::Stop),
            "is-detached" => attach(Then::Leave),
            "clone" => {
                let request = CloneSessionRequest::decode_from_slice(&bytes)?;
                Work::Session(Task::Clone(Box::new(request)))
            }
            "triggers" => Work::Triggers,
            "save-all" => Work::SaveAll,
            _ => bail!("a process in the background cannot {word}"),
        };
        let mut job = Self::new(work, provider);
        if matches!(job.work, Work::Session(Task::Record) | Work::Triggers) {
            job.config = TraceConfig::decode_from_slice(&bytes).context("the config")?;
        }
        Ok(job)
    }
}

/// Returns the name of the session that is cloned, for messages.
pub(super) fn session_name(request: &CloneSessionRequest) -> String {
    match &request.selector {
        Some(Selector::SessionId(id)) => id.to_string(),
        Some(Selector::UniqueSessionName(name)) => {
            format!("\"{}\"", String::from_utf8_lossy(name))
        }
        None => "\"\"".to_owned(),
    }
}
