//! Which configs are accepted, and what is said of the others.

use ferretto_ipc::port::consumer::Request;
use ferretto_proto::trace_config::trigger_config::{Trigger, TriggerMode};
use ferretto_proto::trace_config::{
    BufferConfig, LockdownModeOperation, ProducerConfig, SessionSemaphore, TriggerConfig,
};
use ferretto_proto::{
    EnableTracingRequest, PriorityBoostConfig, TraceConfig, priority_boost_config::BoostPolicy,
};

use crate::world::{Behaviour, ConfigBuilder, World};

/// The error of a config in a world of its own.
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
fn service_022_row_01_and_033_one_session_at_a_time() {
    let mut world = World::new();
    let consumer = world.consumer();
    let first = world.enable(consumer, ConfigBuilder::new());
    let second = world.enable(consumer, ConfigBuilder::new());
    assert_eq!(
        world.ended(consumer, second).unwrap(),
        "A Consumer is trying to EnableTracing() but another tracing session is already active \
         (forgot a call to FreeBuffers() ?)"
    );
    // The first request lost its place; the session did not notice.
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
            config.nested(17, |triggers| triggers.int(1, mode));
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

fn exclusive(priority: u32) -> ConfigBuilder {
    ConfigBuilder::new().with(|c| c.exclusive_prio = Some(priority))
}

#[test]
fn service_022_row_18_and_029_exclusive_sessions() {
    let mut world = World::new();
    let [first, second, third] = [(); 3].map(|()| world.consumer());
    let plain = world.enable(first, ConfigBuilder::new());
    let low = world.enable(second, exclusive(1));
    assert_eq!(
        world.ended(first, plain).unwrap(),
        "Aborted due to user requested higher-priority (1) exclusive session."
    );
    assert_eq!(world.sessions(), 1);
    for priority in [0, 1] {
        let refused = world.enable(first, exclusive(priority));
        assert_eq!(
            world.ended(first, refused).unwrap(),
            format!(
                "An exclusive session with priority 1 >= requested priority {priority} is already \
                 active."
            )
        );
    }
    let high = world.enable(third, exclusive(2));
    assert_eq!(
        world.ended(second, low).unwrap(),
        "Aborted due to user requested higher-priority (2) exclusive session."
    );
    world.free(third);
    assert!(world.is_answered(third, high));
    let again = world.enable(second, ConfigBuilder::new());
    assert_eq!(world.ended(second, again), None);
}

#[test]
fn an_exclusive_session_that_is_refused_ends_no_other() {
    let mut world = World::new();
    let (first, second) = (world.consumer(), world.consumer());
    let session = world.enable(first, ConfigBuilder::new());
    let bad = exclusive(1).with(|c| c.buffers[0].size_kb = Some(0));
    let refused = world.enable(second, bad);
    assert!(world.ended(second, refused).is_some());
    assert_eq!(world.ended(first, session), None);
}

fn named(name: &str) -> ConfigBuilder {
    ConfigBuilder::new().with(|c| c.unique_session_name = Some(name.into()))
}

#[test]
fn service_022_row_21_and_027_unique_names() {
    let mut world = World::new();
    let (first, second) = (world.consumer(), world.consumer());
    world.enable(first, named("n"));
    world.disable(first);
    let refused = world.enable(second, named("n"));
    let text = "A trace with this unique session name (n) already exists";
    assert_eq!(world.ended(second, refused).unwrap(), text);
    world.free(first);
    let accepted = world.enable(second, named("n"));
    assert_eq!(world.ended(second, accepted), None);
}

fn semaphore(max: u64) -> ConfigBuilder {
    ConfigBuilder::new().with(|c| {
        c.session_semaphores.push(SessionSemaphore {
            name: Some(b"s".to_vec()),
            max_other_session_count: Some(max),
            ..Default::default()
        });
    })
}

#[test]
fn service_022_row_22_and_028_semaphores() {
    let mut world = World::new();
    let [first, second, third] = [(); 3].map(|()| world.consumer());
    world.enable(first, semaphore(1));
    let shared = world.enable(second, semaphore(5));
    assert_eq!(world.ended(second, shared), None);
    let refused = world.enable(third, semaphore(7));
    assert_eq!(
        world.ended(third, refused).unwrap(),
        "Semaphore \"s\" exceeds maximum allowed other session count (2 > min(7, 1))"
    );
    world.disable(second);
    let accepted = world.enable(third, semaphore(7));
    assert_eq!(world.ended(third, accepted), None);
}

#[test]
fn service_022_row_23_and_026_cooldown() {
    let guarded = |name: &str| named(name).with(|c| c.enable_extra_guardrails = Some(true));
    for name in ["n", ""] {
        let mut world = World::new();
        let consumer = world.consumer();
        world.enable(consumer, guarded(name));
        world.free(consumer);
        world.run_for(300_999);
        let refused = world.enable(consumer, guarded(name));
        assert_eq!(
            world.ended(consumer, refused).unwrap(),
            format!("A trace with unique session name \"{name}\" began less than 300s ago (300s)")
        );
        // The refused attempt does not count.
        world.run_for(1);
        let accepted = world.enable(consumer, guarded(name));
        assert_eq!(world.ended(consumer, accepted), None);
    }
}

#[test]
fn service_022_rows_24_25_and_025_session_counts() {
    let mut world = World::new();
    for user in 0..3 {
        for index in 0..5 {
            let consumer = world.consumer_of(user);
            let session = world.enable(consumer, ConfigBuilder::new());
            assert_eq!(world.ended(consumer, session), None);
            if index % 2 == 0 {
                world.disable(consumer);
            }
        }
    }
    let sixth = world.consumer_of(2);
    let refused = world.enable(sixth, ConfigBuilder::new());
    assert_eq!(
        world.ended(sixth, refused).unwrap(),
        "Too many concurrent tracing sesions (5) for uid 2 limit is 5"
    );
    let sixteenth = world.consumer_of(9);
    let refused = world.enable(sixteenth, ConfigBuilder::new());
    let text = "Too many concurrent tracing sesions (15)";
    assert_eq!(world.ended(sixteenth, refused).unwrap(), text);
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
fn what_is_not_there_yet_is_refused_not_ignored() {
    let unsupported = |change: fn(&mut TraceConfig)| refusal(change);
    let text = |what: &str| format!("{what} is not supported by this tracing service");
    assert_eq!(
        unsupported(|c| {
            let builtin = c.builtin_data_sources.get_or_insert_default();
            builtin.enable_concurrent_session_events = Some(true);
        }),
        text("enable_concurrent_session_events")
    );
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
fn service_010_lockdown() {
    let mut world = World::new();
    let foreign = world.simple_producer("foreign");
    let own = Behaviour {
        uid: crate::world::SERVICE_UID,
        ..Default::default()
    };
    let own = world.producer_with("own", own);
    world.register(own, "own");
    let consumer = world.consumer();
    let lock = |mode| {
        ConfigBuilder::new()
            .source("foreign")
            .source("own")
            .with(|c| c.lockdown_mode = Some(mode))
    };
    world.enable(consumer, lock(LockdownModeOperation::LOCKDOWN_SET));
    assert!(world.setups(foreign).is_empty());
    assert_eq!(world.setups(own).len(), 1);
    world.free(consumer);
    let late = world.producer("late");
    assert!(world.producers[&late].initialized.is_none());
    // A refused config does not lift it.
    let bad = lock(LockdownModeOperation::LOCKDOWN_CLEAR).with(|c| c.buffers[0].size_kb = Some(0));
    world.enable(consumer, bad);
    let later = world.producer("later");
    assert!(world.producers[&later].initialized.is_none());
    world.enable(consumer, lock(LockdownModeOperation::LOCKDOWN_CLEAR));
    assert_eq!(world.setups(foreign).len(), 1);
    let last = world.producer("last");
    assert!(world.producers[&last].initialized.is_some());
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
fn attach_notification_needs_no_config() {
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
    // Too late for the event, but not left waiting.
    let third = world.call(consumer, Request::EnableTracing(rearm));
    assert_eq!(world.ended(consumer, third).unwrap(), "");
}
