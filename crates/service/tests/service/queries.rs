//! Queries of consumers about the service.

use ferretto_ipc::port::consumer::{Reply, Request};
use ferretto_proto::QueryServiceStateRequest;

use crate::world::{Behaviour, ConfigBuilder, World};

#[test]
fn the_state_of_the_service() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let config = ConfigBuilder::new().source("p").with(|c| {
        c.unique_session_name = Some(b"n".to_vec());
        c.bugreport_score = Some(7);
        c.duration_ms = Some(9000);
    });
    let consumer = world.consumer();
    world.enable(consumer, config);
    let state = world.state(consumer);
    assert_eq!(
        (state.num_sessions, state.num_sessions_started),
        (Some(1), Some(1))
    );
    let listed = &state.producers[0];
    assert_eq!(
        (listed.id, listed.uid, listed.pid),
        (Some(1), Some(2000), Some(4321))
    );
    assert_eq!(listed.machine_id, None);
    let source = &state.data_sources[0];
    assert_eq!(source.ds_descriptor.name.as_deref(), Some(&b"p"[..]));
    assert_eq!(source.producer_id, Some(1));
    let session = &state.tracing_sessions[0];
    assert_eq!(session.id, Some(1));
    assert_eq!(session.state.as_deref(), Some(&b"STARTED"[..]));
    assert_eq!(session.unique_session_name.as_deref(), Some(&b"n"[..]));
    assert_eq!(session.buffer_size_kb, [64]);
    assert_eq!(session.duration_ms, Some(9000));
    assert_eq!(session.num_data_sources, Some(1));
    assert_eq!(session.start_realtime_ns, Some(1_700_000_000_000_000_000));
    assert_eq!(session.bugreport_score, Some(7));
    assert_eq!(session.is_started, Some(true));
    // Still known after the first read.
    world.read(consumer);
    assert!(
        world.state(consumer).tracing_sessions[0]
            .start_realtime_ns
            .is_some()
    );
    world.disconnect(producer);
    let state = world.state(consumer);
    assert!(state.producers.is_empty() && state.data_sources.is_empty());
}

#[test]
fn service_076_and_ipc_062_sessions_of_others_are_not_shown() {
    let mut world = World::new();
    let [owner, other, root] = [1, 2, 0].map(|uid| world.consumer_of(uid));
    world.enable(owner, ConfigBuilder::new());
    assert_eq!(world.state(owner).tracing_sessions.len(), 1);
    assert_eq!(world.state(root).tracing_sessions.len(), 1);
    let state = world.state(other);
    assert!(state.tracing_sessions.is_empty());
    assert_eq!(state.num_sessions, Some(1));
}

#[test]
fn ipc_062_sessions_only() {
    let mut world = World::new();
    world.simple_producer("p");
    let consumer = world.consumer();
    let request = QueryServiceStateRequest {
        sessions_only: Some(true),
        ..Default::default()
    };
    let id = world.call(consumer, Request::QueryServiceState(request));
    let Some(Reply::QueryServiceState(reply)) = world.answer(consumer, id) else {
        panic!()
    };
    assert!(reply.service_state.producers.is_empty());
    assert!(reply.service_state.data_sources.is_empty());
}

#[test]
fn ipc_040_a_large_state_comes_in_parts_that_fit_no_faster_than_it_is_read() {
    let mut world = World::new();
    for index in 0..2000 {
        let name = format!("producer {index} {}", "x".repeat(300));
        let producer = world.producer_with(&name, Behaviour::default());
        world.register(producer, "s");
    }
    let consumer = world.consumer();
    let state = world.state(consumer);
    assert_eq!(
        (state.producers.len(), state.data_sources.len()),
        (2000, 2000)
    );
    world.consumers.get_mut(&consumer).unwrap().stuck = true;
    let requests: Vec<_> = (0..10)
        .map(|_| world.call(consumer, Request::QueryServiceState(Default::default())))
        .collect();
    let sent = |world: &World| -> usize {
        requests
            .iter()
            .map(|id| world.sent_bytes(consumer, *id))
            .sum()
    };
    assert!(sent(&world) < 512 * 1024);
    world.unstick(consumer);
    assert!(sent(&world) > 6_000_000);
    assert!(
        requests
            .iter()
            .all(|id| !world.answers(consumer, *id).last().unwrap().1)
    );
}

