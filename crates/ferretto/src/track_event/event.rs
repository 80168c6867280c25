//! The parts of an event.

use super::category::Category;
use super::field::Field;
use super::name::Name;
use super::track::{CounterTrack, StateTrack, Track};

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The begin of a slice.
    Begin = 1,
    /// The end of the innermost slice on the track.
    End = 2,
    /// An instant.
    Instant = 3,
    /// A value of a counter.
    Counter = 4,
    /// A state, which ends the previous one.
    State = 5,
}

/// The categories of an event, in the form in which they are written.
#[derive(Clone, Copy, Debug)]
pub enum Categories<'a> {
    /// No categories: the ends of slices, which belong to any category.
    None,
    /// A category or group known at compile time.
    Static(&'static Category),
    /// One or more categories known at run time, separated by commas.
    Dynamic(&'a str),
}

impl Categories<'_> {
    /// Returns the categories for an event that does not carry them.
    pub(crate) fn unwritten(self) -> Self {
        match self {
            Self::Static(_) => Self::None,
            other => other,
        }
    }
}

/// The track of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EventTrack<'a> {
    /// The thread's track, unless a field sets another.
    Thread,
    /// This track, unless a field sets another.
    Track(&'a Track<'a>),
    Counter(&'a CounterTrack<'a>),
    State(&'a StateTrack<'a>),
}

/// An event without fields.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ShortEvent {
    /// The end of a slice.
    End,
    /// The begin of a slice, or an instant.
    Named {
        kind: Kind,
        category: &'static Category,
        name: &'static str,
    },
}

impl ShortEvent {
    /// Converts to a full event.
    pub(crate) fn event(&self) -> Event<'static> {
        let (kind, categories, name) = match *self {
            Self::End => (Kind::End, Categories::None, None),
            Self::Named {
                kind,
                category,
                name,
            } => (kind, Categories::Static(category), Some(Name::Static(name))),
        };
        Event {
            kind,
            categories,
            name,
            track: EventTrack::Thread,
            value: None,
            fields: &[],
        }
    }
}

/// An event to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event<'a> {
    pub(crate) kind: Kind,
    pub(crate) categories: Categories<'a>,
    pub(crate) name: Option<Name<'a>>,
    pub(crate) track: EventTrack<'a>,
    pub(crate) value: Option<CounterValue>,
    pub(crate) fields: &'a [Field<'a>],
}

/// A counter value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CounterValue {
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Double(f64),
}

macro_rules! counter_values {
    ($variant:ident, $as:ty: $($type:ty),+) => {
        $(impl From<$type> for CounterValue {
            fn from(value: $type) -> Self {
                Self::$variant(value as $as)
            }
        })+
    };
}

counter_values!(Integer, i64: i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);
counter_values!(Double, f64: f32, f64);
