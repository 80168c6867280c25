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

/// Returns a filter for `Trace` with `packet`, whose fields are given.
fn config(packet: &[u32]) -> trace_config::TraceFilter {
    let code = [&[word(1, NESTED), 1, 0], packet].concat();
    trace_config::TraceFilter {
        bytecode: Some(words::encode(&code)),
        ..Default::default()
    }
}

/// Returns a filter that allows in a packet: 1 simple, 2 nested {1 simple, 2 nested in itself}, 3
/// string, 200 simple.
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
    // 205 takes two bytes, so the remaining 2 does, too.
    assert_eq!(
        filtered(&packet),
        Ok(vec![0x12, 0x82, 0x00, 0x08, 0x05, 0x12, 0x00])
    );
    // Redundant input: a length of four bytes, a value of three.
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
fn deep_nesting_does_not_recurse() {
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

/// A field of a packet, whose varints may be longer than necessary.
#[derive(Debug, Clone)]
enum Tree {
    Varint(u32, u64, usize),
    Fixed64(u32, u64),
    Fixed32(u32, u32),
    String(u32, &'static str, usize),
    Message(u32, Vec<Self>, usize),
}

fn varint(value: u64, padding: usize) -> Vec<u8> {
    let mut bytes = vec![0; 10];
    let length = ferretto_wire::encode_varint(value, &mut bytes);
    bytes.truncate(length);
    for _ in 0..padding.min(10 - length) {
        *bytes.last_mut().unwrap() |= 0x80;
        bytes.push(0);
    }
    bytes
}

fn key(field: u32, kind: u32, padding: usize) -> Vec<u8> {
    varint(u64::from(field << 3 | kind), padding)
}

fn delimited(field: u32, body: &[u8], padding: usize) -> Vec<u8> {
    let length = varint(body.len() as u64, padding);
    [key(field, 2, padding), length, body.to_vec()].concat()
}

impl Tree {
    fn encode(&self) -> Vec<u8> {
        match self {
            Self::Varint(field, value, padding) => {
                [key(*field, 0, *padding), varint(*value, *padding)].concat()
            }
            Self::Fixed64(field, value) => {
                [key(*field, 1, 0), value.to_le_bytes().to_vec()].concat()
            }
            Self::Fixed32(field, value) => {
                [key(*field, 5, 0), value.to_le_bytes().to_vec()].concat()
            }
            Self::String(field, text, padding) => delimited(*field, text.as_bytes(), *padding),
            Self::Message(field, children, padding) => {
                delimited(*field, &encode_all(children), *padding)
            }
        }
    }

    /// Computes the expected output of [`filter`] in another way.
    fn expected(&self, inside: bool) -> Vec<u8> {
        let copied = |field| field == 1 || field == 200 && !inside;
        match self {
            Self::Varint(field, value, _) if copied(*field) => {
                Self::Varint(*field, *value, 0).encode()
            }
            Self::Fixed64(field, _) | Self::Fixed32(field, _) if copied(*field) => self.encode(),
            Self::String(3, text, _) if !inside => {
                let redacted = match *text {
                    "key=secret" => "key=P60RED",
                    other => other,
                };
                delimited(3, redacted.as_bytes(), 0)
            }
            Self::String(field, text, _) if copied(*field) => delimited(*field, text.as_bytes(), 0),
            Self::Message(2, children, _) => {
                let body: Vec<_> = children.iter().flat_map(|c| c.expected(true)).collect();
                let width = varint(encode_all(children).len() as u64, 0).len();
                let narrow = varint(body.len() as u64, 0).len();
                let length = varint(body.len() as u64, width - narrow);
                [key(2, 2, 0), length, body].concat()
            }
            Self::Message(field, children, _) if copied(*field) => {
                delimited(*field, &encode_all(children), 0)
            }
            _ => Vec::new(),
        }
    }
}

fn encode_all(fields: &[Tree]) -> Vec<u8> {
    fields.iter().flat_map(Tree::encode).collect()
}

fn fields() -> impl Strategy<Value = Vec<Tree>> {
    let field = || prop_oneof![3 => Just(1u32), 1 => Just(3), 1 => Just(9), 1 => Just(200)];
    let value = || prop_oneof![0u64..300, any::<u64>()];
    let padding = || prop_oneof![3 => Just(0usize), 1 => 1usize..4];
    let text = prop_oneof![Just("key=secret"), Just("other"), Just("")];
    let leaf = prop_oneof![
        (field(), value(), padding()).prop_map(|(f, v, p)| Tree::Varint(f, v, p)),
        (field(), value()).prop_map(|(f, v)| Tree::Fixed64(f, v)),
        (field(), any::<u32>()).prop_map(|(f, v)| Tree::Fixed32(f, v)),
        (field(), text, padding()).prop_map(|(f, t, p)| Tree::String(f, t, p)),
    ];
    let tree = leaf.prop_recursive(5, 64, 6, move |child| {
        let field = prop_oneof![4 => Just(2u32), 1 => Just(1), 1 => Just(9)];
        (field, vec(child, 0..6), padding()).prop_map(|(f, c, p)| Tree::Message(f, c, p))
    });
    vec(tree, 0..6)
}

proptest! {
    #[test]
    fn any_packet(packet in vec(any::<u8>(), 0..64)) {
        if let Ok(output) = filtered(&packet) {
            prop_assert!(output.len() <= packet.len());
        }
    }

    #[test]
    fn service_062_any_tree(fields in fields(), cut in 0usize..64) {
        let packet = encode_all(&fields);
        let expected: Vec<_> = fields.iter().flat_map(|field| field.expected(false)).collect();
        let (head, tail) = packet.split_at(cut.min(packet.len()));
        let mut filter = filter();
        let output = filter.filter([head, tail].into_iter()).map(<[u8]>::to_vec);
        prop_assert_eq!(output, Ok(expected));
    }

    /// A truncated packet is not passed on in part, unless it ends between two fields.
    #[test]
    fn service_065_cut_short(fields in fields(), cut: prop::sample::Index) {
        let mut packet = encode_all(&fields);
        let ends: Vec<_> = (0..=fields.len()).map(|n| encode_all(&fields[..n]).len()).collect();
        packet.truncate(cut.index(packet.len() + 1));
        prop_assert_eq!(filtered(&packet).is_ok(), ends.contains(&packet.len()));
    }
}
