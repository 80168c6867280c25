//! The books of a heap: its live allocations and the totals of callstacks.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::allocations::Allocations;

/// The largest number of operations that wait for one with a lower sequence number. Those of
/// upstream's client arrive nearly in order.
const MAX_PARKED: usize = 1 << 16;

/// The largest number of live allocations of a heap: some hundred megabytes of books. A program
/// with samples every 4 KiB has as many if it uses 16 GiB.
const MAX_LIVE: usize = 1 << 22;

/// The largest number of callstacks of a heap.
const MAX_CALLSTACKS: usize = 1 << 20;

/// An operation of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) sequence: u64,
    pub(crate) address: u64,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Free,
    Malloc { size: u64, callstack: u64 },
}

/// The totals of a callstack's samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) allocated: u64,
    pub(crate) freed: u64,
    pub(crate) allocations: u64,
    pub(crate) frees: u64,
    /// Bytes and samples at the peak.
    pub(crate) peak: u64,
    pub(crate) peak_count: u64,
    /// Set if the totals changed since the peak.
    is_changed: bool,
}

impl Totals {
    pub(crate) fn live(&self) -> u64 {
        self.allocated - self.freed
    }

    fn live_count(&self) -> u64 {
        self.allocations - self.frees
    }
}

#[derive(Debug, Clone, Copy)]
struct Live {
    sequence: u64,
    size: u64,
    callstack: u64,
}

/// The order in which operations are applied.
#[derive(Debug)]
enum Order {
    /// As they arrive: operations on an address are in order, and sequence numbers match late
    /// frees.
    Arrival,
    /// By sequence number without gaps, as for upstream's client.
    Number {
        committed: u64,
        parked: BTreeMap<u64, Operation>,
    },
}

/// The books of a heap.
#[derive(Debug)]
pub(crate) struct Books {
    live: Allocations<Live>,
    totals: FxHashMap<u64, Totals>,
    live_bytes: u64,
    peak_bytes: u64,
    /// The time of the peak, on the caller's clock.
    peak_time: u64,
    /// The callstacks that changed since the peak.
    changed: Vec<u64>,
    order: Order,
}

impl Books {
    /// Creates empty books. With `is_extended`, operations are applied as they arrive.
    pub(crate) fn new(is_extended: bool) -> Self {
        Self {
            live: Allocations::default(),
            totals: FxHashMap::default(),
            live_bytes: 0,
            peak_bytes: 0,
            peak_time: 0,
            changed: Vec::new(),
            order: Self::order(is_extended),
        }
    }

    fn order(is_extended: bool) -> Order {
        if is_extended {
            Order::Arrival
        } else {
            Order::Number {
                committed: 0,
                parked: BTreeMap::new(),
            }
        }
    }

    /// Frees all allocations, since the process executed another program.
    pub(crate) fn restart(&mut self, is_extended: bool) {
        self.release();
        let with_live = self
            .totals
            .iter()
            .filter(|(_, totals)| totals.live_count() > 0);
        for callstack in with_live
            .map(|(callstack, _)| *callstack)
            .collect::<Vec<_>>()
        {
            let totals = self.totals(callstack);
            (totals.freed, totals.frees) = (totals.allocated, totals.allocations);
        }
        self.live_bytes = 0;
        self.order = Self::order(is_extended);
    }

    /// Returns the memory of all operations of a process that has ended. The totals stay.
    pub(crate) fn release(&mut self) {
        self.live = Allocations::default();
        if let Order::Number { parked, .. } = &mut self.order {
            parked.clear();
        }
    }

    /// Applies an operation. Returns false if the books are full: too many allocations are live, or
    /// too many operations wait for a missing one.
    pub(crate) fn add(&mut self, operation: Operation, time: u64) -> bool {
        let is_full = self.live.len() > MAX_LIVE || self.live.is_crowded();
        if is_full || self.totals.len() > MAX_CALLSTACKS {
            return false;
        }
        let Order::Number { committed, parked } = &mut self.order else {
            self.apply(operation, time);
            return true;
        };
        if operation.sequence <= *committed {
            return true;
        }
        if parked.len() >= MAX_PARKED && operation.sequence != *committed + 1 {
            return false;
        }
        parked.insert(operation.sequence, operation);
        let mut ready = Vec::new();
        while let Some(next) = parked.remove(&(*committed + 1)) {
            *committed += 1;
            ready.push(next);
        }
        for operation in ready {
            self.apply(operation, time);
        }
        true
    }

