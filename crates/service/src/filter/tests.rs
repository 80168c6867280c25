use ferretto_wire::encode;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const SIMPLE: u32 = 1;
const NESTED: u32 = 3;
const STRING: u32 = 4;

fn word(field: u32, opcode: u32) -> u32 {
    field << 3 | opcode
}

/// `Trace` with `packet`, whose fields follow.
fn config(packet: &[u32]) -> trace_config::TraceFilter {
    let code = [&[word(1, NESTED), 1, 0], packet].concat();
    trace_config::TraceFilter {
        bytecode: Some(words::encode(&code)),
        ..Default::default()
    }
}

/// Packet: 1 simple, 2 nested {1 simple, 2 nested in itself}, 3 string, 200 simple.
fn filter() -> TraceFilter {
    let mut config = config(&[
        word(1, SIMPLE),
        word(2, NESTED),
        2,
        word(3, STRING),
        word(200, SIMPLE),
        0,
        word(1, SIMPLE),
        word(2, NESTED),
        2,
        0,
    ]);
    let rules = &mut config.string_filter_chain.get_or_insert_default().rules;
    rules.push(trace_config::trace_filter::StringFilterRule {
        policy: Some(trace_config::trace_filter::StringFilterPolicy::SFP_MATCH_REDACT_GROUPS),
        regex_pattern: Some("key=(.*)".into()),
        ..Default::default()
    });
    TraceFilter::load(&config).unwrap()
}

fn filtered(packet: &[u8]) -> Result<Vec<u8>, Malformed> {
    filter().filter([packet].into_iter()).map(<[u8]>::to_vec)
}

#[test]
fn service_062_only_allowed_fields_survive() {
    let packet = encode(|packet| {
        packet.varint(5, 1);
        packet.varint(1, 300);
        packet.fixed64(200, 7);
        packet.fixed32(1, 8);
        packet.bytes(6, b"secret");
        packet.bytes(3, b"key=secret");
        packet.bytes(1, b"plain");
        packet.varint(3, 9);
        packet.varint(2, 9);
    });
    let expected = encode(|packet| {
        packet.varint(1, 300);
        packet.fixed64(200, 7);
        packet.fixed32(1, 8);
        packet.bytes(3, b"key=P60RED");
        packet.bytes(1, b"plain");
    });
    assert_eq!(filtered(&packet), Ok(expected));
    assert_eq!(filtered(&[]), Ok(vec![]));
    assert_eq!(filtered(&encode(|packet| packet.varint(5, 1))), Ok(vec![]));
}

#[test]
fn nested_lengths_keep_their_width() {
    let hidden = [7; 200];
    let packet = encode(|packet| {
        let child = encode(|child| {
            child.varint(1, 5);
            child.bytes(9, &hidden);
        });
        packet.bytes(2, &child);
        packet.bytes(2, &[]);
    });
    // 205 takes two bytes, and so does the 2 left of it.
    assert_eq!(
        filtered(&packet),
        Ok(vec![0x12, 0x82, 0x00, 0x08, 0x05, 0x12, 0x00])
    );
    // Redundant input: a length in four bytes, a value in three.
    let redundant = [0x12, 0x84, 0x80, 0x80, 0x00, 0x08, 0x85, 0x80, 0x00];
    assert_eq!(filtered(&redundant), Ok(vec![0x12, 0x02, 0x08, 0x05]));
}

#[test]
fn service_065_malformed_packets() {
    let bad: &[&[u8]] = &[
        &[0x08],
        &[0x08, 0x80],
        &[0x0d, 1, 2, 3],
        &[0x0a, 5, 1],
        &[0x12, 3, 0x08, 1, 0x08],
        &[0x12, 2, 0x0a, 1, 0x08, 1],
        &[0x0b],
        &[0x0c],
        &[0x0e],
        &[0x32, 4, 1],
        &[
            0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
        ],
        &[0x0a, 0x80, 0x80, 0x80, 0x80, 0x01],
    ];
    let mut filter = filter();
    for packet in bad {
        assert_eq!(
            filter.filter([*packet].into_iter()),
            Err(Malformed),
            "{packet:?}"
        );
        let good: &[u8] = &[0x08, 1];
        assert_eq!(filter.filter([good].into_iter()), Ok(good));
    }
}

