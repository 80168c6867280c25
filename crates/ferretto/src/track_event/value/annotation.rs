//! Annotations: the messages into which values are written.

use std::fmt;

use ferretto_proto::fields::debug_annotation as field;
use ferretto_wire::{Encoder, Sink};

use crate::track_event::EventEncoder;
use crate::track_event::fast;
use crate::track_event::interner::Interner;

/// The maximum nesting of dictionaries and arrays.
const MAX_DEPTH: u8 = 16;

/// The text that replaces values nested too deeply.
const TOO_DEEP: &str = "…";

/// The text that replaces array items without a value. Readers would otherwise number the following
/// items wrongly.
const NOTHING: &str = "None";

/// A value that can be attached to an event.
///
/// Implemented for the types of the standard library:
///
/// | type | in the recording |
/// |---|---|
/// | integers, booleans, floats, `NonZero…`, atomics | numbers; those of 128 bits that need more than 64 as text |
/// | `char`, strings, `CStr`, `OsStr`, paths, `format_args!(…)`, network addresses, errors with their sources | text |
/// | `[u8]`, `Vec<u8>`, `[u8; N]` | text: printable ASCII as it is, `\xff` for the rest |
/// | raw pointers, `NonNull`, function pointers | addresses |
/// | [`Duration`](std::time::Duration) | nanoseconds |
/// | [`Instant`](std::time::Instant) | nanoseconds on the clock of the recording (time since boot) |
/// | [`SystemTime`](std::time::SystemTime) | text: RFC 3339, in UTC |
/// | slices, arrays, `Vec`, `VecDeque`, `LinkedList`, `BinaryHeap`, sets, tuples | arrays |
/// | `BTreeMap`, `HashMap` | dictionaries; keys as they are displayed |
/// | references, `Box`, `Rc`, `Arc`, `Cow`, `Wrapping`, `Reverse` | what is inside |
/// | `Option` | what is inside; `None` attaches nothing but the name (in arrays: the text `None`) |
/// | `Result` | a dictionary with one member, `ok` or `err` |
/// | `()` | nothing but the name |
///
/// For other types, use [`display`](crate::display) or [`debug`](crate::debug), or implement the
/// trait: with `#[derive(ferretto::Argument)]`, or by hand, by calling one of the methods of
/// [`Annotation`].
///
/// ```
/// use ferretto::track_event::{Annotation, Argument};
///
/// struct Colour { red: u8, green: u8, blue: u8 }
///
/// impl Argument for Colour {
///     fn write(&self, annotation: &mut Annotation<'_>) {
///         annotation.display(format_args!("#{:02x}{:02x}{:02x}", self.red, self.green, self.blue));
///     }
/// }
///
/// ferretto::instant!("rendering", "clear", with = Colour { red: 1, green: 2, blue: 3 });
/// ```
pub trait Argument {
    /// Writes the value.
    fn write(&self, annotation: &mut Annotation<'_>);

    /// Returns the value that [`write`](Self::write) writes, if it is an integer or a `bool`.
    /// Events whose arguments all return a number are written faster. Implementing this method is
    /// optional.
    #[inline]
    fn number(&self) -> Number {
        Number::NONE
    }

    /// Writes a slice of such values: as an array, unless the type overrides this, as `u8` does.
    fn write_slice(items: &[Self], annotation: &mut Annotation<'_>)
    where
        Self: Sized,
    {
        annotation.array(|array| {
            array.extend(items);
        });
    }
}

/// An optional integer or `bool` attached to an event. See [`Argument::number`].
#[derive(Clone, Copy, Debug)]
pub struct Number {
    /// The field of a DebugAnnotation message; 0 for none. The struct has two words, so that
    /// functions return it in registers.
    field: u64,
    value: u64,
}

impl Number {
    /// No number.
    pub const NONE: Self = Self { field: 0, value: 0 };

    /// Returns a `bool` as a number.
    #[inline]
    pub fn bool(value: bool) -> Self {
        Self::new(field::BOOL_VALUE, value.into())
    }

    /// Returns a signed integer.
    #[inline]
    pub fn int(value: i64) -> Self {
        Self::new(field::INT_VALUE, value as u64)
    }

    /// Returns an unsigned integer.
    #[inline]
    pub fn uint(value: u64) -> Self {
        Self::new(field::UINT_VALUE, value)
    }

    #[inline]
    fn new(field: u32, value: u64) -> Self {
        let field = field.into();
        Self { field, value }
    }

    /// Returns the field and the value, if there is a value.
    #[inline]
    pub(in crate::track_event) fn get(self) -> Option<(u32, u64)> {
        (self.field != 0).then_some((self.field as u32, self.value))
    }
}

/// Receives the value of one argument. Call exactly one of its methods.
pub struct Annotation<'a> {
    pub(super) encoder: EventEncoder<'a>,
    /// Interns the names of protobuf types and members.
    pub(super) interner: &'a mut Interner,
    /// The number of dictionaries and arrays around the value.
    depth: u8,
}

impl<'a> Annotation<'a> {
    /// Creates an annotation that appends to a DebugAnnotation message.
    #[inline]
    pub(in crate::track_event) fn new(
        encoder: &'a mut EventEncoder<'_>,
        interner: &'a mut Interner,
    ) -> Self {
        Self::nested(encoder, interner, 0)
    }

