//! Compact context switches and wake-ups of a bundle: packed columns, with times as differences.

use ferretto_proto::fields::ftrace_event_bundle::compact_sched as compact;
use ferretto_wire::{Field, Fields, Value, Varints, decode_varint};

/// The kinds of events with a compact encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactKind {
    /// Context switches.
    Switches,
    /// Wake-ups.
    Wakings,
}

impl CompactKind {
    /// The fields of the columns of a row: the differences of times, the previous state or the
    /// thread, the next thread or the target CPU, the priority, and the index of the name.
    pub fn columns(self) -> [u32; 5] {
        match self {
            Self::Switches => [
                compact::SWITCH_TIMESTAMP,
                compact::SWITCH_PREV_STATE,
                compact::SWITCH_NEXT_PID,
                compact::SWITCH_NEXT_PRIO,
                compact::SWITCH_NEXT_COMM_INDEX,
            ],
            Self::Wakings => [
                compact::WAKING_TIMESTAMP,
                compact::WAKING_PID,
                compact::WAKING_TARGET_CPU,
                compact::WAKING_PRIO,
                compact::WAKING_COMM_INDEX,
            ],
        }
    }
}

/// A row of a compact bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactRow<'a> {
    /// The time, on the clock of the bundle.
    pub time: u64,
    /// The previous thread's state of a switch, the woken thread of a wake-up.
    pub first: u64,
    /// The next thread of a switch, the target CPU of a wake-up.
    pub second: u64,
    /// The priority of the next or woken thread.
    pub priority: u64,
    /// Its name.
    pub name: &'a [u8],
    /// The index of the name.
    pub name_index: u64,
    /// The common flags of a wake-up; 0 in older traces.
    pub flags: u64,
}

/// The number of field numbers of columns, with 0.
const COLUMNS: usize = compact::WAKING_COMMON_FLAGS as usize + 1;

/// The packed columns of a `CompactSched`.
///
/// A row needs a value in each column except for the flags, and a name: the rows end with the
/// shortest column, or before the first index without a name.
#[derive(Debug, Default)]
pub struct CompactColumns<'a>([&'a [u8]; COLUMNS]);

/// The events of one kind in a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactExtent {
    /// The time of the first row, on the clock of the bundle.
    pub first: u64,
    /// The time of the last one.
    pub last: u64,
    /// The number of rows.
    pub count: usize,
    /// True if times ascend.
    pub is_sorted: bool,
    /// True if all columns are well-formed and of equal length.
    pub is_whole: bool,
}

impl<'a> CompactColumns<'a> {
    /// Reads the columns, and calls `name` with each name, and `other` with each other field.
    // Most of a trace of the scheduler is read here: a view would pass over the names twice.
    #[inline]
    pub fn read(
        bytes: &'a [u8],
        mut name: impl FnMut(&'a [u8]),
        mut other: impl FnMut(Field<'a>),
    ) -> Self {
        const FIRST: u32 = compact::SWITCH_TIMESTAMP;
        const LAST: u32 = compact::WAKING_COMMON_FLAGS;
        let mut columns = Self::default();
        Fields::walk(bytes, |field| match (field.number, field.value) {
            (compact::INTERN_TABLE, Value::Bytes(text)) => name(text),
            (number @ FIRST..=LAST, Value::Bytes(packed)) => columns.0[number as usize] = packed,
            _ => other(field),
        });
        columns
    }

    /// Returns a packed column.
    pub fn column(&self, number: u32) -> &'a [u8] {
        let column = self.0.get(number as usize);
        column.copied().unwrap_or_default()
    }

    /// Returns the flags of wake-ups, which need not have any.
    pub fn flags(&self, kind: CompactKind) -> Varints<'a> {
        let packed = match kind {
            CompactKind::Switches => &[],
            CompactKind::Wakings => self.column(compact::WAKING_COMMON_FLAGS),
        };
        let value = Value::Bytes(packed);
        Field { number: 1, value }.as_varints()
    }

    /// Calls `row` with the values of each row until it returns false: the difference of times, and
    /// the other columns in the order of [`CompactKind::columns`]. Returns true if all columns are
    /// well-formed, of equal length and completely read.
    #[inline]
    pub fn each(&self, kind: CompactKind, row: impl FnMut([u64; 5]) -> bool) -> bool {
        each(kind.columns().map(|number| self.column(number)), row)
    }

