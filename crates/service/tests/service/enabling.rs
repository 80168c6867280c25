//! Accepted configs, and the errors of refused ones.

use ferretto_ipc::port::consumer::Request;
use ferretto_proto::trace_config::buffer_config::ExperimentalMode;
use ferretto_proto::trace_config::trigger_config::{Trigger, TriggerMode};
use ferretto_proto::trace_config::{BufferConfig, ProducerConfig, TriggerConfig};
use ferretto_proto::{
    EnableTracingRequest, PriorityBoostConfig, TraceConfig, priority_boost_config::BoostPolicy,
};

use crate::world::{ConfigBuilder, World};

/// Returns the error of a config in a new world.
fn refusal(change: impl FnOnce(&mut TraceConfig)) -> String {
    let mut world = World::new();
    let consumer = world.consumer();
    let session = world.enable(consumer, ConfigBuilder::new().source("p").with(change));
    let error = world.ended(consumer, session).expect("a refusal");
    assert_eq!(world.sessions(), 0, "no session remains");
    error
}

fn accepted(change: impl FnOnce(&mut TraceConfig)) -> bool {
    let mut world = World::new();
    let consumer = world.consumer();
    let session = world.enable(consumer, ConfigBuilder::new().source("p").with(change));
    world.ended(consumer, session).is_none()
}

fn trigger(name: &str) -> Trigger {
    Trigger {
        name: Some(name.into()),
        ..Default::default()
    }
}

fn triggers(mode: TriggerMode, timeout_ms: u32) -> TriggerConfig {
    TriggerConfig {
        trigger_mode: Some(mode),
        trigger_timeout_ms: Some(timeout_ms),
        triggers: vec![trigger("t")],
        ..Default::default()
    }
}

#[test]
fn service_022_row_01_and_033_and_ipc_055_one_session_at_a_time() {
    let mut world = World::new();
    let consumer = world.consumer();
    let first = world.enable(consumer, ConfigBuilder::new());
    let second = world.enable(consumer, ConfigBuilder::new());
    assert_eq!(
        world.ended(consumer, second).unwrap(),
        "A Consumer is trying to EnableTracing() but another tracing session is already active \
         (forgot a call to FreeBuffers() ?)"
    );
    // The first request was replaced; the session is unaffected.
    assert!(world.answer(consumer, first).is_none());
    assert_eq!(world.state(consumer).num_sessions_started, Some(1));
}

#[test]
fn service_022_row_02_and_023_duration() {
    assert!(accepted(|c| c.duration_ms = Some(604_800_000)));
    assert_eq!(
        refusal(|c| c.duration_ms = Some(604_800_001)),
        "Requested too long trace (604800001ms  > 604800000 ms)"
    );
    let guarded = |ms| {
        move |c: &mut TraceConfig| {
            c.duration_ms = Some(ms);
            c.enable_extra_guardrails = Some(true);
        }
    };
    assert!(accepted(guarded(86_400_000)));
    assert_eq!(
        refusal(guarded(86_400_001)),
        "Requested too long trace (86400001ms  > 86400000 ms)"
    );
}

#[test]
fn service_022_rows_03_to_06_triggers() {
    let timeout = "Traces with START_TRACING triggers must provide a positive trigger_timeout_ms \
                   < 7 days (received 0ms)";
    assert_eq!(
        refusal(|c| c.trigger_config = triggers(TriggerMode::START_TRACING, 0).into()),
        timeout
    );
    assert_eq!(
        refusal(|c| {
            let mut config = triggers(TriggerMode::START_TRACING, 1);
            config.use_clone_snapshot_if_available = Some(true);
            c.trigger_config = config.into();
        }),
        "trigger_mode must be STOP_TRACING when use_clone_snapshot_if_available=true"
    );
    assert_eq!(
        refusal(|c| {
            c.trigger_config = triggers(TriggerMode::STOP_TRACING, 1).into();
            c.duration_ms = Some(1);
        }),
        "duration_ms was set, this must not be set for traces with triggers."
    );
}

#[test]
fn service_031_impossible_trigger_modes() {
    use ferretto_proto::Message;
    for mode in [3, 5, -1_i64] {
        let config = ferretto_wire::encode(|config| {
            config.nested(17, |triggers| {
                triggers.int(1, mode);
                triggers.varint(3, 1);
            });
        });
        let config = TraceConfig::decode_from_slice(&config).unwrap();
        let error = refusal(|c| c.trigger_config = config.trigger_config);
        assert_eq!(error, "The trace config specified an invalid trigger_mode");
    }
}

