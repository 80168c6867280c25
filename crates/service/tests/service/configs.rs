//! The parts of a config that are sent to producers, and those that the trace contains.

use ferretto_ipc::port::producer::Request as Produce;
use ferretto_proto::fields::trace_packet as f;
use ferretto_proto::trace_config::trigger_config::{Trigger, TriggerMode};
use ferretto_proto::{ActivateTriggersRequest, Message, TraceConfig};
use ferretto_wire::{Fields, encode};

use crate::world::{ConfigBuilder, World};

/// The numbers of DataSourceConfig fields with a data source's own config.
const OPAQUE: [u32; 47] = [
    100, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 114, 116, 117, 118, 120, 121,
    123, 124, 125, 126, 127, 128, 129, 130, 131, 132, 133, 134, 135, 136, 137, 138, 139, 140, 141,
    142, 143, 144, 150, 1000, 160, 999, 2000, 99_999,
];

/// Encodes a config with one buffer and a data source `p`, whose config ends with `own`.
fn config_with(own: &[u8]) -> Vec<u8> {
    encode(|config| {
        config.nested(1, |buffer| buffer.varint(1, 64));
        config.nested(2, |source| {
            source.nested(1, |config| {
                config.string(1, "p");
                config.raw(own);
            });
        });
    })
}

/// Returns a config as in the trace, and as sent to the producer.
fn pass_on(config: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    let config = TraceConfig::decode_from_slice(config).unwrap();
    let session = world.enable(consumer, config);
    assert_eq!(world.ended(consumer, session), None);
    let packets = world.read(consumer);
    let mut echoed = packets.iter().filter_map(|p| p.bytes(f::TRACE_CONFIG));
    let echoed = echoed.next().unwrap().to_vec();
    (echoed, world.setups(producer)[0].1.encode_to_vec())
}

fn find(number: u32, message: &[u8]) -> Vec<u8> {
    let field = Fields::find(number, message).expect("the field");
    field.as_bytes().expect("bytes").to_vec()
}

#[test]
fn config_001_and_002_and_004_unknown_fields_come_back_and_reach_the_producer() {
    // A number, and a message with an unusual encoding.
    let unknown = encode(|e| {
        e.varint(4321, 7);
        e.bytes(99_999, b"\x08\x80\x00\x0a\x84\x80\x80\x00abcd");
    });
    let testing = encode(|testing| {
        testing.varint(3, 1);
        testing.raw(&unknown);
    });
    let config = encode(|config| {
        config.nested(1, |buffer| {
            buffer.varint(1, 64);
            buffer.raw(&unknown);
        });
        config.nested(2, |source| {
            source.nested(1, |config| {
                config.string(1, "p");
                config.bytes(1001, &testing);
                config.raw(&unknown);
            });
            source.raw(&unknown);
        });
        config.raw(&unknown);
    });
    let (echoed, instance) = pass_on(&config);
    assert_eq!(echoed, config);
    assert!(instance.ends_with(&unknown));
    assert_eq!(find(1001, &instance), testing);
}

#[test]
fn config_003_and_ipc_046_a_data_source_s_own_config_is_not_looked_into() {
    for number in OPAQUE {
        let own = encode(|config| config.bytes(number, b"\xff\x07 garbage \x80"));
        let (echoed, instance) = pass_on(&config_with(&own));
        let expected = Fields::find(number, &own).unwrap().as_bytes();
        let source = find(1, &find(2, &echoed));
        for config in [&source, &instance] {
            let passed = Fields::find(number, config).and_then(|field| field.as_bytes());
            assert_eq!(passed, expected, "{number}");
        }
    }
}

#[test]
fn config_005_what_is_set_to_zero_stays_set_and_nothing_else_becomes_so() {
    let own = encode(|config| {
        config.varint(2, 0);
        config.varint(9, 0);
    });
    let mut config = config_with(&own);
    // Guardrails, deferred start and the bug report score, all off.
    config.extend(encode(|config| {
        config.varint(4, 0);
        config.varint(12, 0);
        config.varint(30, 0);
    }));
    let (echoed, instance) = pass_on(&config);
    assert_eq!(echoed, config);
    let mut numbers: Vec<u32> = Fields::new(&instance)
        .map(|field| field.unwrap().number)
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3, 4, 6, 7, 8, 9]);
}