    #[inline]
    fn nested(encoder: &'a mut EventEncoder<'_>, interner: &'a mut Interner, depth: u8) -> Self {
        Self {
            encoder: Encoder::new(encoder.sink()),
            interner,
            depth,
        }
    }

    #[inline(always)]
    fn put_varint<const FIELD: u32>(&mut self, value: u64) {
        fast::put_varint::<FIELD>(self.encoder.sink(), value);
    }

    /// Writes a boolean.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.put_varint::<{ field::BOOL_VALUE }>(value.into());
    }

    /// Writes a signed integer.
    #[inline]
    pub fn int(&mut self, value: i64) {
        self.put_varint::<{ field::INT_VALUE }>(value as u64);
    }

    /// Writes an unsigned integer.
    #[inline]
    pub fn uint(&mut self, value: u64) {
        self.put_varint::<{ field::UINT_VALUE }>(value);
    }

    /// Writes a floating-point number.
    #[inline]
    pub fn double(&mut self, value: f64) {
        self.encoder.double(field::DOUBLE_VALUE, value);
    }

    /// Writes a string.
    #[inline]
    pub fn text(&mut self, value: &str) {
        self.encoder.string(field::STRING_VALUE, value);
    }

    /// Writes an address.
    #[inline]
    pub fn pointer(&mut self, address: u64) {
        self.encoder.varint(field::POINTER_VALUE, address);
    }

    /// Writes a string in place by the `Display` implementation of `value`.
    pub fn display(&mut self, value: impl fmt::Display) {
        self.format(format_args!("{value}"));
    }

    /// Writes a string in place by the `Debug` implementation of `value`, on one line.
    pub fn debug(&mut self, value: impl fmt::Debug) {
        self.format(format_args!("{value:?}"));
    }

    fn format(&mut self, arguments: fmt::Arguments<'_>) {
        match arguments.as_str() {
            Some(text) => self.text(text),
            None => self.encoder.nested(field::STRING_VALUE, |text| {
                // If the implementation fails, its output so far stays.
                let _ = fmt::write(&mut Text(text), arguments);
            }),
        }
    }

    /// Writes bytes as text: printable ASCII unchanged, other bytes as `\xff`.
    pub fn bytes(&mut self, value: &[u8]) {
        self.display(value.escape_ascii());
    }

    /// Writes a dictionary; `fill` adds its members.
    ///
    /// ```
    /// # use ferretto::track_event::{Annotation, Argument};
    /// # struct Size(u32, u32);
    /// # impl Argument for Size {
    /// fn write(&self, annotation: &mut Annotation<'_>) {
    ///     annotation.dict(|dict| {
    ///         dict.field("width", &self.0).field("height", &self.1);
    ///     });
    /// }
    /// # }
    /// ```
    pub fn dict(&mut self, fill: impl FnOnce(&mut Dict<'_>)) {
        if let Some(inside) = self.deeper() {
            fill(&mut Dict { inside });
        }
    }

    /// Writes an array; `fill` adds its items.
    pub fn array(&mut self, fill: impl FnOnce(&mut Array<'_>)) {
        if let Some(inside) = self.deeper() {
            fill(&mut Array { inside });
        }
    }

    /// Returns an annotation for nested values, unless they would be nested too deeply.
    fn deeper(&mut self) -> Option<Annotation<'_>> {
        let depth = self.depth + 1;
        self.is_allowed()
            .then(|| Annotation::nested(&mut self.encoder, self.interner, depth))
    }

    /// Returns true if dictionaries and arrays may be nested deeper. Writes a replacement if not.
    fn is_allowed(&mut self) -> bool {
        let is_allowed = self.depth < MAX_DEPTH;
        if !is_allowed {
            self.text(TOO_DEEP);
        }
        is_allowed
    }

    /// Reborrows the annotation.
    #[cfg(feature = "serde")]
    pub(super) fn again(&mut self) -> Annotation<'_> {
        Annotation::nested(&mut self.encoder, self.interner, self.depth)
    }