#[test]
fn service_022_rows_07_to_09() {
    assert!(accepted(
        |c| c.bugreport_filename = Some(b"a-Z_0.pftrace".to_vec())
    ));
    assert_eq!(
        refusal(|c| c.bugreport_filename = Some(b"a/b".to_vec())),
        "bugreport_filename contains invalid chars. Use [a-zA-Z0-9-_.]+"
    );
    assert_eq!(
        refusal(|c| {
            c.trigger_config = triggers(TriggerMode::STOP_TRACING, 1).into();
            c.write_into_file = Some(true);
        }),
        "Specifying trigger mode STOP_TRACING/CLONE_SNAPSHOT and write_into_file together is \
         unsupported"
    );
    assert_eq!(
        refusal(|c| {
            c.trigger_config = TriggerConfig {
                triggers: vec![trigger("a"), trigger("a")],
                ..Default::default()
            }
            .into();
        }),
        "Duplicate trigger name: a"
    );
}

#[test]
fn service_022_rows_10_to_12_guardrails() {
    let guarded = |change: fn(&mut TraceConfig)| {
        refusal(|c| {
            c.enable_extra_guardrails = Some(true);
            change(c);
        })
    };
    assert_eq!(
        guarded(|c| c.deferred_start = Some(true)),
        "deferred_start=true is not supported in unsupervised traces"
    );
    assert_eq!(
        guarded(|c| c.buffers[0].size_kb = Some(63)),
        "buffers.size_kb must be a multiple of 4, got 63"
    );
    assert_eq!(
        guarded(|c| c.buffers[0].size_kb = Some(131_076)),
        "Requested too large trace buffer (131076kB  > 131072 kB)"
    );
}

#[test]
fn config_018_guardrail_override() {
    let with = |size_kb, limit_kb| {
        move |c: &mut TraceConfig| {
            c.enable_extra_guardrails = Some(true);
            c.buffers[0].size_kb = Some(size_kb);
            c.guardrail_overrides
                .get_or_insert_default()
                .max_tracing_buffer_size_kb = Some(limit_kb);
        }
    };
    assert!(accepted(with(262_144, 262_144)));
    assert_eq!(
        refusal(with(262_148, 262_144)),
        "Requested too large trace buffer (262148kB  > 262144 kB)"
    );
    assert!(accepted(with(131_072, 1000)));
}

fn buffers(count: usize, size_kb: u32) -> Vec<BufferConfig> {
    vec![
        BufferConfig {
            size_kb: Some(size_kb),
            ..Default::default()
        };
        count
    ]
}

#[test]
fn service_022_row_13_and_024_and_tracebuf_003_buffers() {
    assert!(accepted(|c| c.buffers = buffers(128, 4)));
    assert_eq!(
        refusal(|c| c.buffers = buffers(129, 4)),
        "Too many buffers configured (129)"
    );
    let invalid = "Failed to allocate tracing buffers: Invalid buffer sizes";
    assert_eq!(refusal(|c| c.buffers[0].size_kb = Some(0)), invalid);
    assert_eq!(refusal(|c| c.buffers[0].size_kb = None), invalid);
    assert_eq!(refusal(|c| c.buffers[0].size_kb = Some(4_194_304)), invalid);
    // Upstream's service would abort on one that is 4 GiB after rounding up to pages.
    assert_eq!(
        refusal(|c| {
            c.buffers[0].size_kb = Some(4_194_301);
            c.buffers[0].experimental_mode = Some(ExperimentalMode::TRACE_BUFFER_V2);
        }),
        invalid
    );
}

#[test]
fn service_022_rows_14_to_17_and_tracebuf_003_buffer_names() {
    let named = |names: &[&str]| -> Vec<BufferConfig> {
        let named = |name: &&str| BufferConfig {
            size_kb: Some(4),
            name: Some((*name).into()),
            ..Default::default()
        };
        names.iter().map(named).collect()
    };
    assert_eq!(
        refusal(|c| c.buffers = named(&["", "a", "", "a"])),
        "Duplicate buffer name \"a\" at index 3 (first occurrence at index 1)"
    );
    let target = |c: &mut TraceConfig, index: Option<u32>, name: Option<&str>| {
        c.buffers = named(&["a", "b"]);
        let source = c.data_sources[0].config.get_or_insert_default();
        source.target_buffer = index;
        source.target_buffer_name = name.map(Into::into);
    };
    assert!(accepted(|c| target(c, Some(1), Some("b"))));
    assert!(accepted(|c| target(c, Some(0), Some("b"))));
    assert_eq!(
        refusal(|c| target(c, None, Some("z"))),
        "Data source \"p\" specified target_buffer_name \"z\" which does not match any buffer"
    );
    assert_eq!(
        refusal(|c| target(c, Some(1), Some("a"))),
        "Data source \"p\" specified both target_buffer=1 and target_buffer_name=\"a\" (index 0) \
         but they don't match"
    );
    assert_eq!(
        refusal(|c| target(c, Some(2), None)),
        "Data source \"p\" specified an out of bounds target_buffer (2 >= 2)"
    );
    assert_eq!(
        refusal(|c| c.buffers.clear()),
        "Data source \"p\" specified an out of bounds target_buffer (0 >= 0)"
    );
    assert!(accepted(|c| {
        c.buffers.clear();
        c.data_sources.clear();
    }));
}

