//! Access to the fields of trace packets.

use ferretto_proto::fields::trace_packet;
use ferretto_proto::{Message, TraceStats};
use ferretto_wire::{Field, Fields};

/// An encoded TracePacket.
#[derive(Clone, PartialEq, Eq)]
pub struct Packet(pub Vec<u8>);

impl Packet {
    /// Returns the last field of this number, which is the one that counts.
    pub fn field(&self, number: u32) -> Option<Field<'_>> {
        let fields = Fields::new(&self.0).map(|field| field.expect("well-formed"));
        fields.filter(|field| field.number == number).last()
    }

    pub fn has(&self, number: u32) -> bool {
        self.field(number).is_some()
    }

    pub fn int(&self, number: u32) -> Option<u64> {
        self.field(number).and_then(|field| field.as_u64())
    }

    pub fn bytes(&self, number: u32) -> Option<&[u8]> {
        self.field(number).and_then(|field| field.as_bytes())
    }

    pub fn sequence(&self) -> u64 {
        self.int(trace_packet::TRUSTED_PACKET_SEQUENCE_ID)
            .expect("a sequence id")
    }

    pub fn loss(&self) -> u64 {
        self.int(trace_packet::PREVIOUS_PACKET_DROPPED).unwrap_or(0)
    }

    /// Returns true if a producer wrote it.
    pub fn is_data(&self) -> bool {
        self.sequence() != 1
    }

    /// Returns the kind of a lifecycle event.
    pub fn event(&self) -> Option<u32> {
        let event = self.bytes(trace_packet::SERVICE_EVENT)?;
        Some(Fields::new(event).next()?.ok()?.number)
    }

    pub fn stats(&self) -> Option<TraceStats> {
        let stats = self.bytes(trace_packet::TRACE_STATS)?;
        Some(TraceStats::decode_from_slice(stats).expect("well-formed"))
    }

    /// Returns the number of the field that determines the packet's kind.
    pub fn kind(&self) -> u32 {
        let headers = [
            trace_packet::TIMESTAMP,
            trace_packet::TIMESTAMP_CLOCK_ID,
            trace_packet::TRUSTED_UID,
            trace_packet::TRUSTED_PID,
            trace_packet::TRUSTED_PACKET_SEQUENCE_ID,
            trace_packet::PREVIOUS_PACKET_DROPPED,
            trace_packet::MACHINE_ID,
            trace_packet::FIRST_PACKET_ON_SEQUENCE,
            trace_packet::SEQUENCE_FLAGS,
        ];
        let mut fields = Fields::new(&self.0).map(|field| field.expect("well-formed").number);
        fields.find(|number| !headers.contains(number)).unwrap_or(0)
    }
}

impl std::fmt::Debug for Packet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fields = Fields::new(&self.0).map(|field| match field {
            Ok(field) => match field.as_bytes() {
                Some(bytes) => format!("{}: {} bytes", field.number, bytes.len()),
                None => format!("{}: {}", field.number, field.as_u64().unwrap_or(0)),
            },
            Err(error) => error.to_string(),
        });
        f.debug_list().entries(fields.take(12)).finish()
    }
}

/// Returns the packets of a trace file.
pub fn split_file(file: &[u8]) -> Vec<Packet> {
    Fields::new(file)
        .map(|field| {
            let field = field.expect("no torn packet");
            assert_eq!(field.number, 1);
            Packet(field.as_bytes().expect("a message").to_vec())
        })
        .collect()
}
