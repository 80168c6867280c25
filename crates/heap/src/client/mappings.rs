//! The heap `libc.mmap`: the program's own mappings.
//!
//! A single call can unmap a part of a mapping or several mappings, so sampled mappings are stored
//! with their ends. If a part of one is unmapped, the mapping is recorded as freed and the rest as
//! new allocations, as with a shrinking `realloc`.

use core::ptr;
use core::sync::atomic::Ordering;

use super::heaps::{ALL_FREES, HEAPS, MMAP};
use super::record::{self, Allocation, Taken, busily};
use super::session::Lockful;
use super::set::map;
use super::stack::{self, Registers};
use super::thread::Thread;
use crate::sys;

/// A sampled mapping.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mapping {
    start: u64,
    end: u64,
    /// The number of bytes that it represents.
    weight: u64,
}

/// A mapping that is being moved.
#[derive(Debug, Clone, Copy)]
pub struct Moving {
    mapping: Mapping,
    start: u64,
    end: u64,
    taken: Taken,
}

impl Mapping {
    /// Returns true if a range overlaps it.
    fn has_part_in(&self, start: u64, end: u64) -> bool {
        self.start < end && start < self.end
    }

    /// Returns a part of it, with its share of the weight; `None` if the part is empty.
    fn part(&self, start: u64, end: u64) -> Option<Self> {
        let bytes = end.checked_sub(start).filter(|&bytes| bytes > 0)?;
        let weight = scaled(self.weight, bytes, self.end - self.start);
        (weight > 0).then_some(Self { start, end, weight })
    }

    /// Returns the rest of it without an overlapping range.
    fn without(&self, start: u64, end: u64) -> [Option<Self>; 2] {
        [self.part(self.start, start), self.part(end, self.end)]
    }
}

/// Returns `weight * part / whole`, or the largest number if that is larger.
///
/// A division of 128 bits would call a function of the compiler's library, which refers to the
/// unwinder of Rust programs on some systems.
fn scaled(weight: u64, part: u64, whole: u64) -> u64 {
    let product = u128::from(weight) * u128::from(part);
    let (mut rest, low) = ((product >> 64) as u64, product as u64);
    if rest >= whole {
        return u64::MAX;
    }
    if rest == 0 {
        return low / whole;
    }
    let mut quotient = 0;
    for bit in (0..64).rev() {
        let is_large = rest >> 63 != 0;
        rest = rest << 1 | low >> bit & 1;
        quotient <<= 1;
        if is_large || rest >= whole {
            rest = rest.wrapping_sub(whole);
            quotient |= 1;
        }
    }
    quotient
}

/// The current sampled mappings, guarded by the client's lock.
#[derive(Debug)]
pub(super) struct Mappings {
    base: *mut Mapping,
    capacity: usize,
    used: usize,
}

const FIRST: usize = 256;

impl Mappings {
    pub(super) const fn new() -> Self {
        Self {
            base: ptr::null_mut(),
            capacity: 0,
            used: 0,
        }
    }

    /// Removes all mappings.
    pub(super) fn clear(&mut self) {
        self.used = 0;
    }

    /// Abandons the memory without reading it, since it may be inconsistent.
    pub(super) fn forget(&mut self) {
        *self = Self::new();
    }

    /// Adds a mapping. Returns false if memory runs out.
    fn add(&mut self, mapping: Mapping) -> bool {
        if self.used == self.capacity && !self.grow() {
            return false;
        }
        // SAFETY: the capacity is larger than `used`.
        unsafe { self.base.add(self.used).write(mapping) };
        self.used += 1;
        true
    }

    fn grow(&mut self) -> bool {
        let capacity = (self.capacity * 2).max(FIRST);
        let Some(base) = map(capacity * size_of::<Mapping>()) else {
            return false;
        };
        let base = base.cast::<Mapping>();
        if self.capacity > 0 {
            // SAFETY: the new memory is larger, and the old one is used only under the lock.
            unsafe {
                ptr::copy_nonoverlapping(self.base, base, self.used);
                sys::munmap(self.base.cast(), self.capacity * size_of::<Mapping>());
            }
        }
        (self.base, self.capacity) = (base, capacity);
        true
    }

    /// Removes and returns a mapping that overlaps a range.
    fn take(&mut self, start: u64, end: u64) -> Option<Mapping> {
        for index in 0..self.used {
            // SAFETY: the first `used` entries are initialized.
            let mapping = unsafe { *self.base.add(index) };
            if mapping.has_part_in(start, end) {
                self.used -= 1;
                // SAFETY: as above. The last entry moves to the index of the removed one.
                unsafe { self.base.add(index).write(*self.base.add(self.used)) };
                return Some(mapping);
            }
        }
        None
    }
}

/// Locks, then removes and returns a mapping that overlaps a range.
fn take(start: u64, end: u64) -> Option<Mapping> {
    Lockful::new()?.guarded().mappings.take(start, end)
}

