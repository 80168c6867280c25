//! The protobuf reports of simpleperf, the profiler of Android: a header, and records behind their
//! sizes.

use ferretto_wire::{Field, Fields};

use self::fields_of::{file, frame, record, sample, thread};

const MAGIC: &[u8] = b"SIMPLEPERF";

/// The size of the header: the magic bytes and the version.
const HEADER: usize = MAGIC.len() + 2;

/// The largest size of a record. Those of files have all names of their functions.
const MAX_RECORD: usize = 1 << 28;

/// The fields of the messages.
mod fields_of {
    pub(crate) mod record {
        pub(crate) const SAMPLE: u32 = 1;
        pub(crate) const FILE: u32 = 3;
        pub(crate) const THREAD: u32 = 4;
    }
    pub(crate) mod sample {
        pub(crate) const TIME: u32 = 1;
        pub(crate) const THREAD_ID: u32 = 2;
        pub(crate) const CALLCHAIN: u32 = 3;
    }
    pub(crate) mod frame {
        pub(crate) const ADDRESS: u32 = 1;
        pub(crate) const FILE_ID: u32 = 2;
        pub(crate) const SYMBOL_ID: u32 = 3;
    }
    pub(crate) mod file {
        pub(crate) const ID: u32 = 1;
        pub(crate) const PATH: u32 = 2;
        pub(crate) const SYMBOL: u32 = 3;
    }
    pub(crate) mod thread {
        pub(crate) const THREAD_ID: u32 = 1;
        pub(crate) const PROCESS_ID: u32 = 2;
        pub(crate) const THREAD_NAME: u32 = 3;
    }
}

/// Returns true if a file that begins with `head` is a report.
pub(crate) fn is_simpleperf(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record<'a> {
    /// A sample.
    Sample(Sample),
    /// A file with the names of its functions.
    File(File<'a>),
    /// A thread.
    Thread(Thread<'a>),
    /// Anything else.
    Other,
}

/// A sampled callstack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sample {
    /// The time on the monotonic clock.
    pub time: u64,
    /// The thread.
    pub tid: u32,
    /// The frames, the innermost first.
    pub frames: Vec<Frame>,
}

/// A frame of a callstack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Frame {
    /// The address in the file.
    pub address: u64,
    /// The number of the file.
    pub file: u32,
    /// The index of the function among those of the file; `None` if it is unknown.
    pub symbol: Option<u32>,
}

/// A file with code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct File<'a> {
    /// The number.
    pub id: u32,
    /// The path.
    pub path: &'a [u8],
    /// The names of its functions.
    pub symbols: Vec<&'a [u8]>,
}

/// A thread and its process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Thread<'a> {
    /// The thread.
    pub tid: u32,
    /// The process.
    pub pid: u32,
    /// The name of the thread.
    pub name: Option<&'a [u8]>,
}

fn fields(bytes: &[u8]) -> impl Iterator<Item = Field<'_>> {
    Fields::new(bytes).map_while(Result::ok)
}

fn number(field: &Field<'_>) -> u32 {
    field.as_u64().unwrap_or(0) as u32
}

impl Sample {
    fn read(bytes: &[u8]) -> Self {
        let mut sample = Self::default();
        for field in fields(bytes) {
            match field.number {
                sample::TIME => sample.time = field.as_u64().unwrap_or(0),
                sample::THREAD_ID => sample.tid = number(&field),
                sample::CALLCHAIN => {
                    let bytes = field.as_bytes().unwrap_or_default();
                    sample.frames.push(Frame::read(bytes));
                }
                _ => {}
            }
        }
        sample
    }
}

impl Frame {
    fn read(bytes: &[u8]) -> Self {
        let mut frame = Self::default();
        for field in fields(bytes) {
            match field.number {
                frame::ADDRESS => frame.address = field.as_u64().unwrap_or(0),
                frame::FILE_ID => frame.file = number(&field),
                // An unknown function has the index -1.
                frame::SYMBOL_ID => frame.symbol = u32::try_from(number(&field) as i32).ok(),
                _ => {}
            }
        }
        frame
    }
}

impl<'a> Record<'a> {
    fn read(bytes: &'a [u8]) -> Self {
        let Some(record) = fields(bytes).last() else {
            return Self::Other;
        };
        let bytes = record.as_bytes().unwrap_or_default();
        match record.number {
            record::SAMPLE => Self::Sample(Sample::read(bytes)),
            record::FILE => {
                let mut file = File::default();
                for field in fields(bytes) {
                    let text = field.as_bytes().unwrap_or_default();
                    match field.number {
                        file::ID => file.id = number(&field),
                        file::PATH => file.path = text,
                        file::SYMBOL => file.symbols.push(text),
                        _ => {}
                    }
                }
                Self::File(file)
            }
            record::THREAD => {
                let mut thread = Thread::default();
                for field in fields(bytes) {
                    match field.number {
                        thread::THREAD_ID => thread.tid = number(&field),
                        thread::PROCESS_ID => thread.pid = number(&field),
                        thread::THREAD_NAME => thread.name = field.as_bytes(),
                        _ => {}
                    }
                }
                Self::Thread(thread)
            }
            _ => Self::Other,
        }
    }
}

/// Splits a report into its records.
#[derive(Debug, Default)]
pub struct Records {
    bytes: Vec<u8>,
    /// The number of these bytes that were read.
    read: usize,
    has_header: bool,
    is_over: bool,
}

impl Records {
    /// Adds the next bytes of the file.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.is_over {
            return;
        }
        self.bytes.drain(..std::mem::take(&mut self.read));
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next record; `None` if more bytes are needed, or there is none.
    ///
    /// # Errors
    ///
    /// Fails if the version is unknown, or a record is too large.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, String> {
        if self.is_over {
            return Ok(None);
        }
        if !self.has_header {
            let Some(header) = self.bytes.get(..HEADER) else {
                return Ok(None);
            };
            let version = u16::from_le_bytes([header[HEADER - 2], header[HEADER - 1]]);
            if version != 1 {
                return Err(format!(
                    "version {version} of simpleperf's reports is unknown, only 1 is read"
                ));
            }
            self.has_header = true;
            self.read = HEADER;
        }
        let rest = &self.bytes[self.read..];
        let Some((size, rest)) = rest.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let size = u32::from_le_bytes(*size) as usize;
        if size > MAX_RECORD {
            return Err(format!(
                "a record of {size} bytes, of which there can be {MAX_RECORD}"
            ));
        }
        if size == 0 {
            self.is_over = true;
            return Ok(None);
        }
        let Some(record) = rest.get(..size) else {
            return Ok(None);
        };
        self.read += 4 + size;
        Ok(Some(Record::read(record)))
    }

    /// Returns true if the end of the records was read.
    pub fn is_over(&self) -> bool {
        self.is_over
    }
}
