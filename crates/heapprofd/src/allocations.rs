//! The live allocations of a heap, by address.

use rustc_hash::FxHashMap;

/// The number of allocations up to which one table has all.
const MAX_OF_ONE: usize = 1 << 12;
/// The number of tables of more allocations.
const TABLES: usize = 1 << 8;
/// The largest number of allocations of a table: twice its share of the largest number of all.
const MAX_OF_TABLE: usize = 1 << 15;

/// Values by the address of an allocation.
///
/// A table that grows moves all of its entries, which takes 50 ms for a million, and meanwhile no
/// client is served. So many allocations are in several tables, each of which moves few.
#[derive(Debug)]
pub(crate) struct Allocations<T> {
    tables: Vec<FxHashMap<u64, T>>,
    len: usize,
    is_crowded: bool,
}

impl<T> Default for Allocations<T> {
    fn default() -> Self {
        Self {
            tables: vec![FxHashMap::default()],
            len: 0,
            is_crowded: false,
        }
    }
}

impl<T> Allocations<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns true if one table has too many allocations. Only addresses that were chosen for this
    /// do that.
    pub(crate) fn is_crowded(&self) -> bool {
        self.is_crowded
    }

    pub(crate) fn get(&self, address: u64) -> Option<&T> {
        self.tables[self.table_of(address)].get(&address)
    }

    pub(crate) fn insert(&mut self, address: u64, value: T) {
        if self.tables.len() == 1 && self.len >= MAX_OF_ONE {
            self.divide();
        }
        let table = self.table_of(address);
        let table = &mut self.tables[table];
        self.len += usize::from(table.insert(address, value).is_none());
        self.is_crowded |= table.len() > MAX_OF_TABLE;
    }

    pub(crate) fn remove(&mut self, address: u64) {
        let table = self.table_of(address);
        let removed = self.tables[table].remove(&address);
        self.len -= usize::from(removed.is_some());
    }

    /// Moves the allocations of the only table into several.
    fn divide(&mut self) {
        let all = std::mem::take(&mut self.tables);
        self.tables.resize_with(TABLES, FxHashMap::default);
        for (address, value) in all.into_iter().flatten() {
            let table = self.table_of(address);
            self.tables[table].insert(address, value);
        }
    }

    fn table_of(&self, address: u64) -> usize {
        // Independent of the hash within a table, and even for addresses at any equal distances.
        let mut mixed = (address ^ address >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 32) as usize % self.tables.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use ferretto_testing::Random;

    use super::*;

    #[test]
    fn allocations_are_those_of_one_table() {
        let mut random = Random(3);
        let mut allocations = Allocations::default();
        let mut expected = HashMap::new();
        for number in 0..100_000_u64 {
            let address = 16 * random.below(20_000) as u64;
            if random.below(3) == 0 {
                allocations.remove(address);
                expected.remove(&address);
            } else {
                allocations.insert(address, number);
                expected.insert(address, number);
            }
            assert_eq!(allocations.len(), expected.len());
        }
        for address in (0..20_000).map(|n| 16 * n) {
            assert_eq!(allocations.get(address), expected.get(&address));
        }
        assert!(!allocations.is_crowded());
    }

    #[test]
    fn tables_stay_small_at_any_distance_of_addresses() {
        for distance in [1, 16, 48, 4096, 1 << 21, 0x100_0001_0000] {
            let mut allocations = Allocations::default();
            for number in 0..1 << 18 {
                allocations.insert(0x7f00_0000_0000 + number * distance, ());
            }
            let most = allocations.tables.iter().map(FxHashMap::capacity).max();
            assert!(
                most <= Some(1 << 13),
                "{most:?} at a distance of {distance}"
            );
            assert!(!allocations.is_crowded());
        }
    }

    #[test]
    fn addresses_chosen_for_one_table_crowd_it() {
        let mut allocations = Allocations::default();
        let mut others = Allocations::default();
        for number in 0..MAX_OF_ONE as u64 {
            allocations.insert(number, ());
            others.insert(number, ());
        }
        others.divide();
        let chosen = (MAX_OF_ONE as u64..).filter(|address| others.table_of(*address) == 7);
        for address in chosen.take(MAX_OF_TABLE - 100) {
            allocations.insert(address, ());
        }
        assert!(!allocations.is_crowded());
        let rest = (1 << 40..).filter(|address| others.table_of(*address) == 7);
        for address in rest.take(100) {
            allocations.insert(address, ());
        }
        assert!(allocations.is_crowded());
    }
}
