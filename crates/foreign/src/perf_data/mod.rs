//! Files of `perf record` in this machine's byte order: regular files with sections, and the format
//! of pipes.
//!
//! The settings of an event decide the fields of its records. Records come in the order of the
//! file, not in the order of time.

mod header;
mod record;

use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use ferretto_format::decompression::{DecompressionBudget, DecompressionLimit};
use ferretto_format::perf_record::{Bytes, Words};

pub use self::header::{Attr, BuildId, Event};
pub use self::record::{Chain, Mapping, Record, Sample, Task, UserState};

/// Returns true if a file starts like those of `perf record`, in either byte order.
pub(crate) fn is_perf_data(head: &[u8]) -> bool {
    head.starts_with(MAGIC) || head.starts_with(SWAPPED)
}

const MAGIC: &[u8] = b"PERFILE2";
const SWAPPED: &[u8] = b"2ELIFREP";

/// The size of the header in the format of pipes.
const PIPE_HEADER: u64 = 16;

/// Types of records that `perf` itself writes.
mod kind {
    pub(super) const HEADER_ATTR: u32 = 64;
    pub(super) const TRACING_DATA: u32 = 66;
    pub(super) const BUILD_ID: u32 = 67;
    pub(super) const AUXTRACE: u32 = 71;
    pub(super) const EVENT_UPDATE: u32 = 78;
    pub(super) const FEATURE: u32 = 80;
    pub(super) const COMPRESSED: u32 = 81;
    pub(super) const COMPRESSED2: u32 = 83;
}

/// Kinds of records are below this number. Text behind the records is not.
const KINDS: u32 = 1 << 10;

/// The size of a record's header.
const RECORD_HEADER: usize = 8;

/// The reason why a file of `perf record` cannot be read.
#[derive(Debug)]
pub enum PerfError {
    /// Reading fails.
    Read(io::Error),
    /// The recording machine has the other byte order.
    OtherByteOrder,
    /// The file ends within its header.
    NoHeader,
    /// The file describes no events, since `perf` did not finish it.
    NoEvents,
}

impl fmt::Display for PerfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::OtherByteOrder => f.write_str(
                "the file was recorded on a machine with the other byte order; print it there with perf script and import the text",
            ),
            Self::NoHeader => f.write_str("the file ends within its header; record it again"),
            Self::NoEvents => f.write_str(
                "the file describes no events; perf was killed before it finished the file; record it again",
            ),
        }
    }
}

impl std::error::Error for PerfError {}

impl From<io::Error> for PerfError {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

/// A file of `perf record`.
#[derive(Debug)]
pub struct PerfData<R> {
    file: R,
    /// The start of the records, and their end if it is known.
    data: (u64, Option<u64>),
    contents: Contents,
    layout: Layout,
    damage: Option<Damage>,
    decompression: DecompressionBudget,
}

/// The position where the readable part of a file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// The file ends before its sections or within a record.
    Truncated {
        /// The offset of the end of the last whole record.
        offset: u64,
    },
    /// The bytes at this offset are no record, for example messages behind the data of a pipe.
    NoRecord {
        /// The offset.
        offset: u64,
    },
    /// The compressed records cannot be decompressed, or end within a record.
    Compressed {
        /// The number of decompressed bytes of whole records.
        whole: u64,
    },
    /// The compressed records exceed the limit of decompressed data.
    Limit {
        /// The number of decompressed bytes of whole records.
        whole: u64,
        /// The limit.
        limit: DecompressionLimit,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { offset } => {
                write!(f, "the file is truncated: its records end at byte {offset}")
            }
            Self::NoRecord { offset } => {
                write!(
                    f,
                    "damaged record at byte {offset}; the rest of the file cannot be read"
                )
            }
            Self::Limit { whole, limit } => {
                write!(
                    f,
                    "only the first {whole} bytes of compressed records are read: {limit}"
                )
            }
            Self::Compressed { whole } => {
                write!(
                    f,
                    "damaged compressed records: only the first {whole} of their bytes can be read"
                )
            }
        }
    }
}

/// The events of a file, which decide the layout of its records.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    events: Vec<Event>,
    /// Indices in `events` by id.
    by_id: HashMap<u64, usize>,
}

impl Layout {
    /// Parses a record.
    pub fn parse<'a>(&self, record: &'a [u8]) -> Record<'a> {
        record::parse(record, &self.events, &self.by_id).unwrap_or(Record::Malformed)
    }
}

