//! Sessions whose trace is filtered or compressed.

use ferretto_ipc::port::consumer::{Reply, Request};
use ferretto_proto::fields::trace_packet as f;
use ferretto_proto::trace_config::trace_filter::{StringFilterPolicy, StringFilterRule};
use ferretto_proto::trace_config::{CompressionType, DataSource};
use ferretto_proto::{DataSourceConfig, Message, TraceConfig};
use ferretto_service::{ClientId, ServiceOptions};
use ferretto_wire::Fields;

use crate::file::null;
use crate::world::pipeline::{
    NESTED, SIMPLE, STRING, allow, allow_only, bytecode, decompressed, deflate, zstd,
};
use crate::world::{ConfigBuilder, Packet, TEST_FIELD, World, split_file, texts};

/// The largest slice of a packet in a reply.
const MAX_SLICE: usize = 128 * 1024 - 512;

fn recorded(change: impl FnOnce(&mut TraceConfig)) -> (World, ClientId) {
    let mut world = World::new();
    let consumer = record_in(&mut world, change);
    (world, consumer)
}

fn record_in(world: &mut World, change: impl FnOnce(&mut TraceConfig)) -> ClientId {
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new().source("p").with(change));
    let mut writer = world.writer(producer);
    world.write(producer, &mut writer, &["key=secret", "other"]);
    consumer
}

#[test]
fn service_062_only_allowed_fields_survive() {
    let (mut world, consumer) = recorded(|_| {});
    let unfiltered = world.read(consumer);
    let (mut world, consumer) = recorded(|config| allow(config, &[(TEST_FIELD, SIMPLE)]));
    let packets = world.read(consumer);
    assert_eq!(packets.len(), unfiltered.len(), "emptied, not removed");
    let (stats, others) = packets.split_last().unwrap();
    for packet in others {
        let fields = Fields::new(&packet.0).map(|field| field.unwrap().number);
        let fields: Vec<_> = fields.collect();
        let allowed = [TEST_FIELD, f::TRUSTED_PACKET_SEQUENCE_ID];
        assert!(fields.iter().all(|field| allowed.contains(field)));
    }
    assert_eq!(texts(&packets), ["key=secret", "other"]);
    assert!(stats.has(f::TRUSTED_UID), "never filtered");

    let reported = stats.stats().expect("always there").filter_stats.clone();
    assert_eq!(reported.input_packets, Some(others.len() as u64));
    let passed: usize = others.iter().map(|packet| packet.0.len()).sum();
    assert_eq!(reported.output_bytes, Some(passed as u64));
    assert!(reported.input_bytes > reported.output_bytes);
    assert_eq!(reported.errors, Some(0));
    // The uid and the pid of each data packet.
    let discarded = &reported.bytes_discarded_per_buffer;
    assert!(discarded.len() == 1 && (2..100).contains(&discarded[0]));
    // Later reads also filter statistics packets.
    let later = world.stats(consumer).filter_stats.clone();
    assert_eq!(later.input_packets, Some(packets.len() as u64));
    let all = passed + stats.0.len();
    assert_eq!(later.output_bytes, Some(all as u64));
}

#[test]
fn service_062_everything_filtered() {
    let (mut world, consumer) = recorded(|config| {
        allow(config, &[(TEST_FIELD, SIMPLE)]);
        let filter = config.trace_filter.get_or_insert_default();
        filter.bytecode_v2 = Some(bytecode(&[1 << 3 | NESTED, 1, 0, 0]));
    });
    let packets = world.read(consumer);
    let (stats, others) = packets.split_last().unwrap();
    assert!(others.len() > 5 && others.iter().all(|packet| packet.0.is_empty()));
    assert!(stats.stats().is_some());
}

#[test]
fn service_062_file_and_statistics_agree() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    let config = ConfigBuilder::new().source("p").with(|config| {
        config.write_into_file = Some(true);
        allow_only(config, &[(TEST_FIELD, SIMPLE)]);
    });
    world.enable_into(consumer, config, null());
    let mut writer = world.writer(producer);
    world.write(producer, &mut writer, &["early"]);
    world.run_for(6000);
    world.write(producer, &mut writer, &["late"]);
    world.disable(consumer);
    let packets = split_file(&world.files.values().next().unwrap().bytes);
    assert!(packets.iter().any(|packet| packet.0.is_empty()));
    let data = packets.iter().filter_map(|packet| packet.bytes(TEST_FIELD));
    assert_eq!(data.collect::<Vec<_>>(), [b"early".as_slice(), b"late"]);
    let stats = world.stats(consumer).filter_stats.clone();
    assert_eq!(stats.input_packets, Some(packets.len() as u64));
    let bytes: usize = packets.iter().map(|packet| packet.0.len()).sum();
    assert_eq!(stats.output_bytes, Some(bytes as u64));
}

