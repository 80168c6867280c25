//! The tools and resources that a server offers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// A call of a tool, which may be cancelled.
#[derive(Debug, Clone, Default)]
pub struct Call(Arc<AtomicBool>);

impl Call {
    /// Returns true if the client does not wait for the answer any more.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
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
