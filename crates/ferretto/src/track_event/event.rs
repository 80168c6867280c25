//! The parts that an event consists of.

use super::category::Category;
use super::field::Field;
use super::name::Name;
use super::track::{CounterTrack, StateTrack, Track};

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The beginning of a slice.
    Begin = 1,
    /// The end of the innermost slice of the track.
    End = 2,
    /// A moment.
    Instant = 3,
    /// A value of a counter.
    Counter = 4,
    /// A state that begins and ends the one before.
    State = 5,
}

/// The categories that an event is asked for by, and how they are written.
#[derive(Clone, Copy, Debug)]
pub enum Categories<'a> {
    /// Of any category, and none is written: ends of slices.
    None,
    /// One known at compile time, or a group.
    Static(&'static Category),
    /// One or several, separated by commas, named at run time.
    Dynamic(&'a str),
}

impl Categories<'_> {
    /// The same, for an event that does not carry its categories.
    pub(crate) fn unwritten(self) -> Self {
        match self {
            Self::Static(_) => Self::None,
            other => other,
        }
    }
}

/// The place where an event is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    /// On the track of its thread, or where a field says.
    Thread,
    /// On this track, or where a field says.
    Track(&'a Track<'a>),
    Counter(&'a CounterTrack<'a>),
    State(&'a StateTrack<'a>),
}

/// An event to which nothing is attached.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ShortEvent {
    /// The end of a slice.
    End,
    /// The beginning of one, or a moment.
    Named {
        kind: Kind,
        category: &'static Category,
        name: &'static str,
    },
}

impl ShortEvent {
    /// The same with room for more.
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
            place: Place::Thread,
            value: None,
            fields: &[],
        }
    }
}

/// Something to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event<'a> {
    pub(crate) kind: Kind,
    pub(crate) categories: Categories<'a>,
    pub(crate) name: Option<Name<'a>>,
    pub(crate) place: Place<'a>,
    pub(crate) value: Option<CounterValue>,
    pub(crate) fields: &'a [Field<'a>],
}

/// A value of a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CounterValue {
    /// A whole number.
    Integer(i64),
    /// Any number.
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
