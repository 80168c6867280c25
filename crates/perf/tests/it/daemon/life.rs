//! Tests of connections, starts and stops.

use std::time::Duration;

use ferretto_perf::Notice;
use ferretto_proto::PerfEventConfig;
use ferretto_proto::perf_sample::producer_event::{DataSourceStopReason, OptionalSourceStopReason};
use ferretto_proto::trace_packet::Data;

use crate::daemon::world::{LIMIT, World, config, source};

fn names(world: &World) -> Vec<(Vec<u8>, Vec<u8>)> {
    let state = world.consumer().query_service_state(LIMIT);
    let state = state.expect("a state");
    let producer = state.producers[0].name.clone().unwrap_or_default();
    let sources = state.data_sources.iter();
    let described = sources.filter_map(|one| one.ds_descriptor.as_option()?.name.clone());
    described.map(|name| (producer.clone(), name)).collect()
}

#[test]
fn perf_020_registered_again_after_the_service_was_restarted() {
    let mut world = World::new();
    let before = names(&world);
    let perf = (b"perfetto.traced_perf".to_vec(), b"linux.perf".to_vec());
    assert!(before.contains(&perf));
    world.stop_host();
    world.start_host();
    world.wait_ready();
    assert_eq!(names(&world), before);
}

#[test]
fn perf_002_a_failed_start_is_told_also_in_the_trace_and_its_stop_answered_at_once() {
    let world = World::new();
    let broken = PerfEventConfig {
        ring_buffer_pages: Some(7),
        ..Default::default()
    };
    // Completes only if the stop is answered.
    let packets = world.record(config(vec![source(&broken)]), |_| {});
    let events = packets.iter().filter_map(|packet| match &packet.data {
        Some(Data::PerfSample(sample)) => sample.producer_event.as_option(),
        _ => None,
    });
    let reasons: Vec<_> = events
        .map(|event| event.optional_source_stop_reason.clone())
        .collect();
    let unknown = DataSourceStopReason::PROFILER_STOP_UNKNOWN;
    assert_eq!(
        reasons,
        [Some(OptionalSourceStopReason::SourceStopReason(unknown))]
    );
    let mut notices =
        std::iter::from_fn(|| world.notices.recv_timeout(Duration::from_secs(5)).ok());
    let is_failure = |notice: Notice| {
        matches!(notice, Notice::Failed { source, reason }
            if source == "linux.perf" && reason.contains("ring_buffer_pages"))
    };
    assert!(notices.any(is_failure));
}