#[test]
fn service_064_strings_are_redacted() {
    let (mut world, consumer) = recorded(|config| {
        allow(config, &[(TEST_FIELD, STRING)]);
        let filter = config.trace_filter.get_or_insert_default();
        let chain = filter.string_filter_chain_v54.get_or_insert_default();
        chain.rules.push(StringFilterRule {
            policy: Some(StringFilterPolicy::SFP_MATCH_REDACT_GROUPS),
            regex_pattern: Some("key=(.*)".into()),
            ..Default::default()
        });
    });
    assert_eq!(texts(&world.read(consumer)), ["key=P60RED", "other"]);
}

#[test]
fn config_011_semantic_types_may_be_packed() {
    // The tested field has type 0. A rule without types applies to type 0.
    let one_by_one =
        |types: &[u8]| -> Vec<u8> { types.iter().flat_map(|t| [5 << 3, *t]).collect() };
    let packed = |types: &[u8]| [&[5 << 3 | 2, types.len() as u8], types].concat();
    for (types, redacted) in [
        (one_by_one(&[1]), false),
        (packed(&[1]), false),
        (one_by_one(&[1, 0]), true),
        (packed(&[1, 0]), true),
    ] {
        let rule = ferretto_wire::encode(|rule| {
            rule.varint(1, 1);
            rule.string(2, "key=(.*)");
            rule.raw(&types);
        });
        let (mut world, consumer) = recorded(|config| {
            allow(config, &[(TEST_FIELD, STRING)]);
            let filter = config.trace_filter.get_or_insert_default();
            let chain = filter.string_filter_chain.get_or_insert_default();
            let rule = StringFilterRule::decode_from_slice(&rule).unwrap();
            chain.rules.push(rule);
        });
        let texts = texts(&world.read(consumer));
        assert_eq!(texts[0].starts_with("key=P60"), redacted, "{types:?}");
    }
}

#[test]
fn service_065_malformed_packets_are_emptied_and_counted() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    let config = ConfigBuilder::new().source("p").with(|config| {
        allow(config, &[(TEST_FIELD, NESTED)]);
    });
    world.enable(consumer, config);
    let mut writer = world.writer(producer);
    let read = |world: &mut World| world.read(consumer).into_iter();
    read(&mut world);
    // The second is malformed; the others are valid messages without allowed fields.
    world.write(
        producer,
        &mut writer,
        &["\u{8}\u{1}", "\u{8}", "\u{10}\u{2}"],
    );
    let packets: Vec<_> = read(&mut world).filter(|p| p.has(TEST_FIELD)).collect();
    assert_eq!(packets.len(), 2);
    let nothing = |packet: &Packet| packet.bytes(TEST_FIELD) == Some(b"");
    assert!(packets.iter().all(nothing));
    let stats = world.stats(consumer).filter_stats.clone();
    assert_eq!(stats.errors, Some(1));
}

#[test]
fn service_022_row_27_filter_root() {
    let refusal = |words: &[u32], pattern: Option<&str>| {
        let mut world = World::new();
        let consumer = world.consumer();
        let config = ConfigBuilder::new().with(|config| {
            let filter = config.trace_filter.get_or_insert_default();
            filter.bytecode = Some(bytecode(words));
            if let Some(pattern) = pattern {
                let chain = filter.string_filter_chain.get_or_insert_default();
                chain.rules.push(StringFilterRule {
                    policy: Some(StringFilterPolicy::SFP_MATCH_BREAK),
                    regex_pattern: Some(pattern.into()),
                    ..Default::default()
                });
            }
        });
        let request = world.enable(consumer, config);
        world.ended(consumer, request)
    };
    let packets_only = [1 << 3 | NESTED, 1, 0, 0];
    assert_eq!(refusal(&packets_only, None), None, "accepted");
    assert_eq!(refusal(&[0], None).unwrap(), "Failed to set filter root.");
    assert_eq!(
        refusal(&packets_only[..2], None).unwrap(),
        "Trace filter bytecode invalid"
    );
    assert_eq!(
        refusal(&packets_only, Some("(")).unwrap(),
        "Invalid regular expression \"(\" in trace_filter: unclosed group"
    );
}