#[test]
fn config_007_a_buffer_is_found_by_its_name() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    let config = ConfigBuilder::new().buffer(4).source("p").with(|c| {
        c.buffers[1].name = Some(b"second".to_vec());
        c.data_sources[0]
            .config
            .get_or_insert_default()
            .target_buffer_name = Some(b"second".to_vec());
    });
    world.enable(consumer, config);
    let (_, config) = &world.setups(producer)[0];
    assert_eq!(config.target_buffer, Some(2));
    assert_eq!(config.target_buffer_name.as_deref(), Some(&b"second"[..]));
}

#[test]
fn service_022_row_26_and_config_020_empty_filter() {
    let error = refusal(|c| {
        c.trace_filter.get_or_insert_default();
    });
    assert_eq!(error, "Trace filter bytecode invalid");
}

#[test]
fn service_022_row_28_and_config_021_priority_boost() {
    let boost = |policy, priority| {
        refusal(|c| {
            c.priority_boost = PriorityBoostConfig {
                policy: Some(policy),
                priority: Some(priority),
                ..Default::default()
            }
            .into();
        })
    };
    assert_eq!(
        boost(BoostPolicy::POLICY_UNSPECIFIED, 0),
        "Invalid priority boost config: Policy must not be 'POLICY_UNSPECIFIED'"
    );
    assert_eq!(
        boost(BoostPolicy::POLICY_SCHED_OTHER, 21),
        "Invalid priority boost config: For the 'POLICY_SCHED_OTHER' priority must be in the range \
         [0; 20]"
    );
    for priority in [0, 100] {
        assert_eq!(
            boost(BoostPolicy::POLICY_SCHED_FIFO, priority),
            "Invalid priority boost config: For the 'POLICY_SCHED_FIFO' priority must be in the \
             range [1; 99]"
        );
    }
}

#[test]
fn service_030_an_invalid_pattern_is_named() {
    let error = refusal(|c| c.data_sources[0].producer_name_regex_filter = vec![b"a(".to_vec()]);
    assert_eq!(
        error,
        "Invalid regular expression \"a(\" in producer_name_regex_filter: unclosed group"
    );
    let error = refusal(|c| {
        let mut bad = trigger("t");
        bad.producer_name_regex = Some(b"[".to_vec());
        c.trigger_config = TriggerConfig {
            triggers: vec![bad],
            ..Default::default()
        }
        .into();
    });
    assert!(error.contains("\"[\" in producer_name_regex"), "{error}");
}

#[test]
fn config_012_unknown_enum_values() {
    use ferretto_proto::Message;
    let buffer = |field: u32| {
        let bytes = ferretto_wire::encode(|buffer| {
            buffer.varint(1, 64);
            buffer.varint(field, 77);
        });
        BufferConfig::decode_from_slice(&bytes).unwrap()
    };
    assert!(accepted(|c| c.buffers[0] = buffer(4)));
    assert_eq!(
        refusal(|c| c.buffers[0] = buffer(8)),
        "Failed to allocate tracing buffers: OOM or too many buffers"
    );
}

#[test]
fn service_005_and_config_014_memory_sizes_of_the_first_session_stay() {
    let sized = |size_kb| ProducerConfig {
        producer_name: Some(b"p".to_vec()),
        shm_size_kb: Some(size_kb),
        page_size_kb: Some(16),
        ..Default::default()
    };
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let (first, second) = (world.consumer(), world.consumer());
    let config = |sizes: &[u32]| {
        let producers = sizes.iter().map(|kb| sized(*kb)).collect();
        ConfigBuilder::new()
            .source("p")
            .with(|c| c.producers = producers)
    };
    world.enable(first, config(&[512, 1024]));
    world.enable(second, config(&[2048]));
    assert_eq!(
        world.producers[&producer].region.as_ref().unwrap().size(),
        512 * 1024
    );
    assert_eq!(
        world
            .commands(producer)
            .iter()
            .filter(|c| **c == "tracing")
            .count(),
        1
    );
}

#[test]
fn enable_tracing_after_attach_needs_no_config() {
    let mut world = World::new();
    let consumer = world.consumer();
    let first = world.enable(consumer, ConfigBuilder::new());
    let rearm = EnableTracingRequest {
        attach_notification_only: Some(true),
        ..Default::default()
    };
    let second = world.call(consumer, Request::EnableTracing(rearm.clone()));
    assert!(world.answer(consumer, first).is_none());
    world.disable(consumer);
    assert_eq!(world.ended(consumer, second).unwrap(), "");
    // Too late for the event, but answered.
    let third = world.call(consumer, Request::EnableTracing(rearm));
    assert_eq!(world.ended(consumer, third).unwrap(), "");
}
