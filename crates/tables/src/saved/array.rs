//! Lists that are read on first use.

use std::io;
use std::ops::Deref;
use std::sync::OnceLock;

use super::{Reader, Stored, Writer};

/// A list, which may be read from a saved trace on first use.
#[derive(Debug)]
pub struct Array<T> {
    values: OnceLock<Vec<T>>,
    stored: Option<Stored>,
}

/// A type of numbers of a list.
pub trait Element: Copy + Default + std::fmt::Debug {
    /// The number of bytes in a file.
    const BYTES: usize;

    /// Appends the bytes of a number.
    fn write(self, out: &mut Vec<u8>);

    /// Returns the number with these bytes.
    fn read(bytes: &[u8]) -> Self;
}

macro_rules! element {
    ($($type:ty)+) => {$(
        impl Element for $type {
            const BYTES: usize = size_of::<$type>();

            fn write(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            #[inline]
            fn read(bytes: &[u8]) -> Self {
                bytes.try_into().map_or(0, Self::from_le_bytes)
            }
        }
    )+};
}

element!(u8 u16 u32 u64 i64);

impl<T> Default for Array<T> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<T> From<Vec<T>> for Array<T> {
    fn from(values: Vec<T>) -> Self {
        Self {
            values: values.into(),
            stored: None,
        }
    }
}

impl<T> FromIterator<T> for Array<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Vec::from_iter(values).into()
    }
}

impl<T: Element> Deref for Array<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        self.values.get_or_init(|| match &self.stored {
            Some(stored) => decode(&stored.read()),
            None => Vec::new(),
        })
    }
}

pub(crate) fn decode<T: Element>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(T::BYTES).map(T::read).collect()
}

impl<T: Element> Array<T> {
    /// Returns the memory in bytes.
    pub fn memory(&self) -> usize {
        let values = self.values.get().map_or(0, Vec::capacity);
        values * size_of::<T>()
    }

    /// Writes the list.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub fn save(&self, writer: &mut Writer<'_>) -> io::Result<()> {
        writer.number(self.len() as u64);
        let mut bytes = Vec::new();
        for values in self.chunks(1 << 14) {
            bytes.clear();
            values.iter().for_each(|value| value.write(&mut bytes));
            writer.data(&bytes)?;
        }
        Ok(())
    }

    /// Returns a written list, which is read on first use.
    ///
    /// # Errors
    ///
    /// Fails if the file is damaged.
    pub fn load(reader: &mut Reader) -> io::Result<Self> {
        let count: usize = reader.small()?;
        let length = count.saturating_mul(T::BYTES);
        Ok(Self {
            values: OnceLock::new(),
            stored: Some(reader.stored(length)?),
        })
    }
}
