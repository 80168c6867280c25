//! Messages inside messages.

use std::fmt;
use std::ops::Deref;

use super::message::Message;

/// A message that may be absent. To readers an absent message is one without fields:
///
/// ```
/// use ferretto_proto::{DataSourceConfig, MessageField, trace_config::DataSource};
///
/// let mut source = DataSource::default();
/// assert!(!source.config.is_set());
/// assert_eq!(source.config.name, None);
/// source.config.get_or_insert_default().name = Some(b"linux.ftrace".to_vec());
/// assert!(source.config.is_set());
/// source.config = MessageField::none();
/// ```
#[derive(Clone)]
pub struct MessageField<M>(Option<Box<M>>);

impl<M: Message> MessageField<M> {
    /// An absent message.
    pub const fn none() -> Self {
        Self(None)
    }

    /// A message that is there.
    pub fn some(message: M) -> Self {
        Self(Some(Box::new(message)))
    }

    /// Returns whether it is there.
    pub fn is_set(&self) -> bool {
        self.0.is_some()
    }

    /// The message, if it is there.
    pub fn as_option(&self) -> Option<&M> {
        self.0.as_deref()
    }

    /// The message, if it is there, to be changed.
    pub fn as_option_mut(&mut self) -> Option<&mut M> {
        self.0.as_deref_mut()
    }

    /// The message, if it is there.
    pub fn into_option(self) -> Option<M> {
        self.0.map(|message| *message)
    }

    /// Takes the message out, if it is there.
    pub fn take(&mut self) -> Option<M> {
        self.0.take().map(|message| *message)
    }

    /// The message, to be changed; one without fields if there was none.
    pub fn get_or_insert_default(&mut self) -> &mut M {
        self.0.get_or_insert_with(Box::default)
    }
}

impl<M: Message> Default for MessageField<M> {
    fn default() -> Self {
        Self::none()
    }
}

impl<M: Message> Deref for MessageField<M> {
    type Target = M;

    fn deref(&self) -> &M {
        self.as_option().unwrap_or(M::empty())
    }
}

/// Absent and without fields is the same.
impl<M: Message> PartialEq for MessageField<M> {
    fn eq(&self, other: &Self) -> bool {
        match (self.as_option(), other.as_option()) {
            (None, None) => true,
            _ => **self == **other,
        }
    }
}

impl<M: Message> fmt::Debug for MessageField<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<M: Message> From<M> for MessageField<M> {
    fn from(message: M) -> Self {
        Self::some(message)
    }
}

impl<M: Message> From<Option<M>> for MessageField<M> {
    fn from(message: Option<M>) -> Self {
        Self(message.map(Box::new))
    }
}