/// The parts of a file other than the kernel's records.
#[derive(Debug, Default)]
struct Contents {
    events: Vec<Event>,
    build_ids: Vec<BuildId>,
    cmdline: Vec<String>,
    has_compressed: bool,
}

impl<R: Read + Seek> PerfData<R> {
    /// Opens a file, and reads everything but the kernel's records.
    ///
    /// # Errors
    ///
    /// Fails if the file is not of `perf record`, is damaged, or cannot be read.
    pub fn open(mut file: R) -> Result<Self, PerfError> {
        file.rewind()?;
        let mut head = Vec::new();
        (&mut file).take(header::BYTES).read_to_end(&mut head)?;
        if head.starts_with(SWAPPED) {
            return Err(PerfError::OtherByteOrder);
        }
        let size = head.get(8..16).ok_or(PerfError::NoHeader)?;
        let size = Bytes::new(size).u64().ok_or(PerfError::NoHeader)?;
        let mut data = Self {
            file,
            data: (PIPE_HEADER, None),
            contents: Contents::default(),
            layout: Layout::default(),
            damage: None,
            decompression: DecompressionBudget::new(None),
        };
        if size != PIPE_HEADER {
            data.read_sections(&head)?;
        }
        let damage = raw_records(&mut data.file, data.data, |kind, record| {
            data.contents.describe(kind, record);
            Ok::<_, PerfError>(())
        })?;
        data.damage = damage.or(data.damage);
        let (layout, contents) = (&mut data.layout, &mut data.contents);
        layout.events = std::mem::take(&mut contents.events);
        if layout.events.is_empty() {
            return Err(PerfError::NoEvents);
        }
        for (index, event) in layout.events.iter().enumerate() {
            for id in &event.ids {
                layout.by_id.insert(*id, index);
            }
        }
        Ok(data)
    }

    /// Sets the limit of decompressed records.
    pub fn limit_decompression(&mut self, budget: DecompressionBudget) {
        self.decompression = budget;
    }

    /// Returns the recorded events.
    pub fn events(&self) -> &[Event] {
        &self.layout.events
    }

    /// Returns the layout of records.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the build ids that `perf` recorded.
    pub fn build_ids(&self) -> &[BuildId] {
        &self.contents.build_ids
    }

    /// Returns the command line of `perf record`.
    pub fn cmdline(&self) -> &[String] {
        &self.contents.cmdline
    }

    /// Returns the position where the readable part of the file ends; `None` if it is whole.
    pub fn damage(&self) -> Option<Damage> {
        self.damage
    }

    /// Calls `each` with the bytes of every record.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or `each` fails.
    pub fn records<E: From<PerfError>>(
        &mut self,
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let contents = &self.contents;
        raw_records(&mut self.file, self.data, |kind, record| match kind {
            kind::COMPRESSED | kind::COMPRESSED2 => Ok(()),
            _ => each(record),
        })?;
        if contents.has_compressed {
            self.compressed_records(each)
        } else {
            Ok(())
        }
    }

    /// Calls `each` with the compressed records. The compressed parts are one stream, so a record
    /// may span two of them.
    fn compressed_records<E: From<PerfError>>(
        &mut self,
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (damage, budget) = (&mut self.damage, &self.decompression);
        let parts = Compressed::new(&mut self.file, self.data, budget).map_err(PerfError::from)?;
        let Ok(mut decoder) = ruzstd::decoding::StreamingDecoder::new(parts) else {
            damage.get_or_insert(Damage::Compressed { whole: 0 });
            return Ok(());
        };
        let mut records = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        let mut whole = 0;
        loop {
            let count = decoder.read(&mut buffer).unwrap_or(0);
            let is_broken = count == 0 || records.len() > usize::from(u16::MAX);
            if is_broken {
                // A stream whose parts were all read has ended, except for the last record.
                if !records.is_empty() || !decoder.get_ref().is_read() {
                    damage.get_or_insert(Damage::Compressed { whole });
                }
                return Ok(());
            }
            if let Err(limit) = budget.take(count as u64) {
                damage.get_or_insert(Damage::Limit { whole, limit });
                return Ok(());
            }
            records.extend_from_slice(&buffer[..count]);
            let mut start = 0;
            while let Some(size) = record_size(&records[start..]) {
                let Some(record) = records.get(start..start + size) else {
                    break;
                };
                if let Err(limit) = budget.take_packet(size) {
                    damage.get_or_insert(Damage::Limit { whole, limit });
                    return Ok(());
                }
                each(record)?;
                start += size;
            }
            whole += start as u64;
            records.drain(..start);
        }
    }