    fn apply(&mut self, operation: Operation, time: u64) {
        let known = self.live.get(operation.address).copied();
        match operation.kind {
            Kind::Free => {
                if let Some(live) = known.filter(|live| live.sequence < operation.sequence) {
                    self.live.remove(operation.address);
                    self.free(live);
                }
            }
            Kind::Malloc { size, callstack } => {
                let new = Live {
                    sequence: operation.sequence,
                    size,
                    callstack,
                };
                self.allocate(new, time);
                match known {
                    // The old allocation was freed; that operation is late.
                    Some(old) if old.sequence < new.sequence => self.free(old),
                    Some(_) => return self.free(new),
                    None => {}
                }
                self.live.insert(operation.address, new);
            }
        }
    }

    fn totals(&mut self, callstack: u64) -> &mut Totals {
        let totals = self.totals.entry(callstack).or_default();
        if !totals.is_changed {
            totals.is_changed = true;
            self.changed.push(callstack);
        }
        totals
    }

    fn allocate(&mut self, live: Live, time: u64) {
        let totals = self.totals(live.callstack);
        totals.allocated = totals.allocated.saturating_add(live.size);
        totals.allocations += 1;
        self.live_bytes = self.live_bytes.saturating_add(live.size);
        if self.live_bytes <= self.peak_bytes {
            return;
        }
        self.peak_bytes = self.live_bytes;
        self.peak_time = time;
        for callstack in self.changed.drain(..) {
            if let Some(totals) = self.totals.get_mut(&callstack) {
                totals.peak = totals.live();
                totals.peak_count = totals.live_count();
                totals.is_changed = false;
            }
        }
    }

    fn free(&mut self, live: Live) {
        let totals = self.totals(live.callstack);
        totals.freed = totals.freed.saturating_add(live.size).min(totals.allocated);
        totals.frees += 1;
        self.live_bytes = self.live_bytes.saturating_sub(live.size);
    }

