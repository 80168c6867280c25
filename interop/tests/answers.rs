//! The same requests to both services: both reject the same ones, with the same messages.

use std::time::Duration;

use ferretto_client::{Address, Consumer};
use ferretto_interop::{Cast, Programs, Side, World};
use ferretto_proto::trace_config::buffer_config::ExperimentalMode;
use ferretto_proto::trace_config::trigger_config::{Trigger, TriggerMode};
use ferretto_proto::trace_config::{BufferConfig, DataSource, LockdownModeOperation};
use ferretto_proto::{
    DataSourceConfig, Message as _, TraceConfig, priority_boost_config::BoostPolicy,
};

const PROGRAMS: Programs = Programs {
    ours: env!("CARGO_BIN_EXE_ours"),
    official: env!("CARGO_BIN_EXE_official"),
};

const LIMIT: Duration = Duration::from_secs(60);

fn service(whose: Side) -> World {
    let cast = Cast {
        service: whose,
        producer: Side::Ours.into(),
        consumer: Side::Ours,
    };
    World::new(cast, PROGRAMS)
}

fn buffer(size_kb: u32, name: &str) -> BufferConfig {
    BufferConfig {
        size_kb: Some(size_kb),
        name: Some(name.into()),
        ..Default::default()
    }
}

/// A config with a buffer and an unknown data source.
fn simple() -> TraceConfig {
    let source = DataSourceConfig {
        name: Some("p".into()),
        ..Default::default()
    };
    TraceConfig {
        buffers: vec![buffer(64, "")],
        data_sources: vec![DataSource {
            config: source.into(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// Returns the error that the consumer receives at the end of a session with this config; `None` on
/// success.
fn outcome(world: &World, config: TraceConfig) -> Option<String> {
    let address = Address::Path(world.folder().join("consumer.sock"));
    let mut consumer = Consumer::connect(&address, LIMIT).unwrap();
    consumer.enable_tracing(config, None).unwrap();
    consumer.disable_tracing(LIMIT).unwrap();
    let end = consumer.wait_for_end(LIMIT).unwrap().expect("an end");
    // Also frees the session.
    end.error().map(without_age)
}

/// Removes the age of an earlier session, which depends on the load of the machine.
fn without_age(error: &str) -> String {
    match error.rsplit_once(" (") {
        Some((before, age)) if age.trim_end_matches("s)").parse::<u32>().is_ok() => {
            format!("{before} (some seconds)")
        }
        _ => error.to_owned(),
    }
}

type Change = fn(&mut TraceConfig);

fn triggers(c: &mut TraceConfig, mode: TriggerMode, timeout_ms: u32, names: &[&str]) {
    let triggers = c.trigger_config.get_or_insert_default();
    triggers.trigger_mode = Some(mode);
    triggers.trigger_timeout_ms = Some(timeout_ms);
    let named = |name: &&str| Trigger {
        name: Some((*name).into()),
        ..Default::default()
    };
    triggers.triggers = names.iter().map(named).collect();
}

fn target(c: &mut TraceConfig, index: Option<u32>, name: &str) {
    c.buffers = vec![buffer(4, "a"), buffer(4, "b")];
    let source = c.data_sources[0].config.get_or_insert_default();
    source.target_buffer = index;
    source.target_buffer_name = Some(name.into());
}

fn boost(c: &mut TraceConfig, policy: BoostPolicy, priority: u32) {
    let boost = c.priority_boost.get_or_insert_default();
    boost.policy = Some(policy);
    boost.priority = Some(priority);
}

fn from_bytes(c: &mut TraceConfig, write: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = Vec::new();
    write(&mut bytes);
    c.merge_from_slice(&bytes).unwrap();
}

/// Changes of the simple config, most of them invalid.
const CHANGES: &[(&str, Change)] = &[
    ("nothing", |_| {}),
    ("no buffer", |c| c.buffers.clear()),
    ("no source", |c| c.data_sources.clear()),
    ("neither", |c| *c = TraceConfig::default()),
    ("week", |c| c.duration_ms = Some(604_800_000)),
    ("more than a week", |c| c.duration_ms = Some(604_800_001)),
    ("guarded day", |c| {
        c.enable_extra_guardrails = Some(true);
        c.duration_ms = Some(86_400_001);
    }),
    ("start without timeout", |c| {
        triggers(c, TriggerMode::START_TRACING, 0, &["t"])
    }),
    ("stop with a long timeout", |c| {
        triggers(c, TriggerMode::STOP_TRACING, 604_800_001, &["t"]);
    }),
    ("clone trigger", |c| {
        triggers(c, TriggerMode::START_TRACING, 1, &["t"]);
        c.trigger_config
            .get_or_insert_default()
            .use_clone_snapshot_if_available = Some(true);
    }),
    ("triggers and a duration", |c| {
        triggers(c, TriggerMode::STOP_TRACING, 1, &["t"]);
        c.duration_ms = Some(1);
    }),
    ("unknown mode", |c| {
        from_bytes(c, |b| b.extend([0x8a, 1, 4, 8, 9, 0x18, 1]))
    }),
    ("unknown mode without timeout", |c| {
        from_bytes(c, |b| b.extend([0x8a, 1, 2, 8, 9]))
    }),
    ("bug report", |c| {
        c.bugreport_filename = Some(b"a/b".to_vec())
    }),
    ("bug report with invalid text", |c| {
        c.bugreport_filename = Some(b"\xff".to_vec())
    }),
    ("stop into a file", |c| {
        triggers(c, TriggerMode::STOP_TRACING, 1, &["t"]);
        c.write_into_file = Some(true);
    }),
    ("trigger twice", |c| {
        triggers(c, TriggerMode::UNSPECIFIED, 0, &["a", "b", "a"])
    }),
    ("trigger without name twice", |c| {
        triggers(c, TriggerMode::UNSPECIFIED, 0, &["", ""])
    }),
    ("guarded deferred start", |c| {
        c.enable_extra_guardrails = Some(true);
        c.deferred_start = Some(true);
    }),
    ("guarded odd size", |c| {
        c.enable_extra_guardrails = Some(true);
        c.buffers[0].size_kb = Some(63);
    }),
    ("guarded large size", |c| {
        c.enable_extra_guardrails = Some(true);
        c.buffers = vec![buffer(131_072, ""), buffer(4, "")];
    }),
    ("129 buffers", |c| c.buffers = vec![buffer(4, ""); 129]),
    ("duplicate name", |c| {
        c.buffers = ["", "a", "", "a"].map(|n| buffer(4, n)).to_vec()
    }),
    ("name without a buffer", |c| target(c, None, "z")),
    ("name and number", |c| target(c, Some(1), "a")),
    ("name with another number", |c| target(c, Some(0), "b")),
    ("beyond the last", |c| target(c, Some(2), "")),
    ("empty filter", |c| {
        c.trace_filter.get_or_insert_default();
    }),
    ("bad filter", |c| {
        c.trace_filter.get_or_insert_default().bytecode = Some(vec![1, 2, 3]);
    }),
    ("no policy", |c| {
        boost(c, BoostPolicy::POLICY_UNSPECIFIED, 0)
    }),
    ("too nice", |c| {
        boost(c, BoostPolicy::POLICY_SCHED_OTHER, 21)
    }),
    ("too little", |c| {
        boost(c, BoostPolicy::POLICY_SCHED_FIFO, 0)
    }),
    ("too much", |c| {
        boost(c, BoostPolicy::POLICY_SCHED_FIFO, 100)
    }),
    ("no output file", |c| c.write_into_file = Some(true)),
    ("no such folder", |c| {
        c.write_into_file = Some(true);
        c.output_path = Some(b"/proc/none/trace".to_vec());
    }),
    ("no size", |c| c.buffers[0].size_kb = None),
    ("4 GiB", |c| c.buffers[0].size_kb = Some(4_194_304)),
    ("second buffer kind", |c| {
        c.buffers[0].experimental_mode = Some(ExperimentalMode::TRACE_BUFFER_V2);
    }),
    ("unknown buffer kind", |c| {
        from_bytes(c, |b| b.extend([0x0a, 4, 8, 4, 0x40, 9]))
    }),
    ("unknown policy", |c| {
        from_bytes(c, |b| b.extend([0x0a, 4, 8, 4, 0x20, 9]))
    }),
    ("lockdown", |c| {
        c.lockdown_mode = Some(LockdownModeOperation::LOCKDOWN_CLEAR)
    }),
    ("guarded", |c| c.enable_extra_guardrails = Some(true)),
    ("guarded again", |c| c.enable_extra_guardrails = Some(true)),
];

#[test]
fn service_022_and_ipc_054_errors_match_upstream() {
    let (ours, official) = (service(Side::Ours), service(Side::Official));
    let mut refused = 0;
    for (name, change) in CHANGES {
        let mut config = simple();
        change(&mut config);
        let expected = outcome(&official, config.clone());
        assert_eq!(outcome(&ours, config), expected, "{name}");
        refused += usize::from(expected.is_some());
    }
    assert!(refused > 30, "{refused}");
}