    /// Reads the sections before and after the records.
    fn read_sections(&mut self, head: &[u8]) -> Result<(), PerfError> {
        let sections = header::Sections::parse(head).ok_or(PerfError::NoHeader)?;
        self.data = (sections.data.offset, sections.data.end());
        for bytes in self
            .section(sections.attrs)?
            .chunks_exact(sections.attr_size)
        {
            let Some((attr, ids)) = header::file_attr(bytes) else {
                continue;
            };
            let ids = self.section(ids)?;
            let ids = Words::new(&ids).iter().collect();
            self.contents.events.push(Event::new(attr, ids));
        }
        let Some(mut at) = sections.data.end() else {
            return Ok(());
        };
        for feature in sections.features() {
            let entry = header::Section {
                offset: at,
                size: header::SECTION_BYTES as u64,
            };
            let entry = self.section(entry)?;
            at += header::SECTION_BYTES as u64;
            let Some(section) = header::Section::parse(&mut Bytes::new(&entry)) else {
                continue;
            };
            if header::is_supported(feature) {
                let bytes = self.section(section)?;
                self.contents.feature(feature, &bytes);
            }
        }
        Ok(())
    }

    /// Returns the bytes of a section. They are fewer if the file ends or the section is
    /// implausibly large.
    fn section(&mut self, section: header::Section) -> Result<Vec<u8>, PerfError> {
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(section.offset))?;
        let size = section.size.min(header::MAX_SECTION);
        (&mut self.file).take(size).read_to_end(&mut bytes)?;
        if (bytes.len() as u64) < size {
            let offset = section.offset.saturating_add(bytes.len() as u64);
            self.damage.get_or_insert(Damage::Truncated { offset });
        }
        Ok(bytes)
    }
}

impl Contents {
    /// Reads a record of `perf` that describes other records.
    fn describe(&mut self, kind: u32, record: &[u8]) {
        let body = record.get(RECORD_HEADER..).unwrap_or_default();
        match kind {
            kind::HEADER_ATTR => self.events.extend(header::attr_record(body)),
            kind::EVENT_UPDATE => header::update(body, &mut self.events),
            kind::BUILD_ID => self.build_ids.extend(header::build_id(record)),
            kind::FEATURE => {
                let mut body = Bytes::new(body);
                if let Some(feature) = body.u64() {
                    self.feature(feature, body.rest());
                }
            }
            kind::COMPRESSED | kind::COMPRESSED2 => self.has_compressed = true,
            _ => {}
        }
    }

    fn feature(&mut self, feature: u64, bytes: &[u8]) {
        match feature {
            header::BUILD_IDS => self.build_ids.extend(header::build_ids(bytes)),
            header::CMDLINE => self.cmdline = header::strings(bytes),
            header::EVENT_DESC => header::describe(bytes, &mut self.events),
            _ => {}
        }
    }
}

/// Calls `each` with the type and the bytes of each record. Skips the data that follows some
/// records. Returns the position of damage that ends the records.
fn raw_records<E: From<PerfError>>(
    file: &mut (impl Read + Seek),
    (mut at, end): (u64, Option<u64>),
    mut each: impl FnMut(u32, &[u8]) -> Result<(), E>,
) -> Result<Option<Damage>, E> {
    let length = file.seek(SeekFrom::End(0)).map_err(PerfError::from)?;
    file.seek(SeekFrom::Start(at)).map_err(PerfError::from)?;
    let mut file = BufReader::with_capacity(BUFFER, file);
    let mut record = vec![0; usize::from(u16::MAX)];
    loop {
        if at >= end.unwrap_or(length) {
            return Ok(None);
        }
        let truncated = Ok(Some(Damage::Truncated { offset: at }));
        if length.saturating_sub(at) < RECORD_HEADER as u64 {
            return truncated;
        }
        if !fill(&mut file, &mut record[..RECORD_HEADER])? {
            return truncated;
        }
        let Some(size) = plausible_size(&record) else {
            return Ok(Some(Damage::NoRecord { offset: at }));
        };
        if !fill(&mut file, &mut record[RECORD_HEADER..size])? {
            return truncated;
        }
        let record = &record[..size];
        let kind = Bytes::new(record).u32().unwrap_or(0);
        let trailing = trailing(kind, record);
        let next = at.saturating_add(size as u64).saturating_add(trailing);
        each(kind, record)?;
        if next > length {
            return truncated;
        }
        at = next;
        skip(&mut file, trailing).map_err(PerfError::from)?;
    }
}

/// Returns the size of a record of a kind that exists.
fn plausible_size(record: &[u8]) -> Option<usize> {
    let kind = Bytes::new(record).u32()?;
    record_size(record).filter(|_| kind < KINDS)
}