    /// Returns the extent of the events of a kind in a bundle with that many names.
    pub fn extent(&self, kind: CompactKind, names: usize) -> CompactExtent {
        let of_kind = kind.columns().map(|number| self.column(number));
        let names = names as u64;
        let [times, one, two, priority, name] = of_kind;
        // Columns that can be counted without decoding are well-formed.
        if let Some(count) = count(one)
            && self::count(two) == Some(count)
            && self::count(priority) == Some(count)
        {
            let extent = CompactExtent::read(names, [times, name]);
            if extent.is_whole && extent.count == count {
                return extent;
            }
        }
        CompactExtent::read(names, of_kind)
    }
}

impl CompactExtent {
    /// Reads columns, the first of which contains times and the last one indexes below `names`.
    fn read<const N: usize>(names: u64, columns: [&[u8]; N]) -> Self {
        let mut extent = Self {
            first: 0,
            last: 0,
            count: 0,
            is_sorted: true,
            is_whole: true,
        };
        let mut time = 0_u64;
        extent.is_whole = each(columns, |row| {
            if row[N - 1] >= names {
                return false;
            }
            time = time.wrapping_add(row[0]);
            if extent.count == 0 {
                extent.first = time;
            }
            extent.is_sorted &= extent.count == 0 || time >= extent.last;
            extent.last = time;
            extent.count += 1;
            true
        });
        extent
    }
}

/// A `CompactSched` with its names.
#[derive(Debug)]
pub struct CompactSched<'a> {
    /// The names.
    pub names: Vec<&'a [u8]>,
    /// The fields that are neither names nor packed columns.
    pub others: Vec<Field<'a>>,
    columns: CompactColumns<'a>,
}

impl<'a> CompactSched<'a> {
    /// Reads the columns.
    pub fn read(bytes: &'a [u8]) -> Self {
        let (mut names, mut others) = (Vec::new(), Vec::new());
        let columns =
            CompactColumns::read(bytes, |name| names.push(name), |field| others.push(field));
        Self {
            names,
            others,
            columns,
        }
    }

    /// Returns a packed column.
    pub fn column(&self, number: u32) -> &'a [u8] {
        self.columns.column(number)
    }

    /// Returns the rows of a kind, in the order of the bundle.
    pub fn rows<'s>(&'s self, kind: CompactKind) -> impl Iterator<Item = CompactRow<'a>> + 's {
        let mut rows = Rows::new(kind.columns().map(|number| self.column(number)));
        let mut flags = self.columns.flags(kind);
        let mut time = 0_u64;
        std::iter::from_fn(move || {
            let [ahead, first, second, priority, name_index] = rows.next()?;
            let name = self.names.get(usize::try_from(name_index).ok()?).copied()?;
            time = time.wrapping_add(ahead);
            Some(CompactRow {
                time,
                first,
                second,
                priority,
                name,
                name_index,
                flags: flags.next().unwrap_or(0),
            })
        })
        .fuse()
    }
}

/// The number of rows that are decoded together.
const ROWS: usize = 128;

/// The rows of packed columns.
struct Rows<'a, const N: usize> {
    columns: [&'a [u8]; N],
    decoded: [[u64; ROWS]; N],
    next: usize,
    /// The number of decoded rows.
    count: usize,
}

impl<'a, const N: usize> Rows<'a, N> {
    fn new(columns: [&'a [u8]; N]) -> Self {
        let mut rows = Self {
            columns,
            decoded: [[0; ROWS]; N],
            next: 0,
            count: 0,
        };
        rows.decode();
        rows
    }

    /// Decodes the next rows. Returns true if all columns had the same number of values left.
    #[inline]
    fn decode(&mut self) -> bool {
        let mut counts = [0; N];
        let of_column = self.columns.iter_mut().zip(&mut self.decoded);
        for ((column, values), count) in of_column.zip(&mut counts) {
            *count = decode(column, values);
        }
        (self.next, self.count) = (0, counts.into_iter().min().unwrap_or(0));
        counts.iter().all(|count| *count == self.count)
    }

    #[inline]
    fn row(&self, index: usize) -> [u64; N] {
        self.decoded.each_ref().map(|values| values[index])
    }
}

impl<const N: usize> Iterator for Rows<'_, N> {
    type Item = [u64; N];

    #[inline]
    fn next(&mut self) -> Option<[u64; N]> {
        if self.next == self.count {
            if self.count < ROWS {
                return None;
            }
            self.decode();
            if self.count == 0 {
                return None;
            }
        }
        self.next += 1;
        Some(self.row(self.next - 1))
    }
}

