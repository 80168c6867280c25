//! What can be an argument of an event, and how it is written.

use std::fmt;

use ferretto_proto::fields::debug_annotation as field;

use super::buffer::EventEncoder;
use super::interner::Interner;

/// Something that can be attached to an event.
///
/// Implemented for numbers, booleans, text, references to such and options of such (`None` attaches nothing but the
/// name). Implement it for types of your own by calling one of the methods of [`Annotation`].
pub trait Argument {
    /// Writes the value.
    fn write(&self, annotation: &mut Annotation<'_>);
}

/// Takes the value of one argument. Call one of its methods once.
pub struct Annotation<'a> {
    pub(super) encoder: EventEncoder<'a>,
    /// For the names of protobuf types.
    #[expect(dead_code, reason = "no value needs it yet")]
    pub(super) interner: &'a mut Interner,
}

impl Annotation<'_> {
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

impl fmt::Debug for Annotation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Annotation").finish_non_exhaustive()
    }
}

macro_rules! arguments {
    ($method:ident, $as:ty: $($type:ty),+) => {
        $(impl Argument for $type {
            fn write(&self, annotation: &mut Annotation<'_>) {
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
    fn write(&self, annotation: &mut Annotation<'_>) {
        annotation.text(self);
    }
}

impl Argument for String {
    fn write(&self, annotation: &mut Annotation<'_>) {
        annotation.text(self);
    }
}

impl<T: Argument + ?Sized> Argument for &T {
    fn write(&self, annotation: &mut Annotation<'_>) {
        (**self).write(annotation);
    }
}

impl<T: Argument> Argument for Option<T> {
    fn write(&self, annotation: &mut Annotation<'_>) {
        if let Some(value) = self {
            value.write(annotation);
        }
    }
}
