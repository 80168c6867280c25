//! The stored values of a span between its creation and its slices.

use std::error::Error;
use std::fmt::{self, Write};

use ferretto::track_event::{Annotation, Argument, Arguments, Number};
use tracing_core::field::{Field, Visit};
use tracing_core::{Metadata, span};
use tracing_subscriber::registry::ExtensionsMut;

use super::bytes::Bytes;
use crate::names::{self, Special};

/// The number of bytes of a number or Boolean in [`Stored`].
pub(crate) const NUMBER_LENGTH: usize = 10;

/// The values of a span's fields, its flows and its track. Stored in [`Near`](super::near::Near) or
/// in the extensions of the span.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    /// For each field with a value: its index, a [`tag`] and the value. The last value of a
    /// repeated field is used.
    bytes: Bytes,
    /// True if there may be repeated fields.
    has_repeats: bool,
    /// The flows of the next slice, or of the end of the current one.
    pub(crate) flows: Vec<(ferretto::Flow, bool)>,
    /// The flow through all slices of the span.
    pub(crate) own_flow: Option<ferretto::Flow>,
    /// The track of the span's slice, if it has its own.
    pub(crate) lane: Option<Lane>,
}

/// A track for a span and spans within it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    pub(crate) name: &'static str,
    pub(crate) number: u64,
    /// True if it is the parent's track.
    pub(crate) is_shared: bool,
    /// True if a child span has its slice on this track.
    pub(crate) is_taken: bool,
    /// The number of bytes of values in the begin event of the slice.
    pub(crate) written: usize,
}

/// The kinds of values: the tag that follows the index of a field.
pub(crate) mod tag {
    pub(crate) const INT: u8 = 0;
    pub(crate) const UINT: u8 = 1;
    pub(crate) const DOUBLE: u8 = 2;
    pub(crate) const FALSE: u8 = 3;
    pub(crate) const TRUE: u8 = 4;
    /// Followed by a length of four bytes and the text; other tags are followed by eight bytes.
    pub(crate) const TEXT: u8 = 5;
}

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    /// A number or Boolean: its [`tag`] and its bits.
    Number(u8, u64),
    Text(&'a [u8]),
}

impl Argument for Value<'_> {
    #[inline]
    fn number(&self) -> Number {
        match *self {
            Self::Number(tag::INT, bits) => (bits as i64).number(),
            Self::Number(tag::UINT, bits) => bits.number(),
            Self::Number(tag @ (tag::FALSE | tag::TRUE), _) => (tag == tag::TRUE).number(),
            Self::Number(..) | Self::Text(_) => ().number(),
        }
    }

    fn write(&self, annotation: &mut Annotation<'_>) {
        match *self {
            Self::Number(tag::INT, bits) => annotation.int(bits as i64),
            Self::Number(tag::UINT, bits) => annotation.uint(bits),
            Self::Number(tag::DOUBLE, bits) => annotation.double(f64::from_bits(bits)),
            Self::Number(tag, _) => annotation.bool(tag == tag::TRUE),
            Self::Text(value) => match std::str::from_utf8(value) {
                Ok(text) => annotation.text(text),
                Err(_) => annotation.display(String::from_utf8_lossy(value)),
            },
        }
    }
}

impl Stored {
    /// Returns the stored values of a span, creating them if needed.
    pub(crate) fn of<'a>(extensions: &'a mut ExtensionsMut<'_>) -> &'a mut Self {
        if extensions.get_mut::<Self>().is_none() {
            extensions.insert(Self::default());
        }
        extensions.get_mut().expect("it was just inserted")
    }

    /// Adds the values of a new span.
    pub(crate) fn attributes(&mut self, attributes: &span::Attributes<'_>) {
        attributes.record(&mut Keep(self));
    }

    /// Adds values that are recorded later.
    pub(crate) fn record(&mut self, values: &span::Record<'_>) {
        values.record(&mut Keep(self));
    }

    /// Appends other stored values.
    pub(crate) fn append(&mut self, more: Self) {
        self.has_repeats = true;
        self.bytes.push(more.bytes.get());
        self.flows.extend(more.flows);
    }

    /// Removes everything and frees memory.
    #[inline]
    pub(crate) fn release(&mut self) {
        self.bytes.clear();
        self.flows = Vec::new();
        self.has_repeats = false;
        self.own_flow = None;
        self.lane = None;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.get().is_empty() && self.flows.is_empty()
    }

    /// Starts the flow through all slices of the span, unless it has started.
    pub(crate) fn begin_flow(&mut self) {
        self.own_flow
            .get_or_insert_with(|| ferretto::Flow::process(ferretto::track_event::unique()));
    }

    /// Returns the number of bytes of values.
    pub(crate) fn len(&self) -> usize {
        self.bytes.get().len()
    }

