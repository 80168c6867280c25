//! Fields: the data attached to an event.

use std::fmt;

use ferretto_engine::EventEncoder;
use ferretto_format::Fnv1a;

use super::location::{Frame, SourceLocation};
use super::time::Timestamp;
use super::track::Track;
use super::value::{Argument, Arguments};

/// Data attached to an event. The macros create fields from `key = value` and `option: value`;
/// callers of [`emit`](crate::track_event::emit()) pass a slice of them.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Field<'a> {
    /// An argument with a name known at compile time.
    Argument(&'static str, &'a dyn Argument),
    /// An argument with a name known at run time, which is written each time.
    DynamicArgument(&'a str, &'a dyn Argument),
    /// Arguments that a function adds. It is called once for each recording.
    Arguments(&'a dyn Fn(&mut Arguments<'_>)),
    /// The track of the event, instead of the thread's. The last one takes effect.
    Track(&'a Track<'a>),
    /// The time of the event, instead of now. The last one takes effect.
    Time(Timestamp),
    /// A flow that the event belongs to.
    Flow(Flow),
    /// A flow that ends at the event.
    TerminatingFlow(Flow),
    /// A correlation: events with the same one are shown as belonging together.
    Correlation(Correlation<'a>),
    /// A callstack, outermost frame first. It is written each time.
    Callstack(&'a [Frame<'a>]),
    /// A callstack, outermost frame first. It is interned: written once for each thread and
    /// recording.
    InternedCallstack(&'a [Frame<'a>]),
    /// The weight of the callstack in a profile.
    CallstackWeight(f64),
    /// A log message.
    Log(LogMessage<'a>),
    /// The source location of the event.
    Location(&'static SourceLocation),
    /// A function that appends further fields to the event, such as extensions. It is called once
    /// for each recording.
    Extension(&'a dyn Fn(&mut EventEncoder<'_>)),
    /// Further fields of the event, encoded.
    Raw(&'a [u8]),
}

impl fmt::Debug for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument(name, _) => f.debug_tuple("Argument").field(name).finish(),
            Self::DynamicArgument(name, _) => f.debug_tuple("DynamicArgument").field(name).finish(),
            Self::Arguments(_) => f.write_str("Arguments"),
            Self::Track(track) => f.debug_tuple("Track").field(track).finish(),
            Self::Time(time) => f.debug_tuple("Time").field(time).finish(),
            Self::Flow(flow) => f.debug_tuple("Flow").field(flow).finish(),
            Self::TerminatingFlow(flow) => f.debug_tuple("TerminatingFlow").field(flow).finish(),
            Self::Correlation(id) => f.debug_tuple("Correlation").field(id).finish(),
            Self::Callstack(frames) => f.debug_tuple("Callstack").field(frames).finish(),
            Self::InternedCallstack(frames) => {
                f.debug_tuple("InternedCallstack").field(frames).finish()
            }
            Self::CallstackWeight(weight) => {
                f.debug_tuple("CallstackWeight").field(weight).finish()
            }
            Self::Log(message) => f.debug_tuple("Log").field(message).finish(),
            Self::Location(location) => f.debug_tuple("Location").field(location).finish(),
            Self::Extension(_) => f.write_str("Extension"),
            Self::Raw(fields) => f.debug_tuple("Raw").field(fields).finish(),
        }
    }
}

/// A flow: a chain of events, possibly of several threads or processes, which the viewer connects
/// by arrows.
///
/// ```
/// use ferretto::{Flow, instant};
///
/// let job = 7;
/// instant!("jobs", "sent", flow: Flow::process(job));
/// instant!("jobs", "received", terminating_flow: Flow::process(job));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    id: u64,
    is_of_process: bool,
}

impl Flow {
    /// Creates a flow with an id within this process.
    pub const fn process(id: u64) -> Self {
        Self {
            id,
            is_of_process: true,
        }
    }

    /// Creates a flow with an id that is shared by all processes.
    pub const fn global(id: u64) -> Self {
        Self {
            id,
            is_of_process: false,
        }
    }

    /// Creates a flow identified by the address of a value in this process.
    pub fn of_value<T: ?Sized>(value: &T) -> Self {
        Self::process(std::ptr::from_ref(value).cast::<()>().addr() as u64)
    }

    /// Distinguishes the flow from flows of the same id with another name or none.
    #[must_use]
    pub const fn named(mut self, scope: &str) -> Self {
        self.id ^= Fnv1a::hash(scope.as_bytes());
        self
    }

    /// Returns the id in recordings, given the uuid of the process's track.
    #[inline]
    pub(super) const fn number(self, process: u64) -> u64 {
        if self.is_of_process {
            self.id ^ process
        } else {
            self.id
        }
    }
}

/// A key that related events have in common, so that they are shown together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Correlation<'a> {
    /// A number.
    Number(u64),
    /// A string known at compile time, which is written once for each thread and recording.
    Static(&'static str),
    /// A string known at run time, which is written each time.
    Dynamic(&'a str),
}

impl From<u64> for Correlation<'_> {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl<'a> From<&'a str> for Correlation<'a> {
    fn from(text: &'a str) -> Self {
        Self::Dynamic(text)
    }
}

impl<'a> From<&'a String> for Correlation<'a> {
    fn from(text: &'a String) -> Self {
        Self::Dynamic(text)
    }
}

/// The priority of a log message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Priority {
    /// Details.
    Verbose = 2,
    /// A message for the developers of the program.
    Debug = 3,
    /// An informational message.
    Info = 4,
    /// A possible problem.
    Warn = 5,
    /// A problem.
    Error = 6,
    /// An error that ends the program.
    Fatal = 7,
}

/// A log message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogMessage<'a> {
    /// The importance of the message.
    pub priority: Priority,
    /// The text of the message.
    pub body: LogBody<'a>,
    /// The source location of the message, if it is known.
    pub location: Option<&'static SourceLocation>,
}

impl<'a> LogMessage<'a> {
    /// Creates a message with a text known at run time.
    pub const fn new(priority: Priority, body: &'a str) -> Self {
        Self {
            priority,
            body: LogBody::Dynamic(body),
            location: None,
        }
    }

    /// Sets the source location of the message.
    #[must_use]
    pub const fn at(mut self, location: &'static SourceLocation) -> Self {
        self.location = Some(location);
        self
    }
}

/// The text of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LogBody<'a> {
    /// A text known at compile time, which is written once for each thread and recording.
    Static(&'static str),
    /// A text known at run time, which is written each time.
    Dynamic(&'a str),
}
