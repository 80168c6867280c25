//! Integers with the fewest bytes.

mod block;
mod saved;

use std::io;
use std::ops::Range;

use self::block::{BLOCK, Block};
use self::saved::{SavedBlocks, write_blocks};
use super::numbers::Source;
use crate::saved::{Reader, Saved, Writer};

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
    /// The blocks of saved numbers, which have no others.
    saved: Option<Box<SavedBlocks>>,
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
        if let Some(saved) = self.saved.take() {
            self.blocks = saved.into_blocks();
        }
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
        match self.block(row / BLOCK) {
            Some(block) => block.get(row % BLOCK),
            None => self.rest[row % BLOCK],
        }
    }

    #[inline]
    fn block(&self, index: usize) -> Option<&Block> {
        match (self.blocks.get(index), &self.saved) {
            (None, Some(saved)) => saved.get(index),
            (block, _) => block,
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
            match self.block(row / BLOCK) {
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
        let blocks = std::iter::from_fn(|| {
            block.clear();
            block.extend(numbers.by_ref().take(BLOCK));
            (!block.is_empty()).then(|| Block::of(&block))
        });
        write_blocks(writer, blocks)
    }

    /// Returns the memory in bytes. Blocks that are saved count as read.
    pub(crate) fn memory(&self) -> usize {
        let saved = self.saved.as_ref().map_or(0, |saved| saved.memory());
        self.bytes + saved + self.blocks.capacity() * size_of::<Block>() + 8 * self.rest.capacity()
    }

    /// Returns the memory of the saved blocks that were read, in bytes.
    pub(crate) fn memory_read(&self) -> usize {
        self.saved.as_ref().map_or(0, |saved| saved.memory_read())
    }

    /// Returns the memory of this many integers without that of their values, in bytes.
    pub(crate) fn overhead(rows: usize) -> usize {
        rows.div_ceil(BLOCK) * size_of::<Block>()
    }
}

impl Saved for Packed {
    fn save(&self, writer: &mut Writer<'_>) -> io::Result<()> {
        writer.number(self.len as u64);
        let rest = (!self.rest.is_empty()).then(|| Block::of(&self.rest));
        let blocks = (0..self.len / BLOCK + 1).filter_map(|index| self.block(index));
        write_blocks(writer, blocks.cloned().chain(rest))
    }

    fn load(reader: &mut Reader) -> io::Result<Self> {
        let len: usize = reader.small()?;
        let saved = SavedBlocks::load(reader, len)?;
        Ok(Self {
            len,
            bytes: saved.bytes(),
            saved: Some(Box::new(saved)),
            ..Self::default()
        })
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
