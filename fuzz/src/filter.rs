//! The trace filter.

use ferretto_proto::trace_config::TraceFilter as Config;
use ferretto_service::filter::TraceFilter;
use ferretto_wire::{Fields, encode_varint};

use crate::input::Input;

/// Set in the first byte: there are string rules.
const RULES: u8 = 2;

/// A filter program of any words, or any bytes instead of one, and any packet through it.
pub fn trace_filter(data: &[u8]) {
    let mut input = Input(data);
    let choice = input.u8();
    let length = usize::from(input.u8());
    let code = input.bytes(length);
    let bytecode = if choice & 1 == 0 {
        with_checksum(code)
    } else {
        code.to_vec()
    };
    let config = Config {
        bytecode_v2: Some(bytecode),
        ..rules(choice)
    };
    let Ok(mut filter) = TraceFilter::load(&config) else {
        return;
    };
    let packet = input.0;
    let once = filter.filter([packet].into_iter()).map(<[u8]>::to_vec);
    let pieces = packet.chunks(usize::from(choice >> 2) + 1);
    assert_eq!(filter.filter(pieces).map(<[u8]>::to_vec), once);
    let Ok(once) = once else { return };
    assert!(once.len() <= packet.len(), "nothing is added");
    assert!(Fields::new(&once).all(|field| field.is_ok()));
    // A length may have been left in more bytes than it needs, so the second result may be shorter.
    let twice = filter
        .filter([once.as_slice()].into_iter())
        .map(<[u8]>::len);
    if choice & RULES == 0 {
        assert!(twice.is_ok_and(|twice| twice <= once.len()));
    }
}

/// A string rule for some choices.
fn rules(choice: u8) -> Config {
    if choice & RULES == 0 {
        return Config::default();
    }
    // string_filter_chain { rules { policy: SFP_MATCH_REDACT_GROUPS regex_pattern: "a(b*)c" } }
    let filter = ferretto_wire::encode(|filter| {
        filter.nested(3, |chain| {
            chain.nested(1, |rule| {
                rule.varint(1, 1);
                rule.string(2, "a(b*)c");
            });
        });
    });
    use ferretto_proto::Message as _;
    Config::decode_from_slice(&filter).unwrap_or_default()
}

/// The bytes as words of a program, with the checksum that belongs to them.
fn with_checksum(code: &[u8]) -> Vec<u8> {
    let words: Vec<u32> = code.iter().map(|byte| u32::from(*byte)).collect();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in words.iter().flat_map(|word| word.to_le_bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    let mut bytes = Vec::new();
    for word in words.into_iter().chain([hash as u32]) {
        let mut varint = [0; 10];
        let length = encode_varint(word.into(), &mut varint);
        bytes.extend_from_slice(&varint[..length]);
    }
    bytes
}
