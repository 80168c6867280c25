//! Integers in as few bytes as they need.

use std::ops::Range;

use super::numbers::Source;

/// The numbers of a block.
const BLOCK: usize = 1024;

/// Integers in blocks, of which each has the width that its numbers need.
#[derive(Debug, Clone, Default)]
pub(crate) struct Packed {
    blocks: Vec<Block>,
    /// The last ones, which are in no block yet.
    rest: Vec<i64>,
    len: usize,
    /// The memory of the blocks' numbers.
    bytes: usize,
}

/// The least number of some, and by how much each of them is more.
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

impl Block {
    fn of(numbers: &[i64]) -> Self {
        let first = numbers.first().copied().unwrap_or(0);
        let (mut least, mut most) = (first, first);
        for number in numbers {
            least = if *number < least { *number } else { least };
            most = if *number > most { *number } else { most };
        }
        let above = numbers.iter().map(|n| n.wrapping_sub(least) as u64);
        let above = match most.wrapping_sub(least) as u64 {
            0 => Above::Nothing,
            1..=0xff => Above::U8(above.map(|n| n as u8).collect()),
            0x100..=0xffff => Above::U16(above.map(|n| n as u16).collect()),
            0x1_0000..=0xffff_ffff => Above::U32(above.map(|n| n as u32).collect()),
            _ => Above::U64(above.collect()),
        };
        Self { least, above }
    }

    #[inline]
    fn get(&self, place: usize) -> i64 {
        by_width!(
            &self.above,
            numbers => self.least.wrapping_add(numbers[place] as i64),
            self.least
        )
    }

    fn read(&self, places: Range<usize>, out: &mut Vec<i64>) {
        let least = self.least;
        by_width!(
            &self.above,
            numbers => {
                let numbers = numbers[places].iter();
                out.extend(numbers.map(|above| least.wrapping_add(*above as i64)));
            },
            out.resize(out.len() + places.len(), least)
        );
    }

    fn bytes(&self) -> usize {
        by_width!(&self.above, numbers => size_of_val(&**numbers), 0)
    }
}

impl Packed {
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
        // They are of one block, so that none of them is looked at by itself.
        self.rest.extend(numbers);
        if self.rest.len() == BLOCK {
            self.seal();
        }
    }

    #[inline(never)]
    fn seal(&mut self) {
        let block = Block::of(&self.rest);
        self.bytes += block.bytes();
        self.blocks.push(block);
        self.rest.clear();
    }

    /// Returns a number; 0 if there are not so many.
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

    /// Returns the last number, or one that is near it; 0 if there is none.
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

    /// Appends the numbers of some rows to `out`.
    pub(crate) fn read(&self, rows: Range<usize>, out: &mut Vec<i64>) {
        let (mut row, end) = (rows.start, rows.end.min(self.len));
        while row < end {
            let place = row % BLOCK;
            let count = (BLOCK - place).min(end - row);
            match self.blocks.get(row / BLOCK) {
                Some(block) => block.read(place..place + count, out),
                None => out.extend_from_slice(&self.rest[place..place + count]),
            }
            row += count;
        }
    }

    /// Gives back memory that is kept for more numbers. There will be no more.
    pub(crate) fn shrink(&mut self) {
        if !self.rest.is_empty() {
            self.seal();
        }
        self.rest = Vec::new();
        self.blocks.shrink_to_fit();
    }

    /// Returns the memory that it takes, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.bytes + self.blocks.capacity() * size_of::<Block>() + 8 * self.rest.capacity()
    }

    /// Returns the memory that so many numbers take besides that of the numbers, in bytes.
    pub(crate) fn overhead(rows: usize) -> usize {
        rows.div_ceil(BLOCK) * size_of::<Block>()
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

    #[test]
    fn numbers_come_back_as_they_were() {
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
    fn numbers_take_the_bytes_that_their_block_needs() {
        let bytes = |step: i64| {
            let packed: Packed = (0..1024).map(|n| i64::MIN + n * step).collect();
            packed.memory() - Packed::overhead(1024)
        };
        assert_eq!(
            [0, 1, 64, 65, 1 << 22, 1 << 24].map(bytes),
            [0, 2048, 2048, 4096, 4096, 8192]
        );
    }
}