/// Calls `row` with the rows of packed columns until it returns false. Returns true if all columns
/// are well-formed, of equal length and completely read.
#[inline]
fn each<const N: usize>(columns: [&[u8]; N], mut row: impl FnMut([u64; N]) -> bool) -> bool {
    let mut rows = Rows {
        columns,
        decoded: [[0; ROWS]; N],
        next: 0,
        count: 0,
    };
    loop {
        let are_equal = rows.decode();
        for index in 0..rows.count.min(ROWS) {
            if !row(rows.row(index)) {
                return false;
            }
        }
        if rows.count < ROWS {
            return are_equal;
        }
    }
}

/// Returns the number of values in a packed column, without decoding it. `None` if it is malformed
/// or contains long values.
fn count(column: &[u8]) -> Option<usize> {
    if column.last().is_some_and(|last| *last >= 0x80) {
        return None;
    }
    let (words, rest) = column.as_chunks();
    let (mut count, mut are_short) = (0, true);
    for word in words {
        let last = !u64::from_le_bytes(*word) & LAST;
        // No value is longer than ten bytes if each half of a word contains the last byte of one.
        are_short &= last as u32 != 0 && last >> 32 != 0;
        count += ((last >> 7).wrapping_mul(0x0101_0101_0101_0101) >> 56) as usize;
    }
    count += rest.iter().filter(|byte| **byte < 0x80).count();
    are_short.then_some(count)
}

/// The highest bits of eight bytes. That of the last byte of a value is 0.
const LAST: u64 = 0x8080_8080_8080_8080;

/// Decodes integers of a packed column into `values`, and returns their number.
#[inline]
fn decode(column: &mut &[u8], values: &mut [u64; ROWS]) -> usize {
    /// The highest bits of four values of two bytes, such as pids.
    const TWO: u64 = 0x0080_0080_0080_0080;
    let mut index = 0;
    while index < ROWS {
        if let Some((eight, rest)) = column.split_first_chunk::<8>() {
            let word = u64::from_le_bytes(*eight);
            let mut slots = values[index..].iter_mut();
            if word & LAST == 0 && slots.len() >= 8 {
                for (value, byte) in slots.zip(eight) {
                    *value = u64::from(*byte);
                }
                *column = rest;
                index += 8;
                continue;
            }
            if word & LAST == TWO && slots.len() >= 4 {
                let low = word & 0x007f_007f_007f_007f | (word & 0x7f00_7f00_7f00_7f00) >> 1;
                for (number, value) in slots.by_ref().take(4).enumerate() {
                    *value = low >> (16 * number) & 0x3fff;
                }
                *column = rest;
                index += 4;
                continue;
            }
        }
        let Some((number, length)) = decode_varint(column) else {
            *column = &[];
            return index;
        };
        values[index] = number;
        *column = column.get(length..).unwrap_or_default();
        index += 1;
    }
    ROWS
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferretto_testing::Random;
    use ferretto_wire::encode_varint;

    #[test]
    fn the_count_of_a_column_is_that_of_its_decoded_values() {
        let mut random = Random(5);
        let mut next = |limit: u64| random.below(limit as usize) as u64;
        let (mut counted, mut not_counted) = (0, 0);
        for round in 0..3000_u64 {
            let mut column = Vec::new();
            let bits = 1 + next(round % 40 + 1);
            let numbers = (0..next(300)).map(|_| next(1 << bits.min(31)) << (bits / 10));
            let numbers: Vec<u64> = numbers.collect();
            for number in &numbers {
                let mut bytes = [0; 10];
                let length = encode_varint(*number, &mut bytes);
                column.extend_from_slice(&bytes[..length]);
            }
            if round % 5 == 0 {
                // The column may end within a value.
                column.truncate(next(column.len() as u64 + 1) as usize);
            }
            let mut decoded = Vec::new();
            let is_whole = each([column.as_slice()], |[number]| {
                decoded.push(number);
                true
            });
            assert_eq!(decoded, numbers[..decoded.len()]);
            match count(&column) {
                Some(count) => assert_eq!(count, decoded.len()),
                None => not_counted += 1,
            }
            counted += usize::from(is_whole && count(&column).is_some());
        }
        assert!(counted > 500 && not_counted > 100);
        // A value has ten bytes at most.
        assert_eq!(count(&[&[0xff; 10][..], &[1]].concat()), None);
    }
}