    /// Iterates over the callstacks with their totals, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Totals)> {
        self.totals
            .iter()
            .map(|(&callstack, totals)| (callstack, totals))
    }

    /// Returns the number of entries: live allocations, and operations that wait.
    pub(crate) fn entries(&self) -> usize {
        let parked = match &self.order {
            Order::Arrival => 0,
            Order::Number { parked, .. } => parked.len(),
        };
        self.live.len() + parked
    }

    /// Returns the number of live bytes.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Returns the time of the peak.
    pub(crate) fn peak_time(&self) -> u64 {
        self.peak_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn malloc(sequence: u64, address: u64, size: u64) -> Operation {
        Operation {
            sequence,
            address,
            kind: Kind::Malloc {
                size,
                callstack: size % 7,
            },
        }
    }

    fn free(sequence: u64, address: u64) -> Operation {
        Operation {
            sequence,
            address,
            kind: Kind::Free,
        }
    }

    /// Returns the sums of allocated bytes, freed bytes, allocations, frees and peak bytes.
    fn sums(books: &Books) -> (u64, u64, u64, u64, u64) {
        books.iter().fold(Default::default(), |sum, (_, one)| {
            (
                sum.0 + one.allocated,
                sum.1 + one.freed,
                sum.2 + one.allocations,
                sum.3 + one.frees,
                sum.4 + one.peak,
            )
        })
    }

    /// Returns the next number of a deterministic generator.
    fn random(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    /// Returns a plausible sequence of operations in order.
    fn life(state: &mut u64, count: u64) -> Vec<Operation> {
        let mut live = Vec::new();
        let mut operations = Vec::new();
        for sequence in 1..=count {
            let address = random(state) % 40;
            operations.push(match live.iter().position(|&one| one == address) {
                Some(at) => {
                    live.swap_remove(at);
                    free(sequence, address)
                }
                None if random(state).is_multiple_of(8) => free(sequence, address),
                None => {
                    live.push(address);
                    malloc(sequence, address, random(state) % 1000 + 1)
                }
            });
        }
        operations
    }

    #[test]
    fn heap_021_the_order_of_arrival_does_not_matter() {
        let mut state = 77;
        for round in 0..200 {
            let operations = life(&mut state, 300);
            let mut model = Books::new(true);
            for operation in &operations {
                assert!(model.add(*operation, 0));
            }
            let mut shuffled = operations.clone();
            for at in (1..shuffled.len()).rev() {
                let reach = (round % 20 + 1).min(at as u64) + 1;
                let other = at - (random(&mut state) % reach) as usize;
                shuffled.swap(at, other);
            }
            let mut books = Books::new(false);
            for operation in &shuffled {
                assert!(books.add(*operation, 0));
                // Repeated sequence numbers are ignored.
                assert!(books.add(free(0, operation.address), 0));
            }
            assert_eq!(sums(&books), sums(&model), "round {round}");
            assert_eq!(books.live_bytes(), model.live_bytes());
        }
    }

    #[test]
    fn heap_021_late_frees_and_reused_addresses_balance() {
        let mut books = Books::new(true);
        books.add(malloc(1, 16, 100), 1);
        books.add(malloc(3, 16, 200), 2);
        assert_eq!(sums(&books), (300, 100, 2, 1, 300), "the first one is gone");
        books.add(free(2, 16), 3);
        assert_eq!(sums(&books).3, 1, "it was of the first");
        books.add(free(9, 4096), 3);
        books.add(free(4, 16), 4);
        assert_eq!((books.live_bytes(), sums(&books).3), (0, 2));
        books.add(malloc(5, 16, 50), 5);
        books.restart(true);
        assert_eq!(books.live_bytes(), 0, "another program runs");
        books.add(malloc(1, 16, 10), 5);
        assert_eq!(books.live_bytes(), 10);
    }

    #[test]
    fn the_books_of_an_ended_process_are_small_and_complete() {
        let mut books = Books::new(true);
        for number in 1..=100 {
            books.add(malloc(number, number * 16, 10), 0);
        }
        let totals = sums(&books);
        books.release();
        assert_eq!((books.entries(), books.live_bytes()), (0, 1000));
        assert_eq!(sums(&books), totals);
        // A later process with the same id has none of its allocations.
        books.restart(true);
        assert_eq!(books.live_bytes(), 0);
        assert_eq!(sums(&books), (1000, 1000, 100, 100, totals.4));
    }

    #[test]
    fn heap_021_a_missing_sequence_number_is_reported() {
        let mut books = Books::new(false);
        let mut is_bounded = true;
        for sequence in 2..MAX_PARKED as u64 + 10 {
            is_bounded &= books.add(free(sequence, sequence), 0);
        }
        assert!(!is_bounded);
    }

    #[test]
    fn heap_022_the_peak_is_exact() {
        let mut state = 5;
        let mut books = Books::new(true);
        let mut live: std::collections::HashMap<u64, (u64, u64)> = Default::default();
        let mut best = (0, Vec::new());
        for operation in life(&mut state, 4000) {
            books.add(operation, operation.sequence);
            match operation.kind {
                Kind::Free => _ = live.remove(&operation.address),
                Kind::Malloc { size, callstack } => {
                    _ = live.insert(operation.address, (size, callstack));
                }
            }
            let total: u64 = live.values().map(|one| one.0).sum();
            if total > best.0 {
                let mut by_stack = [(0, 0); 7];
                for (size, callstack) in live.values() {
                    let sum = &mut by_stack[*callstack as usize];
                    *sum = (sum.0 + size, sum.1 + 1);
                }
                best = (total, by_stack.to_vec());
            }
        }
        let mut peaks = vec![(0, 0); 7];
        for (callstack, totals) in books.iter() {
            peaks[callstack as usize] = (totals.peak, totals.peak_count);
        }
        assert_eq!(peaks, best.1);
        assert!(books.peak_time() > 0);
    }
}
