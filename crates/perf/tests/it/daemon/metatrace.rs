//! Tests of the profiler's metatrace.

use std::collections::BTreeSet;

use ferretto_proto::perfetto_metatrace::RecordType;
use ferretto_proto::{
    DataSourceConfig, PerfEventConfig, PerfettoMetatrace, TracePacket, trace_config,
    trace_packet::Data,
};

use crate::daemon::recording::{callstacks, record_until};
use crate::daemon::target::Target;
use crate::daemon::world::{LIMIT, World, config, permitted, read, source};

fn metatrace() -> trace_config::DataSource {
    let config = DataSourceConfig {
        name: Some(b"perfetto.metatrace".to_vec()),
        ..Default::default()
    };
    trace_config::DataSource {
        config: config.into(),
        ..Default::default()
    }
}

fn of_profiler(packets: &[TracePacket]) -> Vec<&PerfettoMetatrace> {
    let data = packets.iter().filter_map(|packet| packet.data.as_ref());
    data.filter_map(|data| match data {
        Data::PerfettoMetatrace(metatrace) => Some(&**metatrace),
        _ => None,
    })
    .collect()
}

fn events(packets: &[TracePacket]) -> BTreeSet<u32> {
    let id = |packet: &PerfettoMetatrace| match packet.record_type {
        Some(RecordType::EventId(id)) => Some(id),
        _ => None,
    };
    of_profiler(packets).into_iter().filter_map(id).collect()
}

fn counters(packets: &[TracePacket]) -> BTreeSet<u32> {
    let id = |packet: &PerfettoMetatrace| match packet.record_type {
        Some(RecordType::CounterId(id)) => Some(id),
        _ => None,
    };
    of_profiler(packets).into_iter().filter_map(id).collect()
}

/// Only this process, to limit the amount of work.
fn of_target(target: &Target, kernel_frames: bool) -> PerfEventConfig {
    callstacks(|sampling, scope| {
        sampling.kernel_frames = Some(kernel_frames);
        scope.target_pid = vec![target.pid() as i32];
    })
}

/// The numbers in upstream's `metatrace_events.h`.
const KALLSYMS_PARSE: u32 = 21;
const READ_TICK: u32 = 22;
const READ_CPU: u32 = 23;
const UNWIND_TICK: u32 = 24;
const UNWIND_SAMPLE: u32 = 25;
const MAPS_PARSE: u32 = 28;
const QUEUE_SIZE: u32 = 4;
const CURRENT_PID: u32 = 5;

#[test]
fn the_profiler_records_its_own_activities() {
    let Some(target) = permitted(|| Target::run(&["spin"])) else {
        return;
    };
    let world = World::new();
    // Listed first, so that it is started and stopped first.
    let wanted = config(vec![metatrace(), source(&of_target(&target, true))]);
    let packets = record_until(&world, wanted, "events of an unwinder", |packets| {
        events(packets).contains(&UNWIND_SAMPLE)
    });
    let expected = [
        KALLSYMS_PARSE,
        READ_TICK,
        READ_CPU,
        UNWIND_TICK,
        UNWIND_SAMPLE,
        MAPS_PARSE,
    ];
    assert_eq!(events(&packets), expected.into());
    assert_eq!(counters(&packets), [QUEUE_SIZE, CURRENT_PID].into());
    let profiler = std::process::id();
    for packet in of_profiler(&packets) {
        let thread = packet.thread_id.expect("a thread");
        let path = format!("/proc/{profiler}/task/{thread}");
        assert!(std::path::Path::new(&path).exists(), "{packet:?}");
        assert_eq!(packet.has_overruns, None);
    }
}

#[test]
fn metatraces_of_the_profiler_are_independent() {
    let Some(target) = permitted(|| Target::run(&["spin"])) else {
        return;
    };
    let world = World::new();
    let mut profile = world.consumer();
    let samples = config(vec![source(&of_target(&target, false))]);
    profile.enable_tracing(samples, None).expect("enabled");
    // Both start in the middle, and one continues when the other has ended.
    let mut first = world.consumer();
    let own = || config(vec![metatrace()]);
    first.enable_tracing(own(), None).expect("enabled");
    let second = record_until(&world, own(), "reads", |packets| {
        events(packets).contains(&READ_TICK)
    });
    assert!(events(&second).contains(&READ_CPU));
    first.flush(LIMIT).expect("a flush");
    assert!(events(&read(&mut first)).contains(&READ_CPU));
    crate::daemon::world::wait_until("more of them", || {
        first.flush(LIMIT).expect("a flush");
        events(&read(&mut first)).contains(&READ_TICK)
    });
    for mut consumer in [first, profile] {
        consumer.disable_tracing(LIMIT).expect("disabled");
        assert!(consumer.wait_for_end(LIMIT).expect("connected").is_some());
    }
}

#[test]
fn activities_at_the_end_of_a_profile_are_recorded() {
    let Some(target) = permitted(|| Target::run(&["spin"])) else {
        return;
    };
    let world = World::new();
    let mut slow = of_target(&target, false);
    // Read only at its end.
    slow.ring_buffer_read_period_ms = Some(3_600_000);
    slow.callstack_sampling = None.into();
    let packets = world.record(config(vec![metatrace(), source(&slow)]), |consumer| {
        drop(read(consumer));
    });
    assert!(events(&packets).contains(&READ_CPU), "{packets:?}");
}
