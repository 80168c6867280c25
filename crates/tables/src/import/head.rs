//! Headers of packets, which the reading thread decodes.

use ferretto_format::sequence::PacketHeader;
use ferretto_format::track_event::EventGlance;
use ferretto_proto::fields::trace_packet;
use ferretto_wire::{Field, Value};

/// The fields of a packet that are needed before its topic.
#[derive(Debug, Default)]
pub(super) struct Content<'a> {
    pub(super) attributes: Option<&'a [u8]>,
    pub(super) remote_clock_sync: Option<&'a [u8]>,
    pub(super) service_event: Option<&'a [u8]>,
    pub(super) extension_descriptor: Option<&'a [u8]>,
    /// The first field that may belong to a topic.
    pub(super) data: Option<Field<'a>>,
    /// The fields of a track event that are needed in the order of the file, if they were read.
    pub(super) glance: Option<EventGlance>,
}

impl<'a> Content<'a> {
    /// Reads a packet. Returns true if it is well-formed.
    #[inline]
    pub(super) fn read(bytes: &'a [u8]) -> (PacketHeader<'a>, Self, bool) {
        let mut content = Self::default();
        let (header, is_whole) = PacketHeader::read_prefix(bytes, |field| content.note(field));
        (header, content, is_whole)
    }

    #[inline]
    fn note(&mut self, field: Field<'a>) {
        let slot = match field.number {
            trace_packet::TRACE_ATTRIBUTES => &mut self.attributes,
            trace_packet::REMOTE_CLOCK_SYNC => &mut self.remote_clock_sync,
            trace_packet::SERVICE_EVENT => &mut self.service_event,
            trace_packet::EXTENSION_DESCRIPTOR => &mut self.extension_descriptor,
            _ => {
                self.data = self.data.or(Some(field));
                return;
            }
        };
        *slot = field.as_bytes();
    }

    fn has_only_data(&self) -> bool {
        self.attributes.is_none()
            && self.remote_clock_sync.is_none()
            && self.service_event.is_none()
            && self.extension_descriptor.is_none()
    }
}

/// The common part of a packet header, as ranges of the packet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Head {
    has: u8,
    glance: Option<EventGlance>,
    /// The number of the field that may belong to a topic.
    field: u32,
    data: Part,
    interned: Part,
    timestamp: u64,
    clock: u32,
    sequence: u32,
    uid: u32,
    pid: i32,
}

/// The flags of [`Head::has`].
mod has {
    /// Without this flag, the packet must be read again.
    pub(super) const HEAD: u8 = 1;
    pub(super) const TIMESTAMP: u8 = 1 << 1;
    pub(super) const CLOCK: u8 = 1 << 2;
    pub(super) const SEQUENCE: u8 = 1 << 3;
    pub(super) const UID: u8 = 1 << 4;
    pub(super) const PID: u8 = 1 << 5;
    pub(super) const NEED: u8 = 1 << 6;
    pub(super) const INTERNED: u8 = 1 << 7;
}

// Another thread reads it, so each byte moves from one core to another.
const _: () = assert!(size_of::<Head>() <= 48);

/// Bytes of a packet. Packets of more than 64 KiB are read again.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    start: u16,
    length: u16,
}

impl Part {
    fn new(bytes: &[u8], part: &[u8]) -> Option<Self> {
        // `part` lies in `bytes`, so the difference of their addresses is an offset.
        let start = part.as_ptr().addr().wrapping_sub(bytes.as_ptr().addr());
        Some(Self {
            start: start.try_into().ok()?,
            length: part.len().try_into().ok()?,
        })
    }

    #[inline]
    fn of(self, bytes: &[u8]) -> &[u8] {
        let start = usize::from(self.start);
        bytes
            .get(start..start + usize::from(self.length))
            .unwrap_or_default()
    }
}

impl Head {
    /// Reads a packet.
    #[inline]
    pub(super) fn read(bytes: &[u8]) -> Self {
        Self::try_read(bytes).unwrap_or_default()
    }

    #[inline]
    fn try_read(bytes: &[u8]) -> Option<Self> {
        let (header, content, is_whole) = Content::read(bytes);
        let is_usual = is_whole
            && content.has_only_data()
            && header.machine == 0
            && header.loss.is_none()
            && !header.is_first
            && !header.is_cleared
            && header.defaults.is_none()
            && header.snapshot.is_none();
        let field = content.data.filter(|_| is_usual)?;
        let (field, data) = (field.number, field.as_bytes()?);
        let bit = |is_there, bit| if is_there { bit } else { 0 };
        Some(Self {
            has: has::HEAD
                | bit(header.timestamp.is_some(), has::TIMESTAMP)
                | bit(header.clock.is_some(), has::CLOCK)
                | bit(header.has_sequence, has::SEQUENCE)
                | bit(header.uid.is_some(), has::UID)
                | bit(header.pid.is_some(), has::PID)
                | bit(header.needs_state, has::NEED)
                | bit(header.interned.is_some(), has::INTERNED),
            glance: (field == trace_packet::TRACK_EVENT).then(|| EventGlance::read(data)),
            field,
            data: Part::new(bytes, data)?,
            interned: Part::new(bytes, header.interned.unwrap_or(&bytes[..0]))?,
            timestamp: header.timestamp.unwrap_or(0),
            clock: header.clock.unwrap_or(0),
            sequence: header.sequence,
            uid: header.uid.unwrap_or(0),
            pid: header.pid.unwrap_or(0),
        })
    }

    /// Returns the result of [`Content::read`]; `None` if the packet must be read again.
    #[inline]
    pub(super) fn expand<'a>(&self, bytes: &'a [u8]) -> Option<(PacketHeader<'a>, Content<'a>)> {
        let has = |bit| self.has & bit != 0;
        if !has(has::HEAD) {
            return None;
        }
        let header = PacketHeader {
            timestamp: has(has::TIMESTAMP).then_some(self.timestamp),
            clock: has(has::CLOCK).then_some(self.clock),
            sequence: self.sequence,
            has_sequence: has(has::SEQUENCE),
            uid: has(has::UID).then_some(self.uid),
            pid: has(has::PID).then_some(self.pid),
            needs_state: has(has::NEED),
            interned: has(has::INTERNED).then(|| self.interned.of(bytes)),
            ..PacketHeader::default()
        };
        let content = Content {
            data: Some(Field {
                number: self.field,
                value: Value::Bytes(self.data.of(bytes)),
            }),
            glance: self.glance,
            ..Content::default()
        };
        Some((header, content))
    }
}
