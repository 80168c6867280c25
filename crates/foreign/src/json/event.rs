//! Events of a JSON trace.

use std::borrow::Cow;
use std::fmt;

use ferretto_format::Fnv1a;

use super::decimal;
use super::value::Json;

/// The id of a process or thread, or a name instead of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Number<'a> {
    /// A number as the kernel has it.
    Number(u32),
    /// Any other number: the address or the hash of a thread, or a negative number.
    Other(i128),
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
    /// The arguments; `None` if `args` is missing. Those of an array have their indices as names, a
    /// single value has the name `value`.
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
        let time = |key: &str, value: &Json<'_>| nanoseconds(value, bytes, key);
        for (key, value) in fields {
            match &*key {
                "ph" => event.phase = value.as_text().map_or(0, first_byte),
                "ts" => ts = time(&key, &value),
                "dur" => event.dur = Some(time(&key, &value).ok_or(NoEvent::BadTime)?),
                "tts" => event.thread_ts = Some(time(&key, &value).ok_or(NoEvent::BadTime)?),
                "tdur" => event.thread_dur = Some(time(&key, &value).ok_or(NoEvent::BadTime)?),
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
                "args" => event.args = arguments(value),
                _ => {}
            }
        }
        if event.phase == 0 {
            return Err(NoEvent::NoPhase);
        }
        event.ts = match ts {
            // A name has no time.
            ts if event.phase == b'M' => ts.unwrap_or(0).max(0),
            Some(ts) => ts,
            None => return Err(NoEvent::NoTime),
        };
        Ok(event)
    }
}

fn first_byte(text: &str) -> u8 {
    text.bytes().next().unwrap_or(0)
}

/// Converts microseconds, which may be in a string, to nanoseconds. `object` and `key` tell where
/// the value is written: a floating-point number has no nanoseconds of times since 1970.
fn nanoseconds(value: &Json<'_>, object: &[u8], key: &str) -> Option<i64> {
    match value {
        Json::Int(value) => Some(value.saturating_mul(1000)),
        Json::Real(value) => {
            let text = decimal::number_of(object, key);
            let exact = text.and_then(decimal::nanoseconds);
            exact.or(Some((*value * 1000.0).round() as i64))
        }
        Json::Text(text) => decimal::nanoseconds(text),
        _ => None,
    }
}

pub(super) fn number(value: Json<'_>) -> Option<Number<'_>> {
    let number = |value: i128| u32::try_from(value).map_or(Number::Other(value), Number::Number);
    match value {
        Json::Int(value) => Some(number(value.into())),
        Json::Uint(value) => Some(number(value.into())),
        Json::Real(value) => Some(number(value as i128)),
        Json::Text(name) => Some(Number::Name(name)),
        _ => None,
    }
}

fn id(value: Json<'_>) -> Option<Id<'_>> {
    match value {
        Json::Int(value) => Some(Id::Number(value as u64)),
        Json::Uint(value) => Some(Id::Number(value)),
        Json::Text(text) => Some(Id::Text(text)),
        value @ Json::Real(_) => Some(Id::Text(value.to_string().into())),
        _ => None,
    }
}

/// Returns the arguments of an event, which have names.
fn arguments(value: Json<'_>) -> Option<Vec<(Cow<'_, str>, Json<'_>)>> {
    match value {
        Json::Object(args) => Some(args),
        Json::Null => None,
        Json::Array(items) => {
            let items = items.into_iter().enumerate();
            Some(
                items
                    .map(|(index, item)| (index.to_string().into(), item))
                    .collect(),
            )
        }
        value => Some(vec![("value".into(), value)]),
    }
}

fn text(value: Json<'_>) -> Option<Cow<'_, str>> {
    match value {
        Json::Text(text) if !text.is_empty() => Some(text),
        _ => None,
    }
}

impl Id<'_> {
    /// Returns the number of a flow: of a text that is not a hexadecimal number, its hash.
    pub fn flow(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            Self::Text(text) => {
                let digits = text.strip_prefix("0x").or(text.strip_prefix("0X"));
                let number = u64::from_str_radix(digits.unwrap_or(text), 16);
                number.unwrap_or_else(|_| Fnv1a::hash(text.as_bytes()))
            }
        }
    }
}
