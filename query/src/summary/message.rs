//! Reading encoded messages by field numbers.

use ferretto_wire::{Field, Fields};

/// An encoded message. Of a field that occurs several times and is not repeated, the last counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message<'a>(pub(super) &'a [u8]);

impl<'a> Message<'a> {
    fn all(self, number: u32) -> impl Iterator<Item = Field<'a>> {
        let fields = Fields::new(self.0).flatten();
        fields.filter(move |field| field.number == number)
    }

    fn last(self, number: u32) -> Option<Field<'a>> {
        self.all(number).last()
    }

    /// Returns true if the message has the field.
    pub(super) fn has(self, number: u32) -> bool {
        self.last(number).is_some()
    }

    /// Returns the text of a field.
    pub(super) fn text(self, number: u32) -> Option<String> {
        let text = self.last(number)?.as_str_lossy()?;
        Some(text.into_owned())
    }

    /// Returns the text of a field unless it is empty.
    pub(super) fn filled(self, number: u32) -> Option<String> {
        self.text(number).filter(|text| !text.is_empty())
    }

    /// Returns the texts of a repeated field.
    pub(super) fn texts(self, number: u32) -> Vec<String> {
        self.all(number)
            .filter_map(|field| field.as_str_lossy())
            .map(|text| text.into_owned())
            .collect()
    }

    /// Returns the message in a field.
    pub(super) fn message(self, number: u32) -> Option<Self> {
        self.last(number)?.as_bytes().map(Self)
    }

    /// Returns the messages in a repeated field.
    pub(super) fn messages(self, number: u32) -> Vec<Self> {
        let messages = self.all(number).filter_map(|field| field.as_bytes());
        messages.map(Self).collect()
    }

    /// Returns the integer in a field.
    pub(super) fn int(self, number: u32) -> Option<i64> {
        self.last(number)?.as_i64()
    }

    /// Returns the integers in a repeated field.
    pub(super) fn ints(self, number: u32) -> Vec<i64> {
        let mut all = Vec::new();
        for field in self.all(number) {
            match field.as_i64() {
                Some(value) => all.push(value),
                None => all.extend(field.as_varints().map(u64::cast_signed)),
            }
        }
        all
    }

    /// Returns the number in a field.
    pub(super) fn double(self, number: u32) -> Option<f64> {
        self.last(number)?.as_f64()
    }

    /// Returns the numbers in a repeated field.
    pub(super) fn doubles(self, number: u32) -> Vec<f64> {
        let mut all = Vec::new();
        for field in self.all(number) {
            if let Some(value) = field.as_f64() {
                all.push(value);
            } else {
                let (packed, _) = field.as_bytes().unwrap_or_default().as_chunks();
                all.extend(packed.iter().map(|bytes| f64::from_le_bytes(*bytes)));
            }
        }
        all
    }

    /// Returns the truth value in a field.
    pub(super) fn bool(self, number: u32) -> Option<bool> {
        self.last(number)?.as_bool()
    }
}
