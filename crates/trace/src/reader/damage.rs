//! The parts of a file that could not be read.

use std::fmt;

use ferretto_format::decompression::DecompressionLimit;

use super::error::{ReadError, Truncated};

/// The parts of a file that a reader skipped. Offsets are in bytes of the decompressed file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Damage {
    /// The end of the readable part, if it is not the end of the file.
    end: Option<End>,
    /// Compressed packets that cannot be decompressed.
    compressed: Positions,
    /// Packets that exceed the memory limit.
    large: Positions,
    /// Compressed packets whose decompression exceeds the memory limit.
    windows: Positions,
    /// Compressed packets of which only a part was decompressed.
    decompressed: Positions,
    /// The limit of decompression that was reached.
    limit: Option<DecompressionLimit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Damaged(u64),
    Truncated(u64),
    Limit(u64),
}

/// The number of occurrences, and the offset of the first one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Positions {
    count: u64,
    first: u64,
}

impl Positions {
    fn add(&mut self, offset: u64) {
        if self.count == 0 {
            self.first = offset;
        }
        self.count += 1;
    }
}

impl Damage {
    /// Records an error after which reading continues, or ends with the packets so far.
    ///
    /// # Errors
    ///
    /// Returns the error itself if it concerns the whole file.
    pub(super) fn note(&mut self, error: ReadError) -> Result<(), ReadError> {
        match error {
            ReadError::Damaged { offset } => self.end = Some(End::Damaged(offset)),
            ReadError::DamagedCompression { offset } => self.compressed.add(offset),
            ReadError::PacketTooLarge { offset, .. } => self.large.add(offset),
            ReadError::WindowTooLarge {
                offset,
                is_file: false,
                ..
            } => self.windows.add(offset),
            ReadError::DecompressedTooLarge {
                offset,
                limit,
                is_file,
            } => {
                self.limit = Some(limit);
                if is_file {
                    self.end = Some(End::Limit(offset));
                } else {
                    self.decompressed.add(offset);
                }
            }
            ReadError::Io { .. } | ReadError::NotATrace(_) | ReadError::WindowTooLarge { .. } => {
                return Err(error);
            }
        }
        Ok(())
    }

    pub(super) fn note_end(&mut self, truncated: Option<Truncated>) {
        let end = truncated.map(|truncated| End::Truncated(truncated.offset));
        self.end = self.end.or(end);
    }

    /// Returns true if the whole file was read.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the end of the part that could be read, if that is not the end of the file.
    pub fn end(&self) -> Option<u64> {
        self.end.map(|end| match end {
            End::Damaged(offset) | End::Truncated(offset) | End::Limit(offset) => offset,
        })
    }

    /// Returns true if a reader with a higher memory limit would read more.
    pub fn is_limit(&self) -> bool {
        self.large.count > 0 || self.windows.count > 0
    }

    /// Describes each kind of damage with its offset in a sentence.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        const WHOLE: [&str; 2] = ["it is skipped", "they are skipped"];
        const REST: [&str; 2] = ["its rest is skipped", "their rest is skipped"];
        let kinds = [
            (self.compressed, "compressed packet", "damaged", WHOLE),
            (
                self.large,
                "packet",
                "too large for the memory limit",
                WHOLE,
            ),
            (
                self.windows,
                "compressed packet",
                "too large to be decompressed within the memory limit",
                WHOLE,
            ),
            (
                self.decompressed,
                "compressed packet",
                "too large when decompressed",
                REST,
            ),
        ];
        for (Positions { count, first }, what, why, [one, many]) in kinds {
            match count {
                0 => {}
                1 => sentences.push(format!("the {what} at byte {first} is {why}; {one}")),
                _ => sentences.push(format!(
                    "{count} {what}s are {why}, the first at byte {first}; {many}"
                )),
            }
        }
        sentences.extend(self.end.map(|end| match end {
            End::Damaged(offset) => {
                format!("the file is damaged at byte {offset}; the rest is skipped")
            }
            End::Truncated(offset) => {
                format!("the file ends inside a packet that begins at byte {offset}")
            }
            End::Limit(offset) => {
                format!("the file is read up to byte {offset}; the rest is skipped")
            }
        }));
        sentences.extend(self.limit.map(|limit| limit.to_string()));
        sentences
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentences().join("; "))
    }
}
