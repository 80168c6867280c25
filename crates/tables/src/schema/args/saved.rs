//! Saved arguments.

use std::io;

use super::ArgsTable;
use crate::column::{Bitmap, Packed};
use crate::saved::{Reader, Saved, Writer, check};
use crate::strings::StringId;

/// The rows of a table in a file.
#[derive(Debug)]
pub(super) struct SavedRows {
    pub(super) keys: Packed,
    pub(super) kinds: Packed,
    pub(super) values: Packed,
}

impl SavedRows {
    pub(super) fn memory(&self) -> usize {
        self.keys.memory() + self.kinds.memory() + self.values.memory()
    }
}

impl Saved for ArgsTable {
    fn save(&self, writer: &mut Writer<'_>) -> io::Result<()> {
        writer.number(self.keys.len() as u64);
        for (flat_key, key) in &self.keys {
            writer.number(flat_key.raw().into());
            writer.number(key.raw().into());
        }
        for name in self.type_names {
            writer.number(name.raw().into());
        }
        let rows = || (0..self.own_rows()).map(|row| self.encoded(row));
        Packed::save_all(writer, rows().map(|(key, ..)| key as i64))?;
        Packed::save_all(writer, rows().map(|(_, kind, _)| kind.into()))?;
        Packed::save_all(writer, rows().map(|(.., value)| value as i64))?;
        self.begins.save(writer)
    }

    fn load(reader: &mut Reader) -> io::Result<Self> {
        let mut table = Self::default();
        for _ in 0..reader.count()? {
            let mut text = || reader.small().map(StringId);
            table.keys.push((text()?, text()?));
        }
        for name in &mut table.type_names {
            *name = StringId(reader.small()?);
        }
        let saved = SavedRows {
            keys: Packed::load(reader)?,
            kinds: Packed::load(reader)?,
            values: Packed::load(reader)?,
        };
        table.begins = Bitmap::load(reader)?;
        for rows in [saved.kinds.len(), saved.values.len(), table.begins.len()] {
            check(rows == saved.keys.len())?;
        }
        table.saved = Some(Box::new(saved));
        Ok(table)
    }
}
