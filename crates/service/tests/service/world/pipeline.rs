//! Filters and compression of a trace, for configs and for readers.

use std::io::Read;

use ferretto_proto::TraceConfig;
use ferretto_proto::fields::trace_packet as f;
use ferretto_proto::trace_config::TraceFilter;
use ferretto_wire::Fields;

use super::{Packet, split_file};

/// The opcode of a field that is copied.
pub const SIMPLE: u32 = 1;
pub const NESTED: u32 = 3;
pub const STRING: u32 = 4;

fn varint(bytes: &mut Vec<u8>, mut word: u32) {
    while word >= 0x80 {
        bytes.push(word as u8 | 0x80);
        word >>= 7;
    }
    bytes.push(word as u8);
}

pub fn bytecode(words: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for word in words {
        varint(&mut bytes, *word);
        for byte in word.to_le_bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    varint(&mut bytes, hash as u32);
    bytes
}

/// Allows these fields of packets, and the sequence id that tests look for.
pub fn allow(config: &mut TraceConfig, fields: &[(u32, u32)]) {
    allow_only(
        config,
        &[&[(f::TRUSTED_PACKET_SEQUENCE_ID, SIMPLE)], fields].concat(),
    );
}

/// Allows these fields of packets.
pub fn allow_only(config: &mut TraceConfig, fields: &[(u32, u32)]) {
    let mut fields = fields.to_vec();
    fields.sort_unstable();
    let mut words = vec![1 << 3 | NESTED, 1, 0];
    for (field, opcode) in fields {
        words.push(field << 3 | opcode);
        if opcode == NESTED {
            // A message without allowed fields.
            words.push(2);
        }
    }
    words.extend([0, 0]);
    config.trace_filter = TraceFilter {
        bytecode: Some(bytecode(&words)),
        ..Default::default()
    }
    .into();
}

/// Returns the packets inside compressed ones, and the number of their field.
pub fn decompressed(packets: &[Packet]) -> (Option<u32>, Vec<Packet>) {
    let mut field = None;
    let mut inside = Vec::new();
    for packet in packets {
        let fields: Vec<_> = Fields::new(&packet.0).map(Result::unwrap).collect();
        let [outer] = &fields[..] else {
            panic!("nothing else is in the packet: {packet:?}");
        };
        let payload = outer.as_bytes().unwrap();
        let mut trace = Vec::new();
        match outer.number {
            f::COMPRESSED_PACKETS => {
                let mut decoder = flate2::read::ZlibDecoder::new(payload);
                decoder.read_to_end(&mut trace).unwrap();
            }
            #[cfg(feature = "zstd")]
            f::ZSTD_COMPRESSED_PACKETS => {
                let mut decoder = ruzstd::decoding::StreamingDecoder::new(payload).unwrap();
                decoder.read_to_end(&mut trace).unwrap();
            }
            other => panic!("unexpected field {other}"),
        }
        field = Some(outer.number);
        inside.extend(split_file(&trace));
    }
    (field, inside)
}

pub fn deflate(config: &mut TraceConfig) {
    let choice = config.compression.get_or_insert_default();
    choice.deflate.get_or_insert_default();
}

pub fn zstd(config: &mut TraceConfig, level: i32) {
    let choice = config.compression.get_or_insert_default();
    choice.zstd.get_or_insert_default().level = Some(level);
}