/// Records a new mapping if it is sampled.
#[cold]
#[inline(never)]
pub(super) fn mapped(start: u64, end: u64) {
    let registers = stack::registers();
    busily(|thread| {
        let heap = &HEAPS[MMAP as usize];
        let interval = heap.interval.load(Ordering::Relaxed) & !ALL_FREES;
        if interval == 0 {
            return;
        }
        let weight = record::weigh(heap, interval, end - start);
        if weight > 0 {
            keep(thread, Mapping { start, end, weight }, &registers);
        }
    });
}

fn keep(thread: &mut Thread, mapping: Mapping, registers: &Registers) {
    let allocation = Allocation {
        id: MMAP,
        heap: &HEAPS[MMAP as usize],
        address: mapping.start,
        size: mapping.end - mapping.start,
        weight: mapping.weight,
    };
    if !record::allocation(thread, &allocation, registers) {
        return;
    }
    let is_kept = Lockful::new().is_some_and(|mut locked| locked.guarded().mappings.add(mapping));
    if !is_kept {
        record::free(MMAP, mapping.start);
    }
}

/// Records that a range is about to be unmapped or replaced.
#[cold]
#[inline(never)]
pub(super) fn unmapping(start: u64, end: u64) {
    let registers = stack::registers();
    busily(|thread| {
        while let Some(mapping) = take(start, end) {
            record::free(MMAP, mapping.start);
            for rest in mapping.without(start, end).into_iter().flatten() {
                keep(thread, rest, &registers);
            }
        }
    });
}

/// Prepares the move of a range. Pass the result to [`moved`].
#[cold]
#[inline(never)]
pub(super) fn moving(start: u64, end: u64) -> Option<Moving> {
    let take = |_: &mut Thread| {
        let mapping = take(start, end)?;
        let taken = record::take_from(MMAP, mapping.start)?;
        Some(Moving {
            mapping,
            start,
            end,
            taken,
        })
    };
    busily(take).flatten()
}

/// Completes the move of a range; `None` if it was not moved.
#[cold]
#[inline(never)]
pub(super) fn moved(moving: Moving, new: Option<(u64, u64)>) {
    let registers = stack::registers();
    record::finish_move(moving.taken, new.is_some());
    busily(|thread| {
        let old = moving.mapping;
        let Some((start, end)) = new else {
            // If memory runs out, its free will not be recorded.
            if let Some(mut locked) = Lockful::new() {
                let _ = locked.guarded().mappings.add(old);
            }
            return;
        };
        let parts = old.without(moving.start, moving.end);
        // The weight changes in proportion to the size.
        let moved = old.part(old.start.max(moving.start), old.end.min(moving.end));
        let moved = moved.and_then(|moved| {
            let weight = scaled(moved.weight, end - start, moved.end - moved.start);
            (weight > 0).then_some(Mapping { start, end, weight })
        });
        for mapping in parts.into_iter().chain([moved]).flatten() {
            keep(thread, mapping, &registers);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_mapping_has_its_share_of_the_weight() {
        let mapping = Mapping {
            start: 100,
            end: 200,
            weight: 1000,
        };
        let part = |start, end, weight| Some(Mapping { start, end, weight });
        assert_eq!(
            mapping.without(120, 150),
            [part(100, 120, 200), part(150, 200, 500)]
        );
        assert_eq!(mapping.without(0, 150), [None, part(150, 200, 500)]);
        assert_eq!(mapping.without(50, 300), [None, None]);
    }

    #[test]
    fn weights_are_scaled_without_overflow() {
        let numbers = [
            1,
            2,
            3,
            1000,
            1 << 32,
            (1 << 63) + 5,
            u64::MAX - 1,
            u64::MAX,
        ];
        for weight in numbers {
            for part in numbers {
                for whole in numbers {
                    let exact = u128::from(weight) * u128::from(part) / u128::from(whole);
                    let expected = u64::try_from(exact).unwrap_or(u64::MAX);
                    assert_eq!(
                        scaled(weight, part, whole),
                        expected,
                        "{weight} {part} {whole}"
                    );
                }
            }
        }
        assert_eq!(scaled(1, 1, 0), u64::MAX);
    }

    #[test]
    fn mappings_are_found_by_any_part() {
        let mut mappings = Mappings::new();
        for number in 0..1000 {
            assert!(mappings.add(Mapping {
                start: number * 10,
                end: number * 10 + 5,
                weight: 5,
            }));
        }
        assert_eq!(mappings.take(7015, 7020), None, "between two");
        let found = mappings.take(7013, 7014).map(|mapping| mapping.start);
        assert_eq!(found, Some(7010));
        assert_eq!(mappings.take(7010, 7015), None, "removed already");
        assert_eq!(
            (0..)
                .take_while(|_| mappings.take(0, 10_000).is_some())
                .count(),
            999
        );
    }
}
