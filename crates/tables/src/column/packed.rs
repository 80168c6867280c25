//! Integers with the fewest bytes.

use std::io;
use std::ops::Range;
use std::sync::OnceLock;

use super::numbers::Source;
use crate::saved::{Element, Reader, Saved, Stored, Writer, check};

/// The number of integers in a block.
const BLOCK: usize = 1024;

/// Integers in blocks. The width of a block is that of its largest difference.
#[derive(Debug, Clone, Default)]
pub(crate) struct Packed {
    blocks: Vec<Block>,
    /// The last integers, which do not fill a block yet.
    rest: Vec<i64>,
    len: usize,
    /// The memory of the values of all blocks.
    bytes: usize,
    late: Option<Box<Late>>,
}

/// The state of packed numbers that are partly appended before they are known.
#[derive(Debug, Clone)]
struct Late {
    /// The number that is appended in place of an unknown one.
    unknown: i64,
    /// The count of unknown numbers in each block. A block with any is stored with the full width,
    /// so that they can be changed.
    left: Vec<u16>,
}

/// An integer that is not above any other one of a block, and the differences of all integers to
/// it.
#[derive(Debug, Clone)]
struct Block {
    least: i64,
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
    /// In a file.
    Saved(Box<SavedBlock>),
}

/// The differences of a block in a file, which are read on first use.
#[derive(Debug, Clone)]
struct SavedBlock {
    stored: Stored,
    /// The number of bytes of a difference.
    width: usize,
    above: OnceLock<Above>,
}

impl SavedBlock {
    /// Returns the differences, which are not saved ones.
    #[inline]
    fn above(&self) -> &Above {
        self.above.get_or_init(|| {
            let bytes = self.stored.read();
            match self.width {
                1 => Above::U8(bytes.into()),
                2 => Above::U16(decoded(&bytes)),
                4 => Above::U32(decoded(&bytes)),
                _ => Above::U64(decoded(&bytes)),
            }
        })
    }
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
            Above::Saved(_) => $none,
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
    fn of(numbers: &[i64]) -> Self {
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

    /// Returns the differences in memory.
    #[inline]
    fn above(&self) -> &Above {
        match &self.above {
            Above::Saved(saved) => saved.above(),
            above => above,
        }
    }

    #[inline]
    fn get(&self, index: usize) -> i64 {
        by_width!(
            self.above(),
            numbers => self.least.wrapping_add(numbers[index] as i64),
            self.least
        )
    }

    fn read(&self, range: Range<usize>, out: &mut Vec<i64>) {
        let least = self.least;
        by_width!(
            self.above(),
            numbers => {
                let numbers = numbers[range].iter();
                out.extend(numbers.map(|above| least.wrapping_add(*above as i64)));
            },
            out.resize(out.len() + range.len(), least)
        );
    }

    /// Returns a block with the full width, in which numbers can be changed.
    fn wide(numbers: &[i64]) -> Self {
        let numbers = numbers.iter().map(|number| *number as u64);
        Self {
            least: 0,
            above: Above::U64(numbers.collect()),
        }
    }

    /// Returns the numbers of a block with the full width.
    #[inline]
    fn wide_mut(&mut self) -> Option<&mut [u64]> {
        match &mut self.above {
            Above::U64(numbers) if self.least == 0 => Some(numbers),
            _ => None,
        }
    }

    /// Reduces the width to the least one possible.
    fn narrow(&mut self) {
        if let Some(numbers) = self.wide_mut() {
            let numbers: Vec<i64> = numbers.iter().map(|number| *number as i64).collect();
            *self = Self::of(&numbers);
        }
    }

    /// Returns the number of bytes of a difference.
    fn width(&self) -> usize {
        match &self.above {
            Above::Nothing => 0,
            Above::U8(_) => 1,
            Above::U16(_) => 2,
            Above::U32(_) => 4,
            Above::U64(_) => 8,
            Above::Saved(saved) => saved.width,
        }
    }

    fn save(&self, writer: &mut Writer<'_>) -> io::Result<()> {
        writer.signed(self.least);
        writer.number(self.width() as u64);
        let mut bytes = Vec::new();
        match self.above() {
            Above::U8(above) => return writer.data(above),
            Above::U16(above) => above.iter().for_each(|above| above.write(&mut bytes)),
            Above::U32(above) => above.iter().for_each(|above| above.write(&mut bytes)),
            Above::U64(above) => above.iter().for_each(|above| above.write(&mut bytes)),
            Above::Nothing | Above::Saved(_) => {}
        }
        writer.data(&bytes)
    }

    fn load(reader: &mut Reader, count: usize) -> io::Result<Self> {
        let least = reader.signed()?;
        let width: usize = reader.small()?;
        check([0, 1, 2, 4, 8].contains(&width))?;
        let above = match width {
            0 => Above::Nothing,
            width => Above::Saved(Box::new(SavedBlock {
                stored: reader.stored(count * width)?,
                width,
                above: OnceLock::new(),
            })),
        };
        Ok(Self { least, above })
    }

    fn bytes(&self) -> usize {
        by_width!(&self.above, numbers => size_of_val(&**numbers), 0)
    }
}

impl Packed {
    /// Returns an empty list. Numbers that are appended as `unknown` are expected to be
    /// [`set`](Self::set) later.
    pub(crate) fn late(unknown: i64) -> Self {
        let left = Vec::new();
        Self {
            late: Some(Box::new(Late { unknown, left })),
            ..Self::default()
        }
    }

