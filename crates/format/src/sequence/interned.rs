//! Tables of interned entries, which packets refer to by iid.

use std::collections::HashMap;

use ferretto_proto::fields::interned_string;
use ferretto_wire::{Field, Fields};

use super::fault::{Fault, FaultSink};
use crate::budget::{Budget, entry_bytes};

/// The entries of one kind of interned data, by iid.
///
/// Writers count up from 1, and such entries are in an array. Other entries are in a hash table,
/// until there are enough of them to fill most of the gaps.
#[derive(Debug, Clone)]
pub struct InternedTable<T> {
    /// The array of entries by iid.
    counted: Vec<Option<T>>,
    others: HashMap<u64, T>,
}

/// The largest number of array slots per entry.
const SLOTS_PER_ENTRY: usize = 4;

impl<T> Default for InternedTable<T> {
    fn default() -> Self {
        Self {
            counted: Vec::new(),
            others: HashMap::new(),
        }
    }
}

impl<T> InternedTable<T> {
    /// The memory of an entry, without data that it points to.
    pub const ENTRY_BYTES: usize = entry_bytes::<(u64, T)>();

    /// Returns the entry with this iid.
    #[inline]
    pub fn get(&self, iid: u64) -> Option<&T> {
        let index = usize::try_from(iid).unwrap_or(usize::MAX);
        match self.counted.get(index) {
            Some(entry) => entry.as_ref(),
            None if self.others.is_empty() => None,
            None => self.others.get(&iid),
        }
    }

    /// Returns the entry with this iid for modification.
    #[inline]
    pub fn get_mut(&mut self, iid: u64) -> Option<&mut T> {
        let index = usize::try_from(iid).unwrap_or(usize::MAX);
        match self.counted.get_mut(index) {
            Some(entry) => entry.as_mut(),
            None => self.others.get_mut(&iid),
        }
    }

    /// Adds an entry, which replaces one with the same iid.
    pub fn insert(&mut self, iid: u64, entry: T) {
        let index = usize::try_from(iid).unwrap_or(usize::MAX);
        if self.counted.is_empty() && index == 1 {
            self.counted.push(None);
        }
        if let Some(old) = self.counted.get_mut(index) {
            *old = Some(entry);
        } else if index == self.counted.len() && !self.others.contains_key(&iid) {
            self.counted.push(Some(entry));
        } else {
            let others = &mut self.others;
            let is_new = others.insert(iid, entry).is_none();
            // Rarely enough that entries are moved only a few times.
            let are_many = others.len() * 8 >= self.counted.len();
            if is_new && are_many && others.len().is_power_of_two() {
                self.gather();
            }
        }
    }

    /// Moves entries into the array if few slots stay empty.
    fn gather(&mut self) {
        let entries = self.counted.iter().flatten().count() + self.others.len();
        let last = self.others.keys().max().copied().unwrap_or(0);
        let slots = usize::try_from(last)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        if slots > entries * SLOTS_PER_ENTRY {
            return;
        }
        if self.counted.len() < slots {
            self.counted.resize_with(slots, || None);
        }
        for (iid, entry) in self.others.drain() {
            self.counted[iid as usize] = Some(entry);
        }
    }

    /// Forgets all entries.
    pub fn clear(&mut self) {
        self.counted.clear();
        self.others.clear();
    }
}

/// An encoded entry of `InternedData`.
#[derive(Debug, Clone, Copy)]
pub struct InternedEntry<'a> {
    /// The field of `InternedData`, which is the table.
    pub table: u32,
    /// The iid; 0 if it is missing.
    pub iid: u64,
    /// The encoded entry.
    pub bytes: &'a [u8],
    /// The field after the iid, which is the string of string entries: most kinds have the fields
    /// of `InternedString`.
    pub string: Option<&'a [u8]>,
}

