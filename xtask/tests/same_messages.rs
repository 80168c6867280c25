//! Compares our messages with another implementation: after our decoding and encoding, random
//! messages are equal for a library that reads them by the descriptors.

use std::path::Path;

use ferretto_proto as proto;
use ferretto_proto::Message;
use ferretto_testing::Random;
use ferretto_wire::{Encoder, encode};
use protox::prost::Message as _;
use protox::prost_reflect::{
    Cardinality, DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor,
};

/// Returns a small or large number.
fn any_number(random: &mut Random) -> u64 {
    let bits = random.below(64);
    random.next() >> bits
}

fn any_bytes(random: &mut Random) -> Vec<u8> {
    let length = if random.one_in(8) {
        200
    } else {
        random.below(5)
    };
    (0..length).map(|_| b'a' + random.below(26) as u8).collect()
}

/// Returns a message with some of its fields in random order.
fn message(random: &mut Random, descriptor: &MessageDescriptor, depth: u32) -> Vec<u8> {
    // The library returns the entries of maps in any order. Our types have no maps.
    let fields: Vec<FieldDescriptor> = descriptor.fields().filter(|f| !f.is_map()).collect();
    let mut out = Vec::new();
    if random.below(10) == 0 {
        Encoder::new(&mut out).fixed32(400_000, 7);
        Encoder::new(&mut out).bytes(400_001, &any_bytes(random));
    }
    let mut seen = Vec::new();
    for _ in 0..random.below(1 + fields.len().min(12)) {
        let field = &fields[random.below(fields.len())];
        // Only one member of a `oneof`: our types do not know all members, so the order of two is
        // lost.
        let oneof = field.containing_oneof();
        let key = oneof.map_or(field.name().to_owned(), |oneof| oneof.name().to_owned());
        if seen.contains(&key) && !field.is_list() {
            continue;
        }
        seen.push(key);
        match field.cardinality() {
            Cardinality::Repeated if packs(field) && random.below(2) == 0 => {
                let array: Vec<u8> = (0..random.below(4))
                    .flat_map(|_| element(random, field))
                    .collect();
                Encoder::new(&mut out).bytes(field.number(), &array);
            }
            Cardinality::Repeated => {
                for _ in 0..=random.below(3) {
                    one(random, field, depth, &mut out);
                }
            }
            _ => one(random, field, depth, &mut out),
        }
    }
    out
}

fn packs(field: &FieldDescriptor) -> bool {
    !matches!(field.kind(), Kind::Message(_) | Kind::String | Kind::Bytes)
}

/// Returns an element of a packed array: a field without its tag.
fn element(random: &mut Random, field: &FieldDescriptor) -> Vec<u8> {
    let mut bytes = Vec::new();
    one(random, field, 0, &mut bytes);
    let (_, tag) = ferretto_wire::decode_varint(&bytes).expect("a tag");
    bytes.split_off(tag)
}

/// Appends one field.
fn one(random: &mut Random, field: &FieldDescriptor, depth: u32, out: &mut Vec<u8>) {
    let number = field.number();
    let mut encoder = Encoder::new(out);
    match field.kind() {
        Kind::Bool => encoder.varint(number, random.below(2) as u64),
        Kind::Enum(kind) => {
            let values: Vec<i32> = kind.values().map(|value| value.number()).collect();
            // An unknown value loses its position among the others.
            let known = field.is_list() || random.below(8) > 0;
            let index = random.below(values.len());
            encoder.int(number, if known { values[index].into() } else { 99_999 });
        }
        Kind::Uint32 => encoder.varint(number, any_number(random) as u32 as u64),
        Kind::Int32 => encoder.int(number, (any_number(random) as i32).into()),
        Kind::Uint64 | Kind::Int64 => encoder.varint(number, any_number(random)),
        Kind::Sint32 => encoder.sint(number, (any_number(random) as i32).into()),
        Kind::Sint64 => encoder.sint(number, any_number(random) as i64),
        Kind::Fixed32 | Kind::Sfixed32 => encoder.fixed32(number, any_number(random) as u32),
        Kind::Fixed64 | Kind::Sfixed64 => encoder.fixed64(number, any_number(random)),
        Kind::Float => encoder.float(number, random.below(1000) as f32),
        Kind::Double => encoder.double(number, random.below(1000) as f64),
        Kind::String | Kind::Bytes => encoder.bytes(number, &any_bytes(random)),
        Kind::Message(inner) => {
            let inner = match depth {
                0 => Vec::new(),
                _ => message(random, &inner, depth - 1),
            };
            encoder.bytes(number, &inner);
        }
    }
}

fn check<M: Message>(pool: &DescriptorPool, name: &str, random: &mut Random) {
    let descriptor = pool
        .get_message_by_name(&format!("perfetto.protos.{name}"))
        .expect("a message of the schema");
    // Sorted, so that equivalent messages are equal.
    let read = |bytes: &[u8]| {
        let message = DynamicMessage::decode(descriptor.clone(), bytes).expect("decodes");
        message.encode_to_vec()
    };
    let mut bytes = 0;
    for _ in 0..300 {
        let original = message(random, &descriptor, 6);
        bytes += original.len();
        let ours = M::decode_from_slice(&original).expect("decodes");
        let again = ours.encode_to_vec();
        assert_eq!(again.len(), ours.encoded_len() as usize);
        assert!(
            read(&original) == read(&again),
            "{name}: {original:02x?} became {again:02x?}"
        );
        // The second encoding equals the first, and so do the decoded messages.
        let twice = M::decode_from_slice(&again).expect("decodes");
        assert_eq!(twice.encode_to_vec(), again);
        assert_eq!(twice, ours);
    }
    assert!(bytes > 1000, "hardly anything in {name}");
}

#[test]
fn random_messages_are_equal_in_both_implementations() {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto");
    let mut compiler = protox::Compiler::new([include]).expect("the schema");
    compiler.include_imports(true);
    for file in [
        "ipc/consumer_port",
        "ipc/producer_port",
        "ipc/relay_port",
        "ipc/wire_protocol",
        "trace/trace",
    ] {
        compiler
            .open_file(format!("perfetto/{file}.proto"))
            .expect("compiles");
    }
    let pool = compiler.descriptor_pool();
    let random = &mut Random(0x9e37_79b9_7f4a_7c15);
    macro_rules! check_all {
        ($($name:ident)+) => { $(check::<proto::$name>(&pool, stringify!($name), random);)+ };
    }
    check_all! {
        IPCFrame TraceConfig TracePacket CommitDataRequest GetAsyncCommandResponse TracingServiceState TraceStats
        TrackEvent TrackDescriptor DebugAnnotation InternedData FtraceEventBundle ObservableEvents SysStats TestConfig
        TestEvent ProcessTree ProcessStats DataSourceDescriptor FtraceConfig SyncClockRequest CloneSessionResponse
    }
    let empty = encode(|_| ());
    assert_eq!(proto::TracePacket::default().encode_to_vec(), empty);
}
