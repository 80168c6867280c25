//! The tools and resources that a server offers.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};

use crate::answer::Answer;

/// The description of a tool.
#[derive(Debug, Clone)]
pub struct Tool {
    /// The name by which it is called.
    pub name: &'static str,
    /// A title for people.
    pub title: &'static str,
    /// The purpose, for models.
    pub description: String,
    /// The arguments: members of `properties` of a JSON Schema.
    pub properties: Value,
    /// The arguments that must be given.
    pub required: &'static [&'static str],
    /// True if it changes nothing on this machine.
    pub is_read_only: bool,
}

/// The description of a text that can be read.
#[derive(Debug, Clone)]
pub struct Resource {
    /// The address.
    pub uri: String,
    /// The name.
    pub name: String,
    /// The content in one sentence.
    pub description: String,
    /// The type of the text.
    pub mime: &'static str,
}

/// A call of a tool, which may be cancelled, and which reports its progress if the client asked for
/// it.
#[derive(Debug, Clone, Default)]
pub struct Call {
    is_cancelled: Arc<AtomicBool>,
    reporter: Option<Arc<Reporter>>,
}

impl Call {
    pub(crate) fn with_reporter(reporter: Reporter) -> Self {
        Self {
            is_cancelled: Arc::default(),
            reporter: Some(Arc::new(reporter)),
        }
    }

    /// Returns true if the client does not wait for the answer any more.
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Tells the client how much of a step is done. The message names the step.
    pub fn progress(&self, done: u64, of: u64, message: &str) {
        if let Some(reporter) = &self.reporter {
            reporter.report(done, of, message);
        }
    }
}

/// Sends a number and a message.
type SendProgress = dyn Fn(u64, &str) + Send + Sync;

/// Sends the progress of a call: 100 for each finished step, and the percentage of the current one.
/// A client gets growing numbers only.
pub(crate) struct Reporter {
    send: Box<SendProgress>,
    step: Mutex<Step>,
}

/// The step of a call that is executed.
#[derive(Default)]
struct Step {
    finished: u64,
    message: String,
    /// The latest number that was sent.
    sent: Option<u64>,
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").finish_non_exhaustive()
    }
}

impl Reporter {
    pub(crate) fn new(send: impl Fn(u64, &str) + Send + Sync + 'static) -> Self {
        Self {
            send: Box::new(send),
            step: Mutex::default(),
        }
    }

    fn report(&self, done: u64, of: u64, message: &str) {
        let mut step = self.step.lock().unwrap_or_else(PoisonError::into_inner);
        if step.message != message {
            if step.sent.is_some() {
                step.finished += 1;
            }
            message.clone_into(&mut step.message);
        }
        let percent = (u128::from(done) * 100 / u128::from(of.max(1))).min(99) as u64;
        let number = step.finished * 100 + percent;
        if step.sent.is_none_or(|sent| number > sent) {
            step.sent = Some(number);
            (self.send)(number, message);
        }
    }
}

/// The tools and resources of a server.
pub trait Toolbox {
    /// Returns guidance for models that use the tools.
    fn instructions(&self) -> String;

    /// Returns the descriptions of all tools.
    fn tools(&self) -> Vec<Tool>;

    /// Calls a tool. The arguments have the types of its description.
    ///
    /// # Errors
    ///
    /// Fails with a sentence for the model: what, where, and what to do.
    fn call(
        &mut self,
        tool: &str,
        arguments: &Map<String, Value>,
        call: &Call,
    ) -> Result<Answer, String>;

    /// Returns the descriptions of all resources.
    fn resources(&self) -> Vec<Resource>;

    /// Returns the text of a resource; `None` if there is no such one.
    ///
    /// # Errors
    ///
    /// Fails with a sentence if it cannot be read.
    fn read(&mut self, uri: &str) -> Option<Result<String, String>>;
}