#[test]
fn config_017_snapshots_come_every_ten_seconds_by_default() {
    for interval in [None, Some(0)] {
        let mut world = World::new();
        let consumer = world.consumer();
        world.run_for(3000);
        let config = ConfigBuilder::new().with(|c| {
            c.builtin_data_sources
                .get_or_insert_default()
                .snapshot_interval_ms = interval;
        });
        world.enable(consumer, config);
        let markers = |world: &mut World| {
            let packets = world.read(consumer);
            let markers = packets.iter().filter(|p| p.has(f::SYNCHRONIZATION_MARKER));
            markers.count()
        };
        assert_eq!(markers(&mut world), 1);
        // At multiples of the period.
        world.run_for(6_999);
        assert_eq!(markers(&mut world), 0);
        world.run_for(1);
        assert_eq!(markers(&mut world), 1);
        world.run_for(9_999);
        assert_eq!(markers(&mut world), 0);
        world.run_for(1);
        assert_eq!(markers(&mut world), 1);
    }
}

fn triggered(builder: ConfigBuilder) -> ConfigBuilder {
    builder.with(|c| {
        let triggers = c.trigger_config.get_or_insert_default();
        triggers.trigger_mode = Some(TriggerMode::STOP_TRACING);
        triggers.trigger_timeout_ms = Some(10_000);
        triggers.triggers.push(Trigger {
            name: Some("t".into()),
            stop_delay_ms: Some(1000),
            ..Default::default()
        });
    })
}

#[test]
fn config_015_no_config_no_triggers_in_the_trace() {
    for disabled in [false, true] {
        let mut world = World::new();
        let producer = world.producer("p");
        let consumer = world.consumer();
        let config = triggered(ConfigBuilder::new()).with(|c| {
            c.builtin_data_sources
                .get_or_insert_default()
                .disable_trace_config = Some(disabled);
        });
        world.enable(consumer, config);
        let request = ActivateTriggersRequest {
            trigger_names: vec![b"t".to_vec()],
            ..Default::default()
        };
        world.produce(producer, Produce::ActivateTriggers(request));
        let packets = world.read(consumer);
        for kind in [f::TRACE_CONFIG, f::TRIGGER] {
            assert_eq!(packets.iter().any(|p| p.has(kind)), !disabled);
        }
        assert!(packets.iter().any(|packet| packet.has(f::TRACE_UUID)));
    }
}

#[test]
fn config_022_triggers_to_activate_are_no_business_of_the_service() {
    let mut world = World::new();
    let (waiting, asking) = (world.consumer(), world.consumer());
    world.enable(waiting, triggered(ConfigBuilder::new()));
    let config = ConfigBuilder::new().with(|c| c.activate_triggers = vec![b"t".to_vec()]);
    let session = world.enable(asking, config);
    assert_eq!(world.ended(asking, session), None);
    world.run_for(2000);
    assert!(world.read(waiting).is_empty(), "not triggered");
    assert!(!world.read(asking).is_empty());
}

#[test]
fn config_025_attributes_and_metadata_come_back_as_they_were() {
    let mut config = config_with(&[]);
    config.extend(encode(|config| {
        config.nested(7, |statsd| {
            statsd.varint(1, 11);
            statsd.int(2, -5);
            statsd.varint(3, 0);
            statsd.varint(4, u64::MAX);
        });
        config.nested(48, |attributes| {
            for (key, field) in [("a", 2), ("b", 3), ("a", 3)] {
                attributes.nested(1, |attribute| {
                    attribute.string(1, key);
                    match field {
                        2 => attribute.int(2, -1),
                        _ => attribute.bytes(3, b"not \xff text"),
                    }
                });
            }
        });
    }));
    let (echoed, _) = pass_on(&config);
    let fields = |number| -> (Vec<u8>, Vec<u8>) { (find(number, &echoed), find(number, &config)) };
    for number in [7, 48] {
        let (back, sent) = fields(number);
        assert_eq!(back, sent);
    }
}