#[test]
fn deep_nesting_is_no_recursion() {
    let mut packet = vec![];
    for _ in 0..20_000 {
        let mut outer = encode(|outer| outer.bytes(2, &packet));
        std::mem::swap(&mut packet, &mut outer);
        if packet.len() > 60_000 {
            break;
        }
    }
    assert_eq!(filtered(&packet), Ok(packet));
}

#[test]
fn service_022_rows_26_and_27() {
    let load = |config: &trace_config::TraceFilter| TraceFilter::load(config).map(drop);
    assert_eq!(load(&Default::default()), Err(FilterError::Bytecode));
    let code = |words: &[u32]| trace_config::TraceFilter {
        bytecode: Some(words::encode(words)),
        ..Default::default()
    };
    for root in [
        &[][..],
        &[0],
        &[word(1, SIMPLE), 0],
        &[word(2, NESTED), 0, 0],
    ] {
        assert_eq!(load(&code(root)), Err(FilterError::Root), "{root:?}");
    }
    assert_eq!(FilterError::Root.to_string(), "Failed to set filter root.");
    let newer = trace_config::TraceFilter {
        bytecode_v2: Some(words::encode(&[word(1, NESTED), 0, 0])),
        ..code(&[0])
    };
    assert_eq!(load(&newer), Ok(()), "the newer bytecode wins");
    let overlaid = trace_config::TraceFilter {
        bytecode_overlay_v54: Some(vec![1]),
        ..newer
    };
    assert_eq!(load(&overlaid), Err(FilterError::Bytecode));
}

#[test]
fn service_062_counters() {
    let mut counters = FilterCounters::default();
    counters.count(10, Ok(4), Some(1));
    counters.count(7, Ok(7), None);
    counters.count(5, Err(Malformed), Some(0));
    let expected = FilterCounters {
        input_packets: 3,
        input_bytes: 22,
        output_bytes: 11,
        errors: 1,
        time_ns: 0,
        discarded: vec![0, 6],
    };
    assert_eq!(counters, expected);
}

/// A tree of fields, most of them well-formed.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let leaf = vec((1u32..8, any::<u64>()), 0..4).prop_map(|fields| {
        encode(|message| {
            for (field, value) in fields {
                match value % 3 {
                    0 => message.varint(field, value),
                    1 => message.fixed64(field, value),
                    _ => message.bytes(field, &value.to_le_bytes()),
                }
            }
        })
    });
    leaf.prop_recursive(4, 32, 4, |child| {
        vec((1u32..4, child), 0..4).prop_map(|children| {
            encode(|message| {
                for (field, child) in children {
                    message.bytes(field, &child);
                }
            })
        })
    })
}

proptest! {
    #[test]
    fn any_packet(packet in vec(any::<u8>(), 0..64)) {
        if let Ok(output) = filtered(&packet) {
            prop_assert!(output.len() <= packet.len());
        }
    }

    /// Filtering twice changes nothing more; pieces do not matter; what comes out can be read.
    #[test]
    fn service_062_any_tree(packet in message(), cut in 0usize..64) {
        if let Ok(once) = filtered(&packet) {
            prop_assert!(once.len() <= packet.len());
            prop_assert!(ferretto_wire::Fields::new(&once).all(|field| field.is_ok()));
            let (head, tail) = packet.split_at(cut.min(packet.len()));
            let mut filter = filter();
            let pieces = filter.filter([head, tail].into_iter()).map(<[u8]>::to_vec);
            prop_assert_eq!(&pieces, &Ok(once.clone()));
            let twice = filtered(&once).unwrap();
            prop_assert!(twice.len() <= once.len());
            prop_assert_eq!(filtered(&twice), Ok(twice.clone()));
        }
    }
}
