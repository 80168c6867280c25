//! The kernel's ring-buffer page format, as read from `trace_pipe_raw`.
//!
//! A page is a header (base timestamp, commit word) and a payload of records, each led by a word
//! holding a 5-bit type or length and a 27-bit time delta (`include/linux/ring_buffer.h`). All
//! functions here are total: any bytes give records or a [`ParseStatus`].

/// The reason why a page, or the rest of it, is malformed. The numbers are those of
/// `FtraceParseStatus` in the trace format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ParseStatus {
    /// `read` failed with an error that is not a normal one.
    UnexpectedReadError = 2,
    /// `read` returned less than a whole page.
    PartialPageRead = 3,
    /// The page header is short, or its size is zero or beyond the page.
    InvalidPageHeader = 4,
    /// The payload ends inside a record's leading word.
    ShortEventHeader = 5,
    /// A padding record without a time delta.
    NullPadding = 6,
    /// The payload ends inside a padding record's length.
    ShortPaddingLength = 7,
    /// A padding record shorter than its own length word.
    InvalidPaddingLength = 8,
    /// The payload ends inside a time extension.
    ShortTimeExtend = 9,
    /// The payload ends inside an absolute timestamp.
    ShortTimeStamp = 10,
    /// The payload ends inside a long record's length.
    ShortDataLength = 11,
    /// A long record of length zero.
    ZeroDataLength = 12,
    /// A long record shorter than its own length word.
    InvalidDataLength = 13,
    /// A record too short to hold an event id.
    ShortEventId = 14,
    /// A record that ends beyond the payload.
    EndOverflow = 15,
    /// A scheduling record shorter than the compact layout needs.
    ShortCompactEvent = 16,
    /// A record that does not fit the event's format.
    InvalidEvent = 17,
}

/// Bits of the commit word that hold the payload size.
const SIZE_MASK: u32 = (1 << 27) - 1;
/// Commit word bit: events were lost before this page.
const MISSED_EVENTS: u32 = 1 << 31;
/// Commit word bit: the exact number of lost events follows the payload.
const MISSED_STORED: u32 = 1 << 30;

/// A page whose header has been checked against the page's size.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// Base time of the page in the trace clock, nanoseconds.
    pub timestamp: u64,
    /// Events were lost between the previous page and this one.
    pub lost_events: bool,
    /// The number of them, if the page has space for it.
    pub lost_count: Option<u64>,
    /// The records.
    pub payload: &'a [u8],
}

/// A page with an invalid header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidHeader {
    /// The timestamp if there is one, otherwise 0.
    pub timestamp: u64,
}

/// A parsed page, or an invalid header.
pub type ParsedPage<'a> = Result<Page<'a>, InvalidHeader>;

impl<'a> Page<'a> {
    /// Parses the headers of consecutive pages, like [`parse`](Self::parse).
    pub fn parse_all(bytes: &'a [u8], page_size: usize, commit_size: usize) -> Vec<ParsedPage<'a>> {
        let pages = bytes.chunks(page_size.max(1));
        pages.map(|page| Self::parse(page, commit_size)).collect()
    }

    /// Reads the header. `commit_size` is the width of the commit word, 4 or 8.
    #[inline]
    pub fn parse(bytes: &'a [u8], commit_size: usize) -> Result<Self, InvalidHeader> {
        let timestamp = read_u64(bytes, 0).ok_or(InvalidHeader { timestamp: 0 })?;
        let invalid = InvalidHeader { timestamp };
        let commit = read_u32(bytes, 8).ok_or(invalid)?;
        let size = (commit & SIZE_MASK) as usize;
        let body = bytes.get(8 + commit_size..).ok_or(invalid)?;
        if size == 0 || size > body.len() {
            return Err(invalid);
        }
        let (payload, after) = body.split_at(size);
        let lost_events = commit & MISSED_EVENTS != 0;
        let lost_count = if lost_events && commit & MISSED_STORED != 0 {
            match commit_size {
                4 => read_u32(after, 0).map(u64::from),
                _ => read_u64(after, 0),
            }
        } else {
            None
        };
        Ok(Self {
            timestamp,
            lost_events,
            lost_count,
            payload,
        })
    }

    /// Iterates over the data records. The iterator ends after an error.
    #[inline]
    pub fn records(&self) -> Records<'a> {
        Records {
            rest: self.payload,
            timestamp: self.timestamp,
        }
    }
}