    /// Changes a number, if there is such a row.
    pub(crate) fn set(&mut self, row: usize, number: i64) {
        let index = row % BLOCK;
        let Some(block) = self.blocks.get_mut(row / BLOCK) else {
            if row < self.len {
                self.rest[index] = number;
            }
            return;
        };
        let left = self.late.as_mut().map(|late| &mut late.left[row / BLOCK]);
        if let Some(numbers) = block.wide_mut() {
            numbers[index] = number as u64;
            if let Some(left) = left
                && *left > 0
            {
                *left -= 1;
                if *left == 0 {
                    self.bytes -= block.bytes();
                    block.narrow();
                    self.bytes += block.bytes();
                }
            }
            return;
        }
        // The block keeps the full width until the end, since more of it may change.
        let mut numbers = Vec::with_capacity(BLOCK);
        block.read(0..BLOCK, &mut numbers);
        numbers[index] = number;
        self.bytes -= block.bytes();
        *block = Block::wide(&numbers);
        self.bytes += block.bytes();
        if let Some(left) = left {
            *left = 0;
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, number: i64) {
        self.rest.push(number);
        self.len += 1;
        if self.rest.len() == BLOCK {
            self.seal();
        }
    }

    /// Appends numbers.
    #[inline]
    pub(crate) fn extend(&mut self, mut numbers: impl ExactSizeIterator<Item = i64>) {
        self.len += numbers.len();
        while numbers.len() > BLOCK - self.rest.len() {
            self.rest
                .extend(numbers.by_ref().take(BLOCK - self.rest.len()));
            self.seal();
        }
        // All of these belong to one block, so no check is needed for each.
        self.rest.extend(numbers);
        if self.rest.len() == BLOCK {
            self.seal();
        }
    }

    #[inline(never)]
    fn seal(&mut self) {
        let block = match &mut self.late {
            None => Block::of(&self.rest),
            Some(late) => {
                let unknown = self.rest.iter().filter(|number| **number == late.unknown);
                let left = unknown.count() as u16;
                late.left.push(left);
                match left {
                    0 => Block::of(&self.rest),
                    _ => Block::wide(&self.rest),
                }
            }
        };
        self.bytes += block.bytes();
        self.blocks.push(block);
        self.rest.clear();
    }

    /// Returns the integer of a row, or 0 if there is no such row.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> i64 {
        if row >= self.len {
            return 0;
        }
        match self.blocks.get(row / BLOCK) {
            Some(block) => block.get(row % BLOCK),
            None => self.rest[row % BLOCK],
        }
    }

