//! Names encoded with words of a dictionary.
//!
//! A name is split after each run of underscores: `__x64_sys_read` is `__`, `x64_`, `sys_` and
//! `read`. So every word but the last ends with an underscore, and the last has none (it is empty
//! if the name ends with one). Words are numbered by frequency, so the most frequent take one byte.
//! Last words have numbers of their own, and the lowest bit of a number marks them.

use rustc_hash::FxHashMap;

use super::varint;

/// The number of words between two entries of a list's index.
const STEP: usize = 8;
/// The bit of a word's number that marks the last word.
const LAST: u64 = 1;

/// The dictionary.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Other words, and last words.
    lists: [List; 2],
}

/// Words in the order of their numbers.
#[derive(Debug, Default)]
struct List {
    /// The length and text of each word.
    text: Vec<u8>,
    /// The offset of every [`STEP`]th word.
    index: Vec<u32>,
}

/// The names as words, before they are encoded.
#[derive(Debug)]
pub(super) struct Encoder {
    /// The indices of the words of all names in a row.
    sequence: Vec<u32>,
    /// The code of each distinct word.
    codes: Vec<u64>,
    /// The next index of `sequence` to write.
    next: usize,
}

impl List {
    fn push(&mut self, number: usize, word: &[u8]) {
        if number.is_multiple_of(STEP) {
            self.index.push(self.text.len() as u32);
        }
        varint::write(&mut self.text, word.len() as u64);
        self.text.extend_from_slice(word);
    }

    fn word(&self, number: usize) -> Option<&[u8]> {
        let mut at = *self.index.get(number / STEP)? as usize;
        for _ in 0..number % STEP {
            let length = varint::read(&self.text, &mut at)?;
            at += length as usize;
        }
        let length = varint::read(&self.text, &mut at)? as usize;
        self.text.get(at..at + length)
    }
}

impl Names {
    /// Builds the dictionary of `names`.
    pub(super) fn new<'a>(names: impl Iterator<Item = &'a [u8]>) -> (Self, Encoder) {
        let mut known: FxHashMap<&'a [u8], u32> = FxHashMap::default();
        let mut counted: Vec<(&'a [u8], u32)> = Vec::new();
        let mut sequence = Vec::new();
        for word in names.flat_map(words) {
            let id = *known.entry(word).or_insert_with(|| {
                counted.push((word, 0));
                counted.len() as u32 - 1
            });
            counted[id as usize].1 += 1;
            sequence.push(id);
        }
        let mut order: Vec<u32> = (0..counted.len() as u32).collect();
        order.sort_by_key(|&id| std::cmp::Reverse(counted[id as usize].1));
        let mut made = Self::default();
        let mut lengths = [0; 2];
        let mut codes = vec![0; counted.len()];
        for id in order {
            let (word, _) = counted[id as usize];
            let list = usize::from(is_last(word));
            codes[id as usize] = (lengths[list] as u64) << 1 | if is_last(word) { LAST } else { 0 };
            made.lists[list].push(lengths[list], word);
            lengths[list] += 1;
        }
        for list in &mut made.lists {
            list.text.shrink_to_fit();
            list.index.shrink_to_fit();
        }
        let encoder = Encoder {
            sequence,
            codes,
            next: 0,
        };
        (made, encoder)
    }

    /// Decodes the name at the start of `encoded`.
    pub(super) fn decode(&self, encoded: &[u8]) -> String {
        let mut name = Vec::new();
        let mut at = 0;
        while let Some(code) = varint::read(encoded, &mut at) {
            let list = &self.lists[usize::from(code & LAST != 0)];
            name.extend_from_slice(list.word((code >> 1) as usize).unwrap_or_default());
            if code & LAST != 0 {
                break;
            }
        }
        String::from_utf8(name)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// Returns the memory use in bytes.
    pub(super) fn memory(&self) -> usize {
        let bytes = |list: &List| list.text.capacity() + list.index.capacity() * size_of::<u32>();
        self.lists.iter().map(bytes).sum()
    }
}

impl Encoder {
    /// Appends the next name in encoded form.
    pub(super) fn write_next(&mut self, out: &mut Vec<u8>) {
        for &word in &self.sequence[self.next..] {
            self.next += 1;
            let code = self.codes[word as usize];
            varint::write(out, code);
            if code & LAST != 0 {
                return;
            }
        }
    }
}

/// Moves `at` past the encoded name.
pub(super) fn skip(encoded: &[u8], at: &mut usize) {
    while let Some(code) = varint::read(encoded, at) {
        if code & LAST != 0 {
            return;
        }
    }
}

fn is_last(word: &[u8]) -> bool {
    word.last() != Some(&b'_')
}

/// Splits a name into words.
fn words(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(name);
    std::iter::from_fn(move || {
        let name = rest?;
        let Some(first) = name.iter().position(|&byte| byte == b'_') else {
            rest = None;
            return Some(name);
        };
        let run = name[first..]
            .iter()
            .take_while(|&&byte| byte == b'_')
            .count();
        let (word, after) = name.split_at(first + run);
        rest = Some(after);
        Some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_after_underscores() {
        let cut = |name: &'static str| -> Vec<&str> {
            words(name.as_bytes())
                .map(|word| std::str::from_utf8(word).unwrap())
                .collect()
        };
        assert_eq!(cut("foo"), ["foo"]);
        assert_eq!(cut("_fo_a_b"), ["_", "fo_", "a_", "b"]);
        assert_eq!(cut("__fo_a__b____"), ["__", "fo_", "a__", "b____", ""]);
        assert_eq!(cut("_"), ["_", ""]);
    }
}
