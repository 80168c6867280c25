//! Blocks of packed integers.

use std::ops::Range;

use crate::saved::Element;

/// The number of integers in a block.
pub(super) const BLOCK: usize = 1024;

/// An integer that is not above any other one of a block, and the differences of all integers to
/// it.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub(super) least: i64,
    above: Above,
}

#[derive(Debug, Clone)]
enum Above {
    /// All are equal.
    Nothing,
    U8(Box<[u8]>),
    U16(Box<[u16]>),
    U32(Box<[u32]>),
    U64(Box<[u64]>),
}

fn decoded<T: Element>(bytes: &[u8]) -> Box<[T]> {
    bytes.chunks_exact(T::BYTES).map(T::read).collect()
}

/// Runs the same code for each width.
macro_rules! by_width {
    ($above:expr, $numbers:ident => $some:expr, $none:expr) => {
        match $above {
            Above::Nothing => $none,
            Above::U8($numbers) => $some,
            Above::U16($numbers) => $some,
            Above::U32($numbers) => $some,
            Above::U64($numbers) => $some,
        }
    };
}

/// Returns a number that is not above any other one, and one that has the width of the largest
/// difference to it.
fn range(numbers: &[i64]) -> (i64, u64) {
    let first = numbers.first().copied().unwrap_or(0);
    // The bits in which numbers differ.
    let bits = numbers.iter().fold(0, |bits, n| bits | (n ^ first)) as u64;
    match bits {
        0 => return (first, 0),
        // One byte suffices, from the number that has the same higher bits only.
        1..=0xff => return (first & !0xff, bits),
        _ => {}
    }
    let (least, most) = match u32::try_from(bits) {
        // Baseline x86-64 compares several numbers at a time only if they have 32 bits.
        Ok(..0x8000_0000) => {
            let low = numbers.iter().map(|n| *n as i32 & i32::MAX);
            let (least, most) = low.fold((i32::MAX, 0), |(least, most), n| {
                (least.min(n), most.max(n))
            });
            let whole = |low: i32| first & !i64::from(i32::MAX) | i64::from(low);
            (whole(least), whole(most))
        }
        _ => numbers.iter().fold((first, first), |(least, most), n| {
            (least.min(*n), most.max(*n))
        }),
    };
    (least, most.wrapping_sub(least) as u64)
}

impl Block {
    pub(super) fn of(numbers: &[i64]) -> Self {
        let (least, difference) = range(numbers);
        let above = numbers.iter().map(|n| n.wrapping_sub(least) as u64);
        let above = match difference {
            0 => Above::Nothing,
            1..=0xff => Above::U8(above.map(|n| n as u8).collect()),
            0x100..=0xffff => Above::U16(above.map(|n| n as u16).collect()),
            0x1_0000..=0xffff_ffff => Above::U32(above.map(|n| n as u32).collect()),
            _ => Above::U64(above.collect()),
        };
        Self { least, above }
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> i64 {
        by_width!(
            &self.above,
            numbers => self.least.wrapping_add(numbers[index] as i64),
            self.least
        )
    }

    pub(super) fn read(&self, range: Range<usize>, out: &mut Vec<i64>) {
        let least = self.least;
        by_width!(
            &self.above,
            numbers => {
                let numbers = numbers[range].iter();
                out.extend(numbers.map(|above| least.wrapping_add(*above as i64)));
            },
            out.resize(out.len() + range.len(), least)
        );
    }

    /// Returns a block with the full width, in which numbers can be changed.
    pub(super) fn wide(numbers: &[i64]) -> Self {
        let numbers = numbers.iter().map(|number| *number as u64);
        Self {
            least: 0,
            above: Above::U64(numbers.collect()),
        }
    }

    /// Returns the numbers of a block with the full width.
    #[inline]
    pub(super) fn wide_mut(&mut self) -> Option<&mut [u64]> {
        match &mut self.above {
            Above::U64(numbers) if self.least == 0 => Some(numbers),
            _ => None,
        }
    }

    /// Reduces the width to the least one possible.
    pub(super) fn narrow(&mut self) {
        if let Some(numbers) = self.wide_mut() {
            let numbers: Vec<i64> = numbers.iter().map(|number| *number as i64).collect();
            *self = Self::of(&numbers);
        }
    }

    /// Appends the bytes of the differences.
    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        match &self.above {
            Above::Nothing => {}
            Above::U8(above) => bytes.extend_from_slice(above),
            Above::U16(above) => above.iter().for_each(|above| above.write(bytes)),
            Above::U32(above) => above.iter().for_each(|above| above.write(bytes)),
            Above::U64(above) => above.iter().for_each(|above| above.write(bytes)),
        }
    }

    /// Returns the block with these bytes of differences, each of which has `width` bytes.
    pub(super) fn read_from(least: i64, width: usize, bytes: Vec<u8>) -> Self {
        let above = match width {
            0 => Above::Nothing,
            1 => Above::U8(bytes.into()),
            2 => Above::U16(decoded(&bytes)),
            4 => Above::U32(decoded(&bytes)),
            _ => Above::U64(decoded(&bytes)),
        };
        Self { least, above }
    }

    /// Returns the number of bytes of a difference.
    pub(super) fn width(&self) -> usize {
        match &self.above {
            Above::Nothing => 0,
            Above::U8(_) => 1,
            Above::U16(_) => 2,
            Above::U32(_) => 4,
            Above::U64(_) => 8,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        by_width!(&self.above, numbers => size_of_val(&**numbers), 0)
    }
}