#[test]
fn each_part_of_a_state_is_built_when_it_can_be_sent() {
    let mut world = World::new();
    let name = |index: usize| format!("{index:04} {}", "x".repeat(4_000));
    let producers: Vec<_> = (0..400)
        .map(|index| world.producer_with(&name(index), Behaviour::default()))
        .collect();
    let consumer = world.consumer();
    world.consumers.get_mut(&consumer).unwrap().stuck = true;
    let requests: Vec<_> = (0..1_000)
        .map(|_| world.call(consumer, Request::QueryServiceState(Default::default())))
        .collect();
    let (first, last) = (requests[0], requests[999]);
    // Clients that have disconnected by then are not reported.
    for producer in &producers[..390] {
        world.disconnect(*producer);
    }
    world.unstick(consumer);
    let reported = |request| -> Vec<String> {
        let answers = world.answers(consumer, request);
        assert!(!answers.last().unwrap().1);
        let producers = answers.iter().flat_map(|(reply, _)| match reply {
            Some(Reply::QueryServiceState(reply)) => reply.service_state.producers.clone(),
            other => panic!("{other:?}"),
        });
        producers
            .map(|p| String::from_utf8(p.name.unwrap()).unwrap())
            .collect()
    };
    let expected: Vec<_> = (390..400).map(name).collect();
    assert_eq!(reported(last), expected);
    let of_first = reported(first);
    assert!((20..200).contains(&of_first.len()));
    assert!(of_first.ends_with(&expected));

    // Excess waiting requests are rejected.
    world.consumers.get_mut(&consumer).unwrap().stuck = true;
    let too_many: Vec<_> = (0..3_000)
        .map(|_| world.call(consumer, Request::QueryServiceState(Default::default())))
        .collect();
    let rejected = |id: &&u64| matches!(world.answers(consumer, **id)[..], [(None, false)]);
    assert!(too_many.iter().filter(rejected).count() > 1_000);
}

#[test]
fn service_077_capabilities_and_refusals() {
    let mut world = World::new();
    let consumer = world.consumer();
    let id = world.call(consumer, Request::QueryCapabilities(Default::default()));
    let Some(Reply::QueryCapabilities(reply)) = world.answer(consumer, id) else {
        panic!()
    };
    assert_eq!(reply.capabilities.has_query_capabilities, Some(true));
    assert_eq!(reply.capabilities.has_trace_config_output_path, Some(true));
    let id = world.call(consumer, Request::SaveTraceForBugreport(Default::default()));
    let Some(Reply::SaveTraceForBugreport(reply)) = world.answer(consumer, id) else {
        panic!()
    };
    assert_eq!(reply.success, Some(false));
    assert_eq!(
        reply.msg.as_deref(),
        Some(
            &b"SaveTraceForBugreport is deprecated. Use CloneSession(kBugreportSessionId) instead."
                [..]
        )
    );
    let id = world.call(consumer, Request::CloneSession(Default::default()));
    let Some(Reply::CloneSession(reply)) = world.answer(consumer, id) else {
        panic!()
    };
    assert_eq!(reply.success, Some(false));
    assert!(!reply.error.as_deref().unwrap().is_empty());
}

#[test]
fn statistics_report_losses_by_buffer() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    world.enable(
        consumer,
        ConfigBuilder::default()
            .buffer(4)
            .buffer(64)
            .source_to("p", 0),
    );
    let mut writer = world.writer(producer);
    let line = "x".repeat(1000);
    for _ in 0..20 {
        world.write(producer, &mut writer, &[&line]);
    }
    let stats = world.stats(consumer);
    assert_eq!(stats.buffer_stats.len(), 2);
    assert!(stats.buffer_stats[0].chunks_overwritten.unwrap() > 10);
    assert_eq!(stats.buffer_stats[1].chunks_written, Some(0));
    assert_eq!(stats.writer_stats.len(), 1);
    assert_eq!(stats.writer_stats[0].buffer, Some(0));
    assert_eq!(stats.writer_stats[0].sequence_id, Some(2));
    assert_eq!(stats.chunk_payload_histogram_def.len(), 10);
    assert_eq!(
        stats.writer_stats[0].chunk_payload_histogram_counts.len(),
        11
    );
    assert_eq!(
        (stats.producers_connected, stats.producers_seen),
        (Some(1), Some(1))
    );
    assert_eq!(
        (stats.tracing_sessions, stats.total_buffers),
        (Some(1), Some(2))
    );
    let config = ConfigBuilder::new().with(|c| {
        c.builtin_data_sources
            .get_or_insert_default()
            .disable_chunk_usage_histograms = Some(true);
    });
    world.free(consumer);
    world.enable(consumer, config);
    assert!(world.stats(consumer).writer_stats.is_empty());
}

#[test]
fn statistics_of_very_many_writers_fit_a_reply() {
    let mut world = World::new();
    let producer = world.producer_with(
        "p",
        Behaviour {
            shares_memory: false,
            ..Default::default()
        },
    );
    world.register(producer, "p");
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::default().buffer(4096).source("p"));
    for _ in 0..5000 {
        let mut writer = world.writer(producer);
        world.write(producer, &mut writer, &["x"]);
        std::mem::forget(writer);
    }
    let stats = world.stats(consumer);
    assert!(stats.writer_stats.len() > 1000 && stats.writer_stats.len() < 5000);
    // The trace contains all of them.
    let packets = world.read(consumer);
    let stats = packets.iter().find_map(|packet| packet.stats()).unwrap();
    assert_eq!(stats.writer_stats.len(), 5000);
}