/// One data record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Time in the trace clock, nanoseconds.
    pub timestamp: u64,
    /// Event id, the first field of every record.
    pub id: u16,
    /// The whole record, id included.
    pub data: &'a [u8],
}

/// Iterator over the data records of a page.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    rest: &'a [u8],
    timestamp: u64,
}

const TYPE_PADDING: u32 = 29;
const TYPE_TIME_EXTEND: u32 = 30;
const TYPE_TIME_STAMP: u32 = 31;
/// Bits of a time stamp that an absolute time record holds.
const ABSOLUTE_MASK: u64 = (1 << 59) - 1;

impl<'a> Records<'a> {
    #[inline]
    fn word(&mut self, missing: ParseStatus) -> Result<u32, ParseStatus> {
        let (word, rest) = self.rest.split_first_chunk::<4>().ok_or(missing)?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*word))
    }

    #[inline]
    fn step(&mut self) -> Result<Option<Record<'a>>, ParseStatus> {
        while !self.rest.is_empty() {
            let header = self.word(ParseStatus::ShortEventHeader)?;
            let type_len = header & 0x1f;
            let delta = u64::from(header >> 5);
            let base = self.timestamp;
            self.timestamp = base.wrapping_add(delta);
            let length = match type_len {
                0 => self.long_length()?,
                TYPE_PADDING => {
                    self.skip_padding(delta)?;
                    continue;
                }
                TYPE_TIME_EXTEND => {
                    let high = u64::from(self.word(ParseStatus::ShortTimeExtend)?);
                    self.timestamp = self.timestamp.wrapping_add(high << 27);
                    continue;
                }
                TYPE_TIME_STAMP => {
                    let high = u64::from(self.word(ParseStatus::ShortTimeStamp)?);
                    self.timestamp = absolute(base, (high << 27) + delta);
                    continue;
                }
                words => 4 * words as usize,
            };
            if length > self.rest.len() {
                return Err(ParseStatus::EndOverflow);
            }
            let (data, rest) = self.rest.split_at(length);
            self.rest = rest;
            let id = data.first_chunk::<2>().ok_or(ParseStatus::ShortEventId)?;
            let id = u16::from_le_bytes(*id);
            return Ok(Some(Record {
                timestamp: self.timestamp,
                id,
                data,
            }));
        }
        Ok(None)
    }

    fn long_length(&mut self) -> Result<usize, ParseStatus> {
        match self.word(ParseStatus::ShortDataLength)? {
            0 => Err(ParseStatus::ZeroDataLength),
            1..=3 => Err(ParseStatus::InvalidDataLength),
            length => Ok(length as usize - 4),
        }
    }

    fn skip_padding(&mut self, delta: u64) -> Result<(), ParseStatus> {
        if delta == 0 {
            return Err(ParseStatus::NullPadding);
        }
        let length = self.word(ParseStatus::ShortPaddingLength)? as usize;
        if length < 4 {
            return Err(ParseStatus::InvalidPaddingLength);
        }
        // Padding beyond the payload just ends the page.
        self.rest = self.rest.get(length - 4..).unwrap_or(&[]);
        Ok(())
    }
}

/// Absolute records carry 59 bits; the rest comes from the time so far, as the kernel does it.
fn absolute(base: u64, low: u64) -> u64 {
    let time = (base & !ABSOLUTE_MASK) | (low & ABSOLUTE_MASK);
    if base > time && base - time > ABSOLUTE_MASK / 2 {
        time + ABSOLUTE_MASK + 1
    } else {
        time
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, ParseStatus>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if step.is_err() {
            self.rest = &[];
        }
        step.transpose()
    }
}

#[inline]
fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[inline]
fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
