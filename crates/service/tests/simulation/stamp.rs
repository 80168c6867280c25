//! Stamps of honest writers on their packets, by which a reader can tell missing and wrong packets.

use crate::world::Packet;
use ferretto_proto::fields::{trace_packet as f, tracing_service_event as event};
use ferretto_proto::{Message, TraceStats};
use ferretto_wire::Fields;

const MAGIC: u64 = 0x7e44_e770_5eed_0001;
const HEAD: usize = 36;

/// The writer of a packet, its number, and its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub writer: usize,
    pub count: u64,
    pub label: u64,
}

impl Stamp {
    /// Returns a packet's text of this length, at least as long as the stamp itself.
    pub fn bytes(self, length: usize) -> Vec<u8> {
        let length = length.max(HEAD);
        let mut bytes = Vec::with_capacity(length);
        for word in [MAGIC, self.writer as u64, self.count, self.label] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend((length as u32).to_le_bytes());
        bytes.resize(length, self.fill());
        bytes
    }

    fn fill(self) -> u8 {
        (self.count as u8).wrapping_mul(31) ^ self.writer as u8
    }

    /// Returns the stamp of a complete text; `None` if it is not one.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let word = |index: usize| {
            let bytes = bytes.get(index * 8..index * 8 + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        if word(0)? != MAGIC {
            return None;
        }
        let stamp = Self {
            writer: word(1)? as usize,
            count: word(2)?,
            label: word(3)?,
        };
        let length = u32::from_le_bytes(bytes.get(32..HEAD)?.try_into().ok()?);
        assert_eq!(bytes.len(), length as usize, "{stamp:?} is torn");
        let whole = bytes[HEAD..].iter().all(|byte| *byte == stamp.fill());
        assert!(whole, "{stamp:?} is damaged");
        Some(stamp)
    }
}

/// The relevant fields of a packet.
#[derive(Debug, Default)]
pub struct Look<'a> {
    pub uid: Option<u64>,
    pub pid: Option<u64>,
    pub machine: Option<u64>,
    pub sequence: Option<u64>,
    pub loss: u64,
    pub text: Option<&'a [u8]>,
    pub timestamp: u64,
    pub disabled: bool,
    pub stats: Option<TraceStats>,
    pub uuid_lsb: Option<u64>,
}

impl<'a> Look<'a> {
    pub fn at(packet: &'a Packet) -> Self {
        let mut look = Self::default();
        for field in Fields::new(&packet.0) {
            let field = field.expect("a well-formed packet");
            match field.number {
                f::TRUSTED_UID => look.uid = field.as_u64(),
                f::TRUSTED_PID => look.pid = field.as_u64(),
                f::MACHINE_ID => look.machine = field.as_u64(),
                f::TRUSTED_PACKET_SEQUENCE_ID => look.sequence = field.as_u64(),
                f::PREVIOUS_PACKET_DROPPED => look.loss = field.as_u64().unwrap_or(0),
                f::TIMESTAMP => look.timestamp = field.as_u64().unwrap_or(0),
                crate::world::TEST_FIELD => look.text = field.as_bytes(),
                f::SERVICE_EVENT => {
                    let kinds = Fields::new(field.as_bytes().unwrap_or_default());
                    let disabled = event::TRACING_DISABLED;
                    look.disabled |= kinds.flatten().any(|kind| kind.number == disabled);
                }
                f::TRACE_STATS => {
                    let bytes = field.as_bytes().unwrap_or_default();
                    look.stats = TraceStats::decode_from_slice(bytes).ok();
                }
                f::TRACE_UUID => {
                    let fields = Fields::new(field.as_bytes().unwrap_or_default());
                    let lsb = ferretto_proto::fields::trace_uuid::LSB;
                    let mut fields = fields.flatten().filter(|field| field.number == lsb);
                    look.uuid_lsb = fields.next().and_then(|field| field.as_u64());
                }
                _ => {}
            }
        }
        look
    }

    /// Returns true if a producer wrote it.
    pub fn is_data(&self) -> bool {
        self.sequence != Some(1)
    }
}