#[test]
fn the_time_spent_on_filtering_is_reported() {
    let mut world = World::with(ServiceOptions {
        stopwatch: Some({
            use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
            static NOW: AtomicU64 = AtomicU64::new(0);
            || NOW.fetch_add(7, Relaxed)
        }),
        ..Default::default()
    });
    let consumer = record_in(&mut world, |config| allow(config, &[]));
    world.read(consumer);
    let stats = world.stats(consumer).filter_stats.clone();
    assert!(stats.time_taken_ns.unwrap() >= 7);
}

#[test]
fn service_066_compressed_packets_hold_the_same_trace() {
    let read = |change: fn(&mut TraceConfig)| {
        let (mut world, consumer) = recorded(|config| {
            // The trace contains its config, which must not differ.
            let builtin = config.builtin_data_sources.get_or_insert_default();
            builtin.disable_trace_config = Some(true);
            change(config);
        });
        world.read(consumer)
    };
    let plain = read(|_| {});
    let fields = |change| {
        let (field, inside) = decompressed(&read(change));
        assert_eq!(inside, plain);
        field
    };
    let deflated = Some(f::COMPRESSED_PACKETS);
    assert_eq!(fields(deflate), deflated);
    let older: fn(&mut TraceConfig) =
        |config| config.compression_type = Some(CompressionType::COMPRESSION_TYPE_DEFLATE);
    assert_eq!(fields(older), deflated);
    let best = if cfg!(feature = "zstd") {
        Some(f::ZSTD_COMPRESSED_PACKETS)
    } else {
        deflated
    };
    let both: fn(&mut TraceConfig) = |config| {
        deflate(config);
        zstd(config, -5);
    };
    assert_eq!(fields(both), best);
    let unknown: fn(&mut TraceConfig) = |config| {
        config.compression.get_or_insert_default();
    };
    assert_eq!(read(unknown), plain, "an unknown codec does not compress");
}

#[test]
fn service_066_filtered_then_compressed_into_a_file() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    let config = ConfigBuilder::new().source("p").with(|config| {
        config.write_into_file = Some(true);
        allow(config, &[(TEST_FIELD, SIMPLE)]);
        deflate(config);
        zstd(config, 3);
    });
    world.enable_into(consumer, config, null());
    let mut writer = world.writer(producer);
    for text in ["early", "late"] {
        world.write(producer, &mut writer, &[text]);
        world.run_for(6000);
    }
    world.disable(consumer);
    let file = split_file(&world.files.values().next().unwrap().bytes);
    let (_, packets) = decompressed(&file);
    let data = packets.iter().filter_map(|packet| packet.bytes(TEST_FIELD));
    assert_eq!(data.collect::<Vec<_>>(), [b"early".as_slice(), b"late"]);
    assert!(file.len() >= 2, "each batch is a packet of its own");
    assert!(!packets.iter().any(|packet| packet.has(f::TRACE_CONFIG)));
    assert!(packets.last().unwrap().stats().is_some());
    let (_, alone) = decompressed(&file[file.len() - 1..]);
    assert!(alone.last().unwrap().stats().is_some());
}

#[test]
fn service_066_and_018_large_packets_are_sent_in_slices() {
    // Random enough to stay larger than two slices after compression.
    let mut state = 1u64;
    let mut noise = || -> Vec<u8> {
        let mut step = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            (state >> 33) as u8
        };
        (0..100_000).map(|_| step()).collect()
    };
    let mut config = ConfigBuilder::new();
    for index in 0..4 {
        let source = DataSourceConfig {
            name: Some(format!("nobody's {index}").into()),
            legacy_config: Some(noise()),
            ..Default::default()
        };
        config.0.data_sources.push(DataSource {
            config: source.into(),
            ..Default::default()
        });
    }
    let changes: [fn(&mut TraceConfig); 2] = [deflate, |config| {
        allow(config, &[(f::TRACE_CONFIG, SIMPLE)])
    }];
    for change in changes {
        let mut world = World::new();
        let consumer = world.consumer();
        world.enable(consumer, config.clone().with(change));
        let id = world.call(consumer, Request::ReadBuffers(Default::default()));
        let mut longest = 0;
        for (reply, _) in world.answers(consumer, id) {
            let Some(Reply::ReadBuffers(reply)) = reply else {
                panic!("rejected")
            };
            let lengths = reply.slices.iter().map(|s| s.data.as_ref().unwrap().len());
            longest = lengths.fold(longest, usize::max);
        }
        assert_eq!(longest, MAX_SLICE);
        let packets = world.read_packets(consumer, id);
        assert!(packets.iter().any(|packet| packet.0.len() > 4 * 75_000));
    }
}
