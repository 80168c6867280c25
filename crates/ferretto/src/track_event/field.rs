//! Fields: the things that can be attached to an event.

use std::fmt;

use ferretto_engine::EventEncoder;
use ferretto_format::Fnv1a;

use super::location::{Frame, SourceLocation};
use super::time::Timestamp;
use super::track::Track;
use super::value::{Argument, Arguments};

/// Something attached to an event. The macros make them of `key = value` and `option: value`; those
/// who make events in other ways hand over a slice of these.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Field<'a> {
    /// A value, under a name known at compile time.
    Argument(&'static str, &'a dyn Argument),
    /// A value, under a name made at run time, which is written each time.
    DynamicArgument(&'a str, &'a dyn Argument),
    /// Values that are found one after the other: the function is called once for each recording,
    /// and adds them.
    Arguments(&'a dyn Fn(&mut Arguments<'_>)),
    /// The event is on this track rather than on that of the thread. The last one counts.
    Track(&'a Track<'a>),
    /// The event happened at this time rather than now. The last one counts.
    Time(Timestamp),
    /// The event belongs to a chain of events.
    Flow(Flow),
    /// The event is the last one of a chain.
    TerminatingFlow(Flow),
    /// Events with the same number are shown as belonging together.
    Correlation(Correlation<'a>),
    /// The place where the program was, written out each time; outermost frame first.
    Callstack(&'a [Frame<'a>]),
    /// The place where the program was, written once for each call stack; outermost frame first.
    InternedCallstack(&'a [Frame<'a>]),
    /// The amount that the call stack stands for in a profile.
    CallstackWeight(f64),
    /// A message of a log.
    Log(LogMessage<'a>),
    /// The line of source that the event comes from.
    Location(&'static SourceLocation),
    /// Fields of the event that are not known here, such as extensions: called once for each
    /// recording.
    Extension(&'a dyn Fn(&mut EventEncoder<'_>)),
    /// Encoded fields of the event that are not known here.
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
            Self::Location(place) => f.debug_tuple("Location").field(place).finish(),
            Self::Extension(_) => f.write_str("Extension"),
            Self::Raw(fields) => f.debug_tuple("Raw").field(fields).finish(),
        }
    }
}

/// A chain of events, which the viewer connects by arrows: from thread to thread, or from process
/// to process.
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
    /// The chain of this number in this process.
    pub const fn process(id: u64) -> Self {
        Self {
            id,
            is_of_process: true,
        }
    }

    /// The chain of this number in all processes.
    pub const fn global(id: u64) -> Self {
        Self {
            id,
            is_of_process: false,
        }
    }

    /// The chain that is known by the address of a value in this process.
    pub fn of_value<T: ?Sized>(value: &T) -> Self {
        Self::process(std::ptr::from_ref(value).cast::<()>().addr() as u64)
    }

    /// Sets the chain apart from those of the same number with other names or none.
    #[must_use]
    pub const fn named(mut self, scope: &str) -> Self {
        self.id ^= Fnv1a::hash(scope.as_bytes());
        self
    }

    /// The number in recordings, given that of the process's track.
    #[inline]
    pub(super) const fn number(self, process: u64) -> u64 {
        if self.is_of_process {
            self.id ^ process
        } else {
            self.id
        }
    }
}

/// Something that events have in common that are to be shown together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Correlation<'a> {
    /// A number.
    Number(u64),
    /// A text known at compile time: written once for each thread and recording.
    Static(&'static str),
    /// A text made at run time: written each time.
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

/// The importance of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Priority {
    /// Of interest to those who look for something.
    Verbose = 2,
    /// Of interest to those who work on the program.
    Debug = 3,
    /// A log message.
    Info = 4,
    /// Something that may become a problem.
    Warn = 5,
    /// A problem.
    Error = 6,
    /// Something that ends the program.
    Fatal = 7,
}

/// A message of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogMessage<'a> {
    /// The importance of the message.
    pub priority: Priority,
    /// The text of the message.
    pub body: LogBody<'a>,
    /// The place that the message comes from, if that is known.
    pub location: Option<&'static SourceLocation>,
}

impl<'a> LogMessage<'a> {
    /// A message made at run time.
    pub const fn new(priority: Priority, body: &'a str) -> Self {
        Self {
            priority,
            body: LogBody::Dynamic(body),
            location: None,
        }
    }

    /// Says where the message comes from.
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
    /// Known at compile time: written once for each thread and recording.
    Static(&'static str),
    /// Made at run time: written each time.
    Dynamic(&'a str),
}
