//! What an event consists of.

use std::fmt;

use ferretto_client::ChunkSink;
use ferretto_proto::fields::debug_annotation as field;
use ferretto_wire::Encoder;

/// The name of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name<'a> {
    /// Known at compile time: written once for each thread and recording.
    Static(&'static str),
    /// Made at run time: written each time.
    Dynamic(&'a str),
}

/// What kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The beginning of a slice.
    Begin = 1,
    /// The end of the innermost slice of the thread.
    End = 2,
    /// A moment.
    Instant = 3,
}

/// A value of a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CounterValue {
    /// A whole number.
    Integer(i64),
    /// Any number.
    Double(f64),
}

/// Something that can be attached to an event.
///
/// Implemented for numbers, booleans, text, references to such and options of such (`None` attaches nothing but the
/// name). Implement it for types of your own by calling one of the methods of [`Annotation`].
pub trait Argument {
    /// Writes the value.
    fn write(&self, annotation: &mut Annotation<'_, '_>);
}

/// Takes the value of one argument. Call one of its methods once.
pub struct Annotation<'a, 'e> {
    pub(super) encoder: &'a mut Encoder<'e, ChunkSink>,
}

impl Annotation<'_, '_> {
    /// A truth value.
    pub fn bool(&mut self, value: bool) {
        self.encoder.bool(field::BOOL_VALUE, value);
    }

    /// A whole number.
    pub fn int(&mut self, value: i64) {
        self.encoder.int(field::INT_VALUE, value);
    }

    /// A whole number that is never negative.
    pub fn uint(&mut self, value: u64) {
        self.encoder.varint(field::UINT_VALUE, value);
    }

    /// A number.
    pub fn double(&mut self, value: f64) {
        self.encoder.double(field::DOUBLE_VALUE, value);
    }

    /// A text.
    pub fn text(&mut self, value: &str) {
        self.encoder.string(field::STRING_VALUE, value);
    }

    /// An address.
    pub fn pointer(&mut self, value: u64) {
        self.encoder.varint(field::POINTER_VALUE, value);
    }
}

impl fmt::Debug for Annotation<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Annotation").finish_non_exhaustive()
    }
}

macro_rules! arguments {
    ($method:ident, $as:ty: $($type:ty),+) => {
        $(impl Argument for $type {
            fn write(&self, annotation: &mut Annotation<'_, '_>) {
                annotation.$method(*self as $as);
            }
        })+
    };
}

arguments!(bool, bool: bool);
arguments!(int, i64: i8, i16, i32, i64, isize);
arguments!(uint, u64: u8, u16, u32, u64, usize);
arguments!(double, f64: f32, f64);

impl Argument for str {
    fn write(&self, annotation: &mut Annotation<'_, '_>) {
        annotation.text(self);
    }
}

impl Argument for String {
    fn write(&self, annotation: &mut Annotation<'_, '_>) {
        annotation.text(self);
    }
}

impl<T: Argument + ?Sized> Argument for &T {
    fn write(&self, annotation: &mut Annotation<'_, '_>) {
        (**self).write(annotation);
    }
}

impl<T: Argument> Argument for Option<T> {
    fn write(&self, annotation: &mut Annotation<'_, '_>) {
        if let Some(value) = self {
            value.write(annotation);
        }
    }
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