/// Fills `bytes` from the file. Returns false if the file ends first.
fn fill(file: &mut impl Read, bytes: &mut [u8]) -> Result<bool, PerfError> {
    match file.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn skip<R: Read + Seek>(file: &mut BufReader<R>, bytes: u64) -> io::Result<()> {
    match i64::try_from(bytes) {
        Ok(0) => Ok(()),
        Ok(bytes) => file.seek_relative(bytes),
        Err(_) => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// The size of the read buffer.
const BUFFER: usize = 256 << 10;

/// Returns the size of the record at the start of `bytes`; `None` if its header is invalid or
/// incomplete.
fn record_size(bytes: &[u8]) -> Option<usize> {
    let size = bytes.get(6..8)?;
    let size: usize = u16::from_ne_bytes(size.try_into().ok()?).into();
    (size >= RECORD_HEADER).then_some(size)
}

/// Returns the number of bytes of data that follow a record.
fn trailing(kind: u32, record: &[u8]) -> u64 {
    let body = record.get(RECORD_HEADER..).unwrap_or_default();
    match kind {
        kind::TRACING_DATA => {
            let size = Bytes::new(body).u32().unwrap_or(0);
            u64::from(size).next_multiple_of(8)
        }
        kind::AUXTRACE => Bytes::new(body).u64().unwrap_or(0),
        _ => 0,
    }
}

/// The concatenated compressed parts of a file. `perf` ends each part with a block, so the stream
/// can be decompressed up to the last whole part.
struct Compressed<'a, R> {
    file: BufReader<R>,
    budget: &'a DecompressionBudget,
    at: u64,
    end: Option<u64>,
    /// The current part, and the number of its bytes that were read.
    part: Vec<u8>,
    read: usize,
    /// The rest of [`LAST_BLOCK`].
    last: &'static [u8],
}

/// An empty block that ends a stream. `perf` does not end its streams, and a decoder holds back the
/// last bytes until the end.
const LAST_BLOCK: &[u8] = &[1, 0, 0];

impl<'a, R: Read + Seek> Compressed<'a, R> {
    fn new(
        mut file: R,
        (at, end): (u64, Option<u64>),
        budget: &'a DecompressionBudget,
    ) -> io::Result<Self> {
        file.seek(SeekFrom::Start(at))?;
        Ok(Self {
            file: BufReader::with_capacity(BUFFER, file),
            budget,
            at,
            end,
            part: Vec::new(),
            read: 0,
            last: LAST_BLOCK,
        })
    }

    /// Returns true if all parts have been read, and the end.
    fn is_read(&self) -> bool {
        self.last.is_empty()
    }

    /// Moves to the next part. Returns false if there is no whole one.
    fn next(&mut self) -> Result<bool, PerfError> {
        self.part.clear();
        self.read = 0;
        let mut header = [0; RECORD_HEADER];
        let mut record = Vec::new();
        loop {
            let is_over = self.end.is_some_and(|end| self.at >= end);
            if is_over || !fill(&mut self.file, &mut header)? {
                return Ok(false);
            }
            let Some(size) = plausible_size(&header) else {
                return Ok(false);
            };
            record.resize(size, 0);
            record[..RECORD_HEADER].copy_from_slice(&header);
            if !fill(&mut self.file, &mut record[RECORD_HEADER..])? {
                return Ok(false);
            }
            let kind = Bytes::new(&header).u32().unwrap_or(0);
            let trailing = trailing(kind, &record);
            self.at = self.at.saturating_add(size as u64).saturating_add(trailing);
            skip(&mut self.file, trailing)?;
            let mut body = Bytes::new(&record[RECORD_HEADER..]);
            match kind {
                kind::COMPRESSED => self.part.extend_from_slice(body.rest()),
                kind::COMPRESSED2 => {
                    // Padding follows on the data.
                    let length = usize::try_from(body.u64().unwrap_or(0)).unwrap_or(usize::MAX);
                    let data = body.rest();
                    self.part.extend_from_slice(&data[..length.min(data.len())]);
                }
                _ => {}
            }
            if !self.part.is_empty() {
                return Ok(true);
            }
        }
    }
}

impl<R: Read + Seek> Read for Compressed<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.part.len() && !self.next().map_err(io::Error::other)? {
            return self.last.read(buffer);
        }
        let mut rest = &self.part[self.read..];
        let count = rest.read(buffer)?;
        self.read += count;
        self.budget.add_read(count as u64);
        Ok(count)
    }
}