    /// Writes the values after the first `from` bytes to an event.
    pub(crate) fn write(
        &self,
        metadata: &'static Metadata<'static>,
        from: usize,
        arguments: &mut Arguments<'_>,
    ) {
        let mut rest = self.bytes.get().get(from..).unwrap_or_default();
        while let Some((index, value, after)) = next(rest) {
            rest = after;
            if self.has_repeats && indices(rest).any(|later| later == index) {
                continue;
            }
            if let Some(field) = metadata.fields().iter().nth(index.into()) {
                arguments.argument(field.name(), &value);
            }
        }
    }

    /// Stores the values after the first `from` bytes with their names in `fields`, if they fit,
    /// and returns their number.
    #[inline]
    pub(crate) fn few<'a>(
        &'a self,
        metadata: &'static Metadata<'static>,
        from: usize,
        fields: &mut [(&'static str, Value<'a>)],
    ) -> Option<usize> {
        if self.has_repeats {
            return None;
        }
        let mut count = 0;
        let mut rest = self.bytes.get().get(from..).unwrap_or_default();
        while let Some((index, value, after)) = next(rest) {
            rest = after;
            let field = metadata.fields().iter().nth(index.into())?;
            *fields.get_mut(count)? = (field.name(), value);
            count += 1;
        }
        Some(count)
    }

    /// Adds a number or Boolean.
    pub(crate) fn push_number(&mut self, index: u8, tag: u8, bits: u64) {
        let mut bytes = [0; NUMBER_LENGTH];
        bytes[..2].copy_from_slice(&[index, tag]);
        bytes[2..].copy_from_slice(&bits.to_le_bytes());
        self.bytes.push(&bytes);
    }

    fn number(&mut self, field: &Field, tag: u8, value: u64) {
        if let Ok(index) = u8::try_from(field.index()) {
            self.push_number(index, tag, value);
        }
    }

    fn plain_text(&mut self, field: &Field, value: &str) {
        if let (Ok(index), Ok(length)) = (u8::try_from(field.index()), u32::try_from(value.len())) {
            let length = length.to_le_bytes();
            self.bytes.push(&[index, tag::TEXT]);
            self.bytes.push(&length);
            self.bytes.push(value.as_bytes());
        }
    }

    fn text(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        let Ok(index) = u8::try_from(field.index()) else {
            return;
        };
        self.bytes.push(&[index, tag::TEXT, 0, 0, 0, 0]);
        let start = self.len();
        // If an implementation fails, its output before the error is kept.
        let _ = Text(&mut self.bytes).write_fmt(value);
        let length = u32::try_from(self.len() - start).unwrap_or(u32::MAX);
        self.bytes.get_mut()[start - 4..start].copy_from_slice(&length.to_le_bytes());
    }
}

/// Returns the first field, its value, and the remaining bytes.
fn next(bytes: &[u8]) -> Option<(u8, Value<'_>, &[u8])> {
    let (&[index, tag], rest) = bytes.split_first_chunk()?;
    if tag == tag::TEXT {
        let (length, rest) = rest.split_first_chunk()?;
        let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        return Some((index, Value::Text(text), rest));
    }
    let (bits, rest) = rest.split_first_chunk()?;
    Some((index, Value::Number(tag, u64::from_le_bytes(*bits)), rest))
}

fn indices(mut bytes: &[u8]) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let (index, _, rest) = next(bytes)?;
        bytes = rest;
        Some(index)
    })
}

/// A writer of text.
struct Text<'a>(&'a mut Bytes);

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.0.push(part.as_bytes());
        Ok(())
    }
}

/// A visitor that stores values.
struct Keep<'a>(&'a mut Stored);

impl Keep<'_> {
    fn number(&mut self, field: &Field, tag: u8, value: u64) {
        // Numbers of the other kinds are counters and flows.
        if matches!(
            names::special(field.name()),
            Special::None | Special::Message
        ) {
            self.0.number(field, tag, value);
        }
    }
}

impl Visit for Keep<'_> {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.number(field, tag::INT, value as u64);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.number(field, tag::UINT, value);
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        match i64::try_from(value) {
            Ok(value) => self.record_i64(field, value),
            Err(_) => self.0.text(field, format_args!("{value}")),
        }
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        match u64::try_from(value) {
            Ok(value) => self.record_u64(field, value),
            Err(_) => self.0.text(field, format_args!("{value}")),
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.number(field, tag::DOUBLE, value.to_bits());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        let tag = if value { tag::TRUE } else { tag::FALSE };
        self.0.number(field, tag, 0);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.plain_text(field, value);
    }

    fn record_bytes(&mut self, field: &Field, value: &[u8]) {
        self.0.text(field, format_args!("{}", value.escape_ascii()));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.0
            .text(field, format_args!("{}", ferretto::error(value)));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.text(field, format_args!("{value:?}"));
    }
}
