//! The header of a file, and the sections after its records.

use ferretto_format::perf_record::{Bytes, Words, until_zero};

/// The size of the header.
pub(super) const BYTES: u64 = 104;
/// The encoded size of a [`Section`].
pub(super) const SECTION_BYTES: usize = 16;
/// The largest number of bytes read of a section.
pub(super) const MAX_SECTION: u64 = 64 << 20;
/// The largest number of events. Further events are left out.
const MAX_EVENTS: usize = 4096;

/// The numbers of features.
pub(super) const BUILD_IDS: u64 = 2;
pub(super) const CMDLINE: u64 = 11;
pub(super) const EVENT_DESC: u64 = 12;

/// The number of features that have a bit in the header.
const FEATURES: u64 = 256;

/// Returns true if a feature is supported.
pub(super) fn is_supported(feature: u64) -> bool {
    matches!(feature, BUILD_IDS | CMDLINE | EVENT_DESC)
}

/// The position of a section in the file.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Section {
    pub(super) offset: u64,
    pub(super) size: u64,
}

impl Section {
    pub(super) fn parse(bytes: &mut Bytes<'_>) -> Option<Self> {
        Some(Self {
            offset: bytes.u64()?,
            size: bytes.u64()?,
        })
    }

    /// Returns the offset of its end; `None` if `perf` was killed before it wrote the size.
    pub(super) fn end(self) -> Option<u64> {
        (self.size > 0).then(|| self.offset.saturating_add(self.size))
    }
}

/// The sections of a file.
#[derive(Debug)]
pub(super) struct Sections {
    pub(super) attr_size: usize,
    pub(super) attrs: Section,
    pub(super) data: Section,
    features: [u64; 4],
}

impl Sections {
    pub(super) fn parse(head: &[u8]) -> Option<Self> {
        let mut bytes = Bytes::new(head.get(16..)?);
        let attr_size = usize::try_from(bytes.u64()?).ok()?;
        let attrs = Section::parse(&mut bytes)?;
        let data = Section::parse(&mut bytes)?;
        let _event_types = Section::parse(&mut bytes)?;
        let mut features = [0; 4];
        for word in &mut features {
            *word = bytes.u64()?;
        }
        (attr_size > SECTION_BYTES).then_some(Self {
            attr_size,
            attrs,
            data,
            features,
        })
    }

    /// Returns the numbers of the file's features.
    pub(super) fn features(&self) -> impl Iterator<Item = u64> {
        let features = self.features;
        (0..FEATURES).filter(move |bit| features[(bit / 64) as usize] >> (bit % 64) & 1 == 1)
    }
}

/// The settings of an event (`perf_event_attr`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attr {
    /// The type of the event (`type`).
    pub kind: u32,
    /// The event within its type.
    pub config: u64,
    /// The number of events between samples, or of samples per second.
    pub period: u64,
    /// Set if `period` is a frequency.
    pub is_frequency: bool,
    /// The bit set of fields of samples.
    pub sample_type: u64,
    /// The bit set of fields of counter values.
    pub read_format: u64,
    /// Set if all other records end with fields of samples.
    pub sample_id_all: bool,
    /// The settings of branch stacks.
    pub branches: u64,
    /// The bit set of registers of the program in samples.
    pub registers: u64,
    size: usize,
}

impl Attr {
    fn parse(bytes: &[u8]) -> Option<Self> {
        const FREQUENCY: u64 = 1 << 10;
        const SAMPLE_ID_ALL: u64 = 1 << 18;
        let mut fields = Bytes::new(bytes);
        let kind = fields.u32()?;
        let size = usize::try_from(fields.u32()?).ok()?;
        let (config, period) = (fields.u64()?, fields.u64()?);
        let (sample_type, read_format) = (fields.u64()?, fields.u64()?);
        let flags = fields.u64()?;
        // Settings of later versions, which the size tells.
        let mut later = Bytes::new(bytes.get(72..size.min(bytes.len())).unwrap_or_default());
        let (branches, registers) = (later.u64().unwrap_or(0), later.u64().unwrap_or(0));
        Some(Self {
            kind,
            config,
            period,
            is_frequency: flags & FREQUENCY != 0,
            sample_type,
            read_format,
            sample_id_all: flags & SAMPLE_ID_ALL != 0,
            branches,
            registers,
            size,
        })
    }
}

/// An event that was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its name, as given to `perf record`.
    pub name: String,
    /// Its settings.
    pub attr: Attr,
    /// The ids by which records refer to it.
    pub ids: Vec<u64>,
}

