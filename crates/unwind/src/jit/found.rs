//! Collects functions while files are read.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Function;

/// The largest number of functions.
pub(super) const MAX_FUNCTIONS: usize = 1 << 18;
/// The largest size of all names.
pub(super) const MAX_NAMES: usize = 32 << 20;
/// The largest size of a name. Longer ones are cut off.
const MAX_NAME: usize = 1024;

/// The functions found since the last read.
pub(super) struct Found<'k> {
    /// The functions known before, sorted by address.
    known: &'k [Function],
    pub(super) functions: Vec<Function>,
    /// The index of the last function at each address.
    latest: FxHashMap<u64, usize>,
    bytes: usize,
}

impl<'k> Found<'k> {
    pub(super) fn new(known: &'k [Function]) -> Self {
        Self {
            known,
            functions: Vec::new(),
            latest: FxHashMap::default(),
            bytes: 0,
        }
    }

    /// Returns true if a limit is reached.
    pub(super) fn is_full(&self) -> bool {
        self.functions.len() >= MAX_FUNCTIONS || self.bytes >= MAX_NAMES
    }

    /// Adds a function of `size` bytes.
    pub(super) fn add(&mut self, start: u64, size: u64, name: &[u8]) {
        if !name.is_empty() {
            let name = String::from_utf8_lossy(&name[..name.len().min(MAX_NAME)]);
            self.push(start, size, name.as_ref().into());
        }
    }

    /// Adds a function that was moved to `start`.
    pub(super) fn moved(&mut self, old: u64, start: u64, size: u64) {
        let new = self.latest.get(&old).map(|index| &self.functions[*index]);
        let known = || {
            let index = self
                .known
                .binary_search_by_key(&old, |function| function.start);
            self.known.get(index.ok()?)
        };
        if let Some(function) = new.or_else(known) {
            let name = Arc::clone(&function.name);
            self.push(start, size, name);
        }
    }

    fn push(&mut self, start: u64, size: u64, name: Arc<str>) {
        let end = start.checked_add(size).filter(|end| *end > start);
        if let Some(end) = end.filter(|_| !self.is_full()) {
            self.bytes += name.len();
            self.latest.insert(start, self.functions.len());
            self.functions.push(Function { start, end, name });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(found: &Found<'_>) -> Vec<(u64, String)> {
        let functions = found.functions.iter();
        functions
            .map(|function| (function.start, function.name.to_string()))
            .collect()
    }

    #[test]
    fn moved_functions_may_be_known_from_before() {
        let known = [Function {
            start: 100,
            end: 200,
            name: "old".into(),
        }];
        let mut found = Found::new(&known);
        found.moved(100, 1000, 100);
        found.add(300, 50, b"new");
        found.moved(300, 2000, 50);
        found.moved(2000, 3000, 50);
        found.moved(150, 4000, 50);
        let expected = [(1000, "old"), (300, "new"), (2000, "new"), (3000, "new")];
        assert_eq!(
            names(&found),
            expected.map(|(start, name)| (start, name.to_owned()))
        );
    }

    #[test]
    fn functions_and_their_names_are_bounded() {
        let mut found = Found::new(&[]);
        for start in 0..MAX_FUNCTIONS as u64 * 2 {
            found.add(start, 1, b"f");
        }
        // Each is looked up among all others.
        for start in 0..MAX_FUNCTIONS as u64 {
            found.moved(start, start + 1, 1);
        }
        assert!(found.is_full());
        assert_eq!(found.functions.len(), MAX_FUNCTIONS);
        let mut found = Found::new(&[]);
        let long = [b'x'; 1 << 16];
        (0..MAX_FUNCTIONS as u64).for_each(|start| found.add(start, 1, &long));
        let bytes: usize = found
            .functions
            .iter()
            .map(|function| function.name.len())
            .sum();
        assert!(bytes < MAX_NAMES + (1 << 16), "{bytes}");
        found.add(u64::MAX, 1, b"beyond the end");
        found.add(7, 0, b"empty");
        assert!(
            found
                .functions
                .iter()
                .all(|function| function.start < function.end)
        );
    }
}
