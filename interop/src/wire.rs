//! A reader of encoded messages that shares no code with the checked crates.
//!
//! Fields are looked up by the numbers in [`ferretto_proto::fields`], which `xtask` compares with
//! upstream's published schema.

/// A decoded message: its fields in their original order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    fields: Vec<(u32, Value)>,
}

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A number of any wire type.
    Number(u64),
    /// Text, bytes, a message or packed numbers.
    Bytes(Vec<u8>),
}

impl Message {
    /// Decodes a message.
    ///
    /// # Panics
    /// If the bytes are not a message.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Self {
        Self::try_decode(bytes).expect("the message is well-formed")
    }

    /// Decodes a message. Returns `None` if it is malformed.
    #[must_use]
    pub fn try_decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let mut fields = Vec::new();
        while !rest.is_empty() {
            fields.push(field(&mut rest)?);
        }
        Some(Self { fields })
    }

    /// Returns all fields in their original order.
    #[must_use]
    pub fn fields(&self) -> &[(u32, Value)] {
        &self.fields
    }

    /// Returns true if the message has the field.
    #[must_use]
    pub fn has(&self, number: u32) -> bool {
        self.fields.iter().any(|(found, _)| *found == number)
    }

    /// Returns the number in a field: the last one, or zero if there is none.
    #[must_use]
    pub fn number(&self, number: u32) -> u64 {
        let values = self.fields.iter().rev();
        let mut numbers = values.filter_map(|(found, value)| match value {
            Value::Number(value) if *found == number => Some(*value),
            _ => None,
        });
        numbers.next().unwrap_or(0)
    }

    /// Returns the numbers of a repeated field that is not packed.
    #[must_use]
    pub fn numbers(&self, number: u32) -> Vec<u64> {
        let values = self.fields.iter().filter(|(found, _)| *found == number);
        values
            .filter_map(|(_, value)| match value {
                Value::Number(value) => Some(*value),
                Value::Bytes(_) => None,
            })
            .collect()
    }

    /// Returns the contents of a repeated field of bytes, text or messages.
    pub fn all(&self, number: u32) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.fields
            .iter()
            .filter_map(move |(found, value)| match value {
                Value::Bytes(bytes) if *found == number => Some(bytes.as_slice()),
                _ => None,
            })
    }

    /// Returns the text in a field; empty if there is none.
    ///
    /// # Panics
    ///
    /// If it is not UTF-8.
    #[must_use]
    pub fn text(&self, number: u32) -> &str {
        let bytes = self.all(number).next_back().unwrap_or_default();
        std::str::from_utf8(bytes).expect("the text is UTF-8")
    }

    /// Returns the message in a field; empty if there is none.
    ///
    /// # Panics
    ///
    /// If the field does not contain a message.
    #[must_use]
    pub fn message(&self, number: u32) -> Self {
        Self::decode(self.all(number).next_back().unwrap_or_default())
    }

    /// Returns the messages of a repeated field.
    ///
    /// # Panics
    ///
    /// If the field contains other data.
    #[must_use]
    pub fn messages(&self, number: u32) -> Vec<Self> {
        self.all(number).map(Self::decode).collect()
    }
}

fn field(rest: &mut &[u8]) -> Option<(u32, Value)> {
    let tag = varint(rest)?;
    let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0)?;
    let value = match tag & 7 {
        0 => Value::Number(varint(rest)?),
        1 => Value::Number(u64::from_le_bytes(take(rest, 8)?.try_into().ok()?)),
        2 => {
            let length = usize::try_from(varint(rest)?).ok()?;
            Value::Bytes(take(rest, length)?.to_vec())
        }
        5 => {
            let bytes = take(rest, 4)?.try_into().ok()?;
            Value::Number(u64::from(u32::from_le_bytes(bytes)))
        }
        _ => return None,
    };
    Some((number, value))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