impl Event {
    pub(super) fn new(attr: Attr, ids: Vec<u64>) -> Self {
        const HARDWARE: [&str; 10] = [
            "cycles",
            "instructions",
            "cache-references",
            "cache-misses",
            "branches",
            "branch-misses",
            "bus-cycles",
            "stalled-cycles-frontend",
            "stalled-cycles-backend",
            "ref-cycles",
        ];
        const SOFTWARE: [&str; 10] = [
            "cpu-clock",
            "task-clock",
            "page-faults",
            "context-switches",
            "cpu-migrations",
            "minor-faults",
            "major-faults",
            "alignment-faults",
            "emulation-faults",
            "dummy",
        ];
        let index = usize::try_from(attr.config).unwrap_or(usize::MAX);
        let known = match attr.kind {
            0 => HARDWARE.get(index),
            1 => SOFTWARE.get(index),
            _ => None,
        };
        let name = match known {
            Some(name) => (*name).to_owned(),
            None => format!("event {}:{:#x}", attr.kind, attr.config),
        };
        Self { name, attr, ids }
    }
}

/// Parses an event in the header, and the section of its ids.
pub(super) fn file_attr(bytes: &[u8]) -> Option<(Attr, Section)> {
    let (attr, ids) = bytes.split_at_checked(bytes.len().checked_sub(SECTION_BYTES)?)?;
    Some((Attr::parse(attr)?, Section::parse(&mut Bytes::new(ids))?))
}

/// Parses the record that describes an event in a pipe.
pub(super) fn attr_record(body: &[u8]) -> Option<Event> {
    let attr = Attr::parse(body)?;
    let ids = Words::new(body.get(attr.size..).unwrap_or_default());
    Some(Event::new(attr, ids.iter().collect()))
}

/// Takes an event's name from an `EVENT_UPDATE` record.
pub(super) fn update(body: &[u8], events: &mut [Event]) {
    const NAME: u64 = 2;
    let mut fields = Bytes::new(body);
    let (Some(NAME), Some(id)) = (fields.u64(), fields.u64()) else {
        return;
    };
    let name = String::from_utf8_lossy(until_zero(fields.rest())).into_owned();
    if let Some(event) = events.iter_mut().find(|event| event.ids.contains(&id)) {
        event.name = name;
    }
}

/// Takes the names and ids of events from the `EVENT_DESC` section.
pub(super) fn describe(bytes: &[u8], events: &mut Vec<Event>) {
    let mut fields = Bytes::new(bytes);
    let (Some(count), Some(size)) = (fields.u32(), fields.u32()) else {
        return;
    };
    for index in 0..(count as usize).min(MAX_EVENTS) {
        let Some(described) = describe_one(&mut fields, size as usize) else {
            return;
        };
        match events.get_mut(index) {
            Some(event) => {
                event.name = described.name;
                if event.ids.is_empty() {
                    event.ids = described.ids;
                }
            }
            None => events.push(described),
        }
    }
}

fn describe_one(fields: &mut Bytes<'_>, attr_size: usize) -> Option<Event> {
    let attr = Attr::parse(fields.take(attr_size)?)?;
    let ids = fields.u32()?;
    let name = string(fields)?;
    let ids = fields.words(ids.into())?;
    let mut event = Event::new(attr, ids.iter().collect());
    if !name.is_empty() {
        event.name = name;
    }
    Some(event)
}

/// Parses a string with its length.
fn string(fields: &mut Bytes<'_>) -> Option<String> {
    let length = fields.u32()? as usize;
    let string = until_zero(fields.take(length)?);
    Some(String::from_utf8_lossy(string).into_owned())
}

/// Parses a list of strings.
pub(super) fn strings(bytes: &[u8]) -> Vec<String> {
    let mut fields = Bytes::new(bytes);
    let count = fields.u32().unwrap_or(0);
    (0..count).map_while(|_| string(&mut fields)).collect()
}

/// The build id of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildId {
    /// The path of the file, or a name such as `[kernel.kallsyms]`.
    pub path: Vec<u8>,
    /// Its build id.
    pub id: Vec<u8>,
}

/// Parses the section of build ids.
pub(super) fn build_ids(mut bytes: &[u8]) -> Vec<BuildId> {
    let mut all = Vec::new();
    while let Some(size) = super::record_size(bytes) {
        let Some((record, rest)) = bytes.split_at_checked(size) else {
            break;
        };
        all.extend(build_id(record));
        bytes = rest;
    }
    all
}

/// Parses a record with a build id.
pub(super) fn build_id(record: &[u8]) -> Option<BuildId> {
    /// The flag of records with the size of the build id.
    const HAS_SIZE: u16 = 1 << 15;
    const MAX: usize = 20;
    let mut fields = Bytes::new(record);
    fields.u32()?;
    let misc = fields.u16()?;
    fields.u16()?;
    let _pid = fields.u32()?;
    let id = fields.take(MAX)?;
    let size = usize::from(*fields.take(4)?.first()?);
    let size = if misc & HAS_SIZE != 0 { size } else { MAX };
    Some(BuildId {
        path: until_zero(fields.rest()).to_vec(),
        id: id.get(..size.min(MAX))?.to_vec(),
    })
}