    /// Like [`Annotation::dict`], but returns the dictionary, or `None` if it would be nested too
    /// deeply.
    #[cfg(feature = "serde")]
    pub(super) fn into_dict(mut self) -> Option<Dict<'a>> {
        self.is_allowed().then(|| Dict {
            inside: self.inner(),
        })
    }

    /// Like [`Annotation::array`], but returns the array, or `None` if it would be nested too
    /// deeply.
    #[cfg(feature = "serde")]
    pub(super) fn into_array(mut self) -> Option<Array<'a>> {
        self.is_allowed().then(|| Array {
            inside: self.inner(),
        })
    }

    #[cfg(feature = "serde")]
    fn inner(self) -> Self {
        Self {
            depth: self.depth + 1,
            ..self
        }
    }

    /// Appends a nested DebugAnnotation message.
    #[inline]
    fn member(&mut self, field: u32, write: impl FnOnce(&mut Annotation<'_>)) {
        let (interner, depth) = (&mut *self.interner, self.depth);
        self.encoder.nested(field, |message| {
            write(&mut Annotation::nested(message, interner, depth));
        });
    }

    /// Writes a message of the type with this full name (`perfetto.protos.LogMessage`). The viewer
    /// must know the type, or the recording must describe it. `write` appends the fields.
    pub fn proto(&mut self, type_name: &'static str, write: impl FnOnce(&mut EventEncoder<'_>)) {
        let name = self.interner.type_name(type_name);
        self.encoder.varint(field::PROTO_TYPE_NAME_IID, name);
        self.encoder.nested(field::PROTO_VALUE, write);
    }
}

impl fmt::Debug for Annotation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Annotation")
            .field("depth", &self.depth)
            .finish_non_exhaustive()
    }
}

/// The members of a dictionary. See [`Annotation::dict`].
#[derive(Debug)]
pub struct Dict<'a> {
    inside: Annotation<'a>,
}

#[cfg(feature = "serde")]
impl<'a> Dict<'a> {
    /// Returns the annotation that members are appended to.
    pub(super) fn into_inside(self) -> Annotation<'a> {
        self.inside
    }
}

impl Dict<'_> {
    /// Adds a member with a key known at run time.
    pub fn entry<T: Argument + ?Sized>(&mut self, key: &str, value: &T) -> &mut Self {
        self.entry_with(key, |annotation| value.write(annotation))
    }

    /// Adds a member with a key known at compile time, which is written once for each thread and
    /// recording.
    pub fn field<T: Argument + ?Sized>(&mut self, key: &'static str, value: &T) -> &mut Self {
        self.field_with(key, |annotation| value.write(annotation))
    }

    /// Adds a member with a key known at compile time, whose value `write` writes.
    pub fn field_with(
        &mut self,
        key: &'static str,
        write: impl FnOnce(&mut Annotation<'_>),
    ) -> &mut Self {
        self.inside.member(field::DICT_ENTRIES, |entry| {
            let key = entry.interner.argument(key);
            entry.encoder.varint(field::NAME_IID, key);
            write(entry);
        });
        self
    }

    /// Adds a member whose value `write` writes.
    pub fn entry_with(&mut self, key: &str, write: impl FnOnce(&mut Annotation<'_>)) -> &mut Self {
        self.inside.member(field::DICT_ENTRIES, |entry| {
            entry.encoder.string(field::NAME, key);
            write(entry);
        });
        self
    }

    /// Adds a member whose key is written by its `Display` implementation.
    pub(super) fn displayed<T: Argument + ?Sized>(&mut self, key: impl fmt::Display, value: &T) {
        self.inside.member(field::DICT_ENTRIES, |entry| {
            entry.encoder.nested(field::NAME, |name| {
                let _ = fmt::write(&mut Text(name), format_args!("{key}"));
            });
            value.write(entry);
        });
    }
}

/// The items of an array. See [`Annotation::array`].
#[derive(Debug)]
pub struct Array<'a> {
    inside: Annotation<'a>,
}

impl Array<'_> {
    /// Adds an item.
    pub fn item<T: Argument + ?Sized>(&mut self, value: &T) -> &mut Self {
        self.item_with(|annotation| value.write(annotation))
    }

    /// Adds an item whose value `write` writes.
    pub fn item_with(&mut self, write: impl FnOnce(&mut Annotation<'_>)) -> &mut Self {
        self.inside.member(field::ARRAY_VALUES, |item| {
            let start = item.encoder.sink().position();
            write(item);
            if item.encoder.sink().position() == start {
                item.text(NOTHING);
            }
        });
        self
    }

    /// Adds all items of an iterator.
    pub fn extend<T: Argument>(&mut self, values: impl IntoIterator<Item = T>) -> &mut Self {
        for value in values {
            self.item(&value);
        }
        self
    }
}

/// A `fmt::Write` that appends to a string field.
struct Text<'a, 'e>(&'a mut EventEncoder<'e>);

impl fmt::Write for Text<'_, '_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.0.raw(part.as_bytes());
        Ok(())
    }
}