    /// Returns an integer close to the last one, or 0 if there is none.
    #[inline]
    pub(crate) fn last(&self) -> i64 {
        match self.rest.last() {
            Some(number) => *number,
            None => self.blocks.last().map_or(0, |block| block.least),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Appends the integers of a range of rows to `out`.
    pub(crate) fn read(&self, rows: Range<usize>, out: &mut Vec<i64>) {
        let (mut row, end) = (rows.start, rows.end.min(self.len));
        while row < end {
            let index = row % BLOCK;
            let count = (BLOCK - index).min(end - row);
            match self.blocks.get(row / BLOCK) {
                Some(block) => block.read(index..index + count, out),
                None => out.extend_from_slice(&self.rest[index..index + count]),
            }
            row += count;
        }
    }

    /// Frees unused capacity. No more integers may follow.
    pub(crate) fn shrink(&mut self) {
        if !self.rest.is_empty() {
            self.seal();
        }
        self.rest = Vec::new();
        self.late = None;
        for block in &mut self.blocks {
            self.bytes -= block.bytes();
            block.narrow();
            self.bytes += block.bytes();
        }
        self.blocks.shrink_to_fit();
    }

    /// Writes numbers as packed ones.
    pub(crate) fn save_all(
        writer: &mut Writer<'_>,
        mut numbers: impl ExactSizeIterator<Item = i64>,
    ) -> io::Result<()> {
        writer.number(numbers.len() as u64);
        let mut block = Vec::with_capacity(BLOCK);
        while numbers.len() > 0 {
            block.clear();
            block.extend(numbers.by_ref().take(BLOCK));
            Block::of(&block).save(writer)?;
        }
        Ok(())
    }

    /// Returns the memory in bytes. Blocks that are saved count as read.
    pub(crate) fn memory(&self) -> usize {
        self.bytes + self.blocks.capacity() * size_of::<Block>() + 8 * self.rest.capacity()
    }

    /// Returns the memory of this many integers without that of their values, in bytes.
    pub(crate) fn overhead(rows: usize) -> usize {
        rows.div_ceil(BLOCK) * size_of::<Block>()
    }
}

impl Saved for Packed {
    fn save(&self, writer: &mut Writer<'_>) -> io::Result<()> {
        writer.number(self.len as u64);
        self.blocks
            .iter()
            .try_for_each(|block| block.save(writer))?;
        match self.rest[..] {
            [] => Ok(()),
            ref rest => Block::of(rest).save(writer),
        }
    }

    fn load(reader: &mut Reader) -> io::Result<Self> {
        let len: usize = reader.small()?;
        let mut packed = Self {
            len,
            ..Self::default()
        };
        for start in (0..len).step_by(BLOCK) {
            let block = Block::load(reader, BLOCK.min(len - start))?;
            packed.bytes += block.width() * BLOCK.min(len - start);
            packed.blocks.push(block);
        }
        packed.blocks.shrink_to_fit();
        Ok(packed)
    }
}

impl FromIterator<i64> for Packed {
    fn from_iter<I: IntoIterator<Item = i64>>(numbers: I) -> Self {
        let mut packed = Self::default();
        numbers.into_iter().for_each(|number| packed.push(number));
        packed.shrink();
        packed
    }
}

impl Source for Packed {
    fn len(&self) -> usize {
        self.len
    }

    fn get(&self, _: usize, row: usize) -> i64 {
        self.get(row)
    }

    fn read(&self, _: usize, rows: Range<usize>, out: &mut Vec<i64>) {
        self.read(rows, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferretto_testing::Random;

    #[test]
    fn packed_numbers_are_unpacked_unchanged() {
        let wide = [i64::MIN, -1, 0, 7, i64::MAX];
        for (count, steps) in [(0, 1), (1, 3), (1023, 200), (1024, 0), (5000, 70_000)] {
            let mut numbers: Vec<i64> = (0..count).map(|n| n * steps - 500).collect();
            for kept in 0..2 {
                let mut packed = Packed::default();
                numbers.iter().for_each(|number| packed.push(*number));
                if kept == 0 {
                    packed.shrink();
                }
                assert_eq!(packed.len(), numbers.len());
                let mut read = Vec::new();
                packed.read(0..usize::MAX, &mut read);
                assert_eq!(read, numbers);
                let single = (0..numbers.len()).map(|row| packed.get(row));
                assert_eq!(single.collect::<Vec<_>>(), numbers);
                assert_eq!(packed.get(numbers.len()), 0);
                read.clear();
                let some = numbers.len() / 3..numbers.len() / 2;
                packed.read(some.clone(), &mut read);
                assert_eq!(read, numbers[some]);
                numbers.extend(wide);
            }
        }
    }

    #[test]
    fn numbers_set_later_are_packed_like_numbers_known_at_once() {
        let mut random = Random(9);
        let mut next = |limit: u64| random.below(limit as usize) as u64;
        for round in 0..20 {
            let (mut packed, mut numbers) = (Packed::late(-1), Vec::new());
            for row in 0..next(6000) as usize {
                let number = next(3) as i64 * 1000 - 1;
                packed.push(number);
                numbers.push(number);
                if next(4) > 0 {
                    let back = next(1 << (round % 14)) as usize;
                    let row = row.saturating_sub(back);
                    let number = next(1 << (2 * round)) as i64 - 7;
                    packed.set(row, number);
                    numbers[row] = number;
                }
            }
            packed.set(numbers.len(), 5);
            let single = (0..numbers.len()).map(|row| packed.get(row));
            assert_eq!(single.collect::<Vec<_>>(), numbers);
            packed.shrink();
            let mut read = Vec::new();
            packed.read(0..usize::MAX, &mut read);
            assert_eq!(read, numbers);
            let whole: Packed = numbers.into_iter().collect();
            assert_eq!(packed.memory(), whole.memory());
        }
    }

    #[test]
    fn the_width_of_a_block_is_that_of_its_largest_difference() {
        let bytes = |step: i64| {
            let packed: Packed = (0..1024).map(|n| i64::MIN + n * step).collect();
            packed.memory() - Packed::overhead(1024)
        };
        assert_eq!(
            [0, 1, 64, 65, 1 << 22, 1 << 24].map(bytes),
            [0, 2048, 2048, 4096, 4096, 8192]
        );
        // Numbers around a multiple of a power of two differ in many bits, but not by much.
        for (difference, expected) in [(0xff, 1024), (0x100, 2048), (0xffff, 2048), (1 << 16, 4096)]
        {
            for middle in [-1 << 31, 0, 1 << 16, 1 << 31, 1 << 40] {
                let numbers = (0..1024).map(|n| middle - 5 + n * 37 % 1025 * difference / 1023);
                let numbers: Vec<i64> = numbers.map(|n| n.min(middle - 5 + difference)).collect();
                let packed: Packed = numbers.iter().copied().collect();
                assert_eq!(packed.memory() - Packed::overhead(1024), expected);
                let single = (0..1024).map(|row| packed.get(row));
                assert_eq!(single.collect::<Vec<_>>(), numbers);
            }
        }
    }
}