impl<'a> InternedEntry<'a> {
    /// Parses a field of `InternedData`; `None` if it is not a message.
    pub fn read(field: &Field<'a>) -> Option<Self> {
        let mut entry = Self {
            table: field.number,
            iid: 0,
            bytes: field.as_bytes()?,
            string: None,
        };
        Fields::walk(entry.bytes, |part| match part.number {
            interned_string::IID => entry.iid = part.as_u64().unwrap_or(0),
            interned_string::STR if entry.string.is_none() => entry.string = part.as_bytes(),
            _ => {}
        });
        Some(entry)
    }

    /// Parses all entries of an encoded `InternedData`.
    pub fn all(interned: &'a [u8]) -> impl Iterator<Item = Self> {
        let fields = Fields::new(interned).map_while(Result::ok);
        fields.filter_map(|field| Self::read(&field))
    }
}

/// The largest number of tables; the schema has fewer.
const MAX_TABLES: usize = 64;

/// The strings of a sequence, by table and iid. Clearing returns their memory to the budget.
#[derive(Debug)]
pub struct InternedStrings {
    budget: Budget,
    taken: usize,
    /// The tables, rarely more than a few.
    tables: Vec<(u32, InternedTable<Box<[u8]>>)>,
}

impl InternedStrings {
    /// Creates empty tables whose memory is taken from `budget`.
    pub fn new(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            taken: 0,
            tables: Vec::new(),
        }
    }

    /// Returns the string with this iid.
    #[inline]
    pub fn get(&self, table: u32, iid: u64) -> Option<&[u8]> {
        let mut tables = self.tables.iter();
        let (_, table) = tables.find(|(number, _)| *number == table)?;
        table.get(iid).map(|string| &**string)
    }

    /// Adds a string. An existing one stays; it is a fault if the two differ.
    pub fn define(&mut self, table: u32, iid: u64, string: &[u8], faults: FaultSink<'_>) {
        match self.get(table, iid) {
            Some(known) if known != string => return faults(Fault::Redefined),
            Some(_) => return,
            None => {}
        }
        let bytes = string.len() + InternedTable::<Box<[u8]>>::ENTRY_BYTES;
        let index = self.tables.iter().position(|(number, _)| *number == table);
        if (index.is_none() && self.tables.len() == MAX_TABLES) || !self.budget.take(bytes) {
            return;
        }
        self.taken += bytes;
        let index = index.unwrap_or_else(|| {
            self.tables.push((table, InternedTable::default()));
            self.tables.len() - 1
        });
        if let Some((_, table)) = self.tables.get_mut(index) {
            table.insert(iid, string.into());
        }
    }

    /// Forgets all strings.
    pub fn clear(&mut self) {
        self.budget.give_back(std::mem::take(&mut self.taken));
        for (_, table) in &mut self.tables {
            table.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::InternedTable;

    #[test]
    fn entries_are_found_for_any_iids_in_any_order() {
        let orders: [&[u64]; 7] = [
            &[1, 2, 3, 4],
            &[9, 3, 12, 1, 7, 30, 2, 5, 11, 40, 6, 4],
            &[1, 2, 5, 6, 9, 1 << 40, 3, 7, 8, 10, 4, 11],
            &[0, 1, 2],
            &[3, 2, 1, 4, 5],
            &[1, 3, 2, 3, 4],
            &[u64::MAX, 1, 1 << 32, 2],
        ];
        for iids in orders {
            let mut table = InternedTable::default();
            for (count, &iid) in iids.iter().enumerate() {
                table.insert(iid, (iid, count));
                assert_eq!(table.get(iid), Some(&(iid, count)), "{iids:?}");
            }
            for &iid in iids {
                assert_eq!(table.get(iid).map(|entry| entry.0), Some(iid), "{iids:?}");
                assert!(table.get_mut(iid).is_some());
            }
            assert_eq!(table.get(77), None);
            table.clear();
            assert_eq!(iids.iter().find(|iid| table.get(**iid).is_some()), None);
        }
    }
}
