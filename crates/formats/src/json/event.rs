//! Events of a JSON trace.

use std::borrow::Cow;
use std::fmt;

use super::value::Json;

/// The id of a process or thread, or a name in its place.
#[derive(Debug, Clone, PartialEq)]
pub enum Number<'a> {
    /// A number.
    Number(i64),
    /// A name.
    Name(Cow<'a, str>),
}

/// The id of an asynchronous event or a flow.
#[derive(Debug, Clone, PartialEq)]
pub enum Id<'a> {
    /// A number.
    Number(u64),
    /// A string.
    Text(Cow<'a, str>),
}

/// The scope of an instant event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// A thread.
    Thread,
    /// A process.
    Process,
    /// The whole trace.
    Global,
    /// An unknown scope.
    Unknown,
}

/// An event. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Event<'a> {
    /// The first letter of its phase.
    pub phase: u8,
    /// Its time.
    pub ts: i64,
    /// Its duration.
    pub dur: Option<i64>,
    /// The CPU time of the thread at `ts`.
    pub thread_ts: Option<i64>,
    /// The CPU time that the thread used during the event.
    pub thread_dur: Option<i64>,
    /// The process.
    pub pid: Option<Number<'a>>,
    /// The thread.
    pub tid: Option<Number<'a>>,
    /// Its name; `None` if it is missing or empty.
    pub name: Option<Cow<'a, str>>,
    /// Its categories, separated by commas.
    pub category: Option<Cow<'a, str>>,
    /// Its id.
    pub id: Option<Id<'a>>,
    /// Its id within the whole trace.
    pub global_id: Option<Id<'a>>,
    /// Its id within its process.
    pub local_id: Option<Id<'a>>,
    /// The flow that it belongs to.
    pub bind_id: Option<Id<'a>>,
    /// Set if the flow ends at the enclosing slice.
    pub binds_to_enclosing: bool,
    /// Set if the flow ends at this event.
    pub flows_in: bool,
    /// Set if the flow starts at this event.
    pub flows_out: bool,
    /// The scope of an instant event.
    pub scope: Scope,
    /// The arguments; `None` if `args` is missing or not an object.
    pub args: Option<Vec<(Cow<'a, str>, Json<'a>)>>,
}

/// The reason why an object is not an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoEvent {
    /// The object has no fields. Some programs write one after the last comma.
    Empty,
    /// The bytes are not a JSON object.
    Syntax,
    /// The phase is missing.
    NoPhase,
    /// The time is missing.
    NoTime,
    /// A time is not a number.
    BadTime,
}

impl fmt::Display for NoEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "no fields",
            Self::Syntax => "not valid JSON",
            Self::NoPhase => "no phase (\"ph\")",
            Self::NoTime => "no time (\"ts\")",
            Self::BadTime => "a time that is not a number",
        })
    }
}

impl<'a> Event<'a> {
    /// Parses an event. `spare` holds its bytes if they need corrections.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not an event.
    pub fn parse(bytes: &'a [u8], spare: &'a mut Vec<u8>) -> Result<Self, NoEvent> {
        let Some(Json::Object(fields)) = Json::parse_leniently(bytes, spare) else {
            return Err(NoEvent::Syntax);
        };
        if fields.is_empty() {
            return Err(NoEvent::Empty);
        }
        let mut event = Self {
            phase: 0,
            ts: 0,
            dur: None,
            thread_ts: None,
            thread_dur: None,
            pid: None,
            tid: None,
            name: None,
            category: None,
            id: None,
            global_id: None,
            local_id: None,
            bind_id: None,
            binds_to_enclosing: false,
            flows_in: false,
            flows_out: false,
            scope: Scope::Thread,
            args: None,
        };
        let mut ts = None;
        for (key, value) in fields {
            match &*key {
                "ph" => event.phase = value.as_text().map_or(0, first_byte),
                "ts" => ts = nanoseconds(&value),
                "dur" => event.dur = Some(nanoseconds(&value).ok_or(NoEvent::BadTime)?),
                "tts" => event.thread_ts = Some(nanoseconds(&value).ok_or(NoEvent::BadTime)?),
                "tdur" => event.thread_dur = Some(nanoseconds(&value).ok_or(NoEvent::BadTime)?),
                "pid" => event.pid = number(value).or(event.pid),
                "tid" => event.tid = number(value).or(event.tid),
                "name" => event.name = text(value),
                "cat" => event.category = text(value),
                "id" => event.id = id(value).or(event.id),
                "bind_id" => event.bind_id = id(value).or(event.bind_id),
                "id2" => {
                    let Json::Object(ids) = value else { continue };
                    for (key, value) in ids {
                        match &*key {
                            "local" => event.local_id = id(value),
                            "global" => event.global_id = id(value),
                            _ => {}
                        }
                    }
                }
                "bp" => event.binds_to_enclosing = value.as_text() == Some("e"),
                "flow_in" => event.flows_in = value == Json::Bool(true),
                "flow_out" => event.flows_out = value == Json::Bool(true),
                "s" => {
                    event.scope = match value.as_text() {
                        None | Some("t") => Scope::Thread,
                        Some("p") => Scope::Process,
                        Some("g") => Scope::Global,
                        Some(_) => Scope::Unknown,
                    };
                }
                "args" => {
                    if let Json::Object(args) = value {
                        event.args = Some(args);
                    }
                }
                _ => {}
            }
        }
        if event.phase == 0 {
            return Err(NoEvent::NoPhase);
        }
        event.ts = match ts {
            Some(ts) => ts,
            None if event.phase == b'M' => 0,
            None => return Err(NoEvent::NoTime),
        };
        Ok(event)
    }
}

fn first_byte(text: &str) -> u8 {
    text.bytes().next().unwrap_or(0)
}

/// Converts microseconds, which may be in a string, to nanoseconds.
fn nanoseconds(value: &Json<'_>) -> Option<i64> {
    match value {
        Json::Int(value) => Some(value.saturating_mul(1000)),
        Json::Real(value) if value.trunc() == *value => Some((*value as i64).saturating_mul(1000)),
        Json::Real(value) => Some((value * 1000.0).round() as i64),
        Json::Text(text) => match Json::parse(text.as_bytes())? {
            number @ (Json::Int(_) | Json::Real(_)) => nanoseconds(&number),
            _ => None,
        },
        _ => None,
    }
}

fn number(value: Json<'_>) -> Option<Number<'_>> {
    // The kernel's ids are unsigned and have 32 bits.
    let number = |value: i64| Number::Number(u32::try_from(value).unwrap_or(0).into());
    match value {
        Json::Int(value) => Some(number(value)),
        Json::Real(value) => Some(number(value as i64)),
        Json::Text(name) => Some(Number::Name(name)),
        _ => None,
    }
}

fn id(value: Json<'_>) -> Option<Id<'_>> {
    match value {
        Json::Int(value) => Some(Id::Number(value as u64)),
        Json::Text(text) => Some(Id::Text(text)),
        _ => None,
    }
}

fn text(value: Json<'_>) -> Option<Cow<'_, str>> {
    match value {
        Json::Text(text) if !text.is_empty() => Some(text),
        _ => None,
    }
}

impl Id<'_> {
    /// Returns the id of a flow. A string is a hexadecimal number.
    pub fn flow(&self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => {
                let digits = text.strip_prefix("0x").or(text.strip_prefix("0X"));
                u64::from_str_radix(digits.unwrap_or(text), 16).ok()
            }
        }
    }
}
