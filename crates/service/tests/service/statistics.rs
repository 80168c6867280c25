//! TraceStats and the reports about slow producers, field by field.

use ferretto_ipc::port::producer::Request;
use ferretto_proto::Message as _;
use ferretto_proto::commit_data_request::{ChunkToPatch, chunk_to_patch::Patch};
use ferretto_proto::fields::trace_packet as f;
use ferretto_proto::trace_stats::FinalFlushOutcome;
use ferretto_proto::{CloneSessionRequest, CommitDataRequest, clone_session_request::Selector};
use ferretto_service::{ClientId, Event};
use ferretto_wire::Fields;

use crate::world::{Behaviour, ConfigBuilder, Packet, TEST_FIELD, World, texts};

fn silent(world: &mut World, name: &str) -> ClientId {
    let behaviour = Behaviour {
        confirms_flush: false,
        ..Default::default()
    };
    let producer = world.producer_with(name, behaviour);
    world.register(producer, name);
    producer
}

fn clone(world: &mut World, session: u64) -> ClientId {
    let client = world.consumer();
    let request = CloneSessionRequest {
        selector: Some(Selector::SessionId(session)),
        ..Default::default()
    };
    world.call(
        client,
        ferretto_ipc::port::consumer::Request::CloneSession(request),
    );
    client
}

#[test]
fn service_019_a_patch_cannot_reach_a_cloned_buffer() {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new().source("p"));
    let mut writer = world.writer(producer);
    world.write(producer, &mut writer, &["untouched"]);
    let copy = clone(&mut world, 1);
    // Buffer ids can be guessed: the clone has the second.
    for target in [2, 3, 0, u32::MAX] {
        let patch = Patch {
            offset: Some(0),
            data: Some(b"WXYZ".to_vec()),
            ..Default::default()
        };
        let request = CommitDataRequest {
            chunks_to_patch: vec![ChunkToPatch {
                target_buffer: Some(target),
                writer_id: Some(1),
                chunk_id: Some(0),
                patches: vec![patch],
                ..Default::default()
            }],
            ..Default::default()
        };
        world.produce(producer, Request::CommitData(request));
    }
    assert_eq!(world.stats(consumer).patches_discarded, Some(4));
    assert_eq!(texts(&world.read(copy)), ["untouched"]);
    assert_eq!(texts(&world.read(consumer)), ["untouched"]);
}

#[test]
fn counts_of_the_whole_service() {
    let mut world = World::new();
    let (gone, there) = (world.simple_producer("p"), world.simple_producer("q"));
    world.register(there, "another");
    let (own, other) = (world.consumer(), world.consumer());
    let config = ConfigBuilder::new().source("p").source("q").buffer(8);
    world.enable(own, config);
    world.enable(other, ConfigBuilder::new().source("q"));
    world.disconnect(gone);
    world.disable(other);
    let stats = world.stats(own);
    assert_eq!(stats.producers_connected, Some(1));
    assert_eq!(stats.producers_seen, Some(2), "the last assigned id");
    assert_eq!(stats.data_sources_registered, Some(2));
    assert_eq!(
        stats.data_sources_seen,
        Some(3),
        "instances, including those gone"
    );
    assert_eq!(
        stats.tracing_sessions,
        Some(2),
        "including those that are over"
    );
    assert_eq!(stats.total_buffers, Some(3));
    world.free(other);
    let stats = world.stats(own);
    assert_eq!(stats.tracing_sessions, Some(1));
    assert_eq!(stats.total_buffers, Some(2));
    assert_eq!(stats.buffer_stats.len(), 2);
    let clone = clone(&mut world, 1);
    assert_eq!(world.stats(clone).tracing_sessions, Some(2));
}

#[test]
fn counts_of_one_session() {
    let mut world = World::new();
    let loud = world.simple_producer("loud");
    let (own, other) = (world.consumer(), world.consumer());
    world.enable(own, ConfigBuilder::new().source("loud"));
    let stats = world.stats(own);
    assert_eq!(
        stats.final_flush_outcome,
        Some(FinalFlushOutcome::FINAL_FLUSH_UNSPECIFIED)
    );
    assert_eq!(stats.invalid_packets, Some(0));
    assert!(!stats.filter_stats.is_set());
    assert_eq!(stats.chunk_payload_histogram_def, [0; 0]);
    let mut writer = world.writer(loud);
    writer.new_packet().varint(f::TRUSTED_UID, 0);
    writer.new_packet().string(TEST_FIELD, "fine");
    world.write(loud, &mut writer, &[]);
    assert_eq!(texts(&world.read(own)), ["fine"]);
    let flush = world.flush(own, 100);
    assert_eq!(world.flushed(own, flush), Some(true));
    silent(&mut world, "late");
    world.enable(other, ConfigBuilder::new().source("late"));
    let failing = world.flush(other, 100);
    let stats = world.stats(other);
    let flushes = |stats: &ferretto_proto::TraceStats| {
        [
            stats.flushes_requested,
            stats.flushes_succeeded,
            stats.flushes_failed,
        ]
        .map(Option::unwrap)
    };
    assert_eq!(flushes(&stats), [1, 0, 0], "the flush is pending");
    world.run_for(100);
    assert_eq!(world.flushed(other, failing), Some(false));
    assert_eq!(flushes(&world.stats(other)), [1, 0, 1]);
    assert_eq!(world.stats(other).invalid_packets, Some(0));
    let stats = world.stats(own);
    assert_eq!(flushes(&stats), [1, 1, 0]);
    assert_eq!(stats.invalid_packets, Some(1));
    assert_eq!(
        stats.chunk_payload_histogram_def,
        [8, 32, 128, 512, 1024, 2048, 4096, 8192, 12288, 16384]
    );
}

#[test]
fn statistics_are_in_the_trace_at_each_snapshot_and_at_the_end() {
    let mut world = World::new();
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new());
    let mut report_count = |what: &mut dyn FnMut(&mut World)| {
        what(&mut world);
        let packets = world.read(consumer);
        packets.iter().filter(|p| p.has(f::TRACE_STATS)).count()
    };
    assert_eq!(report_count(&mut |_| {}), 1);
    assert_eq!(report_count(&mut |_| {}), 0);
    assert_eq!(report_count(&mut |world| world.run_for(10_000)), 1);
    assert_eq!(report_count(&mut |_| {}), 0);
    assert_eq!(report_count(&mut |world| world.disable(consumer)), 1);
}

#[test]
fn writer_statistics_of_other_machines_have_the_ids_of_their_packets() {
    let mut world = World::new();
    let remote = world.producer_with(
        "r",
        Behaviour {
            machine_id: 7,
            shares_memory: false,
            ..Default::default()
        },
    );
    world.register(remote, "s");
    let local = world.producer("l");
    world.register(local, "s");
    let consumer = world.consumer();
    let config = ConfigBuilder::new()
        .source("s")
        .with(|c| c.trace_all_machines = Some(true));
    world.enable(consumer, config);
    for producer in [remote, local] {
        let mut writer = world.writer(producer);
        world.write(producer, &mut writer, &["text"]);
    }
    let packets = world.read(consumer);
    let mut written: Vec<_> = packets
        .iter()
        .filter(|packet| packet.is_data())
        .map(|packet| (packet.sequence(), packet.int(f::MACHINE_ID)))
        .collect();
    written.sort_unstable();
    assert_eq!(written.len(), 2);
    assert!(written.iter().any(|(_, machine)| *machine == Some(7)));
    let writers = world.stats(consumer).writer_stats;
    let mut counted: Vec<_> = writers.iter().map(|w| w.sequence_id.unwrap()).collect();
    counted.sort_unstable();
    let sequences: Vec<_> = written.iter().map(|(sequence, _)| *sequence).collect();
    assert_eq!(counted, sequences);
}

/// Returns the data sources in each report.
fn slow(packets: &[Packet], kind: u32) -> Vec<Vec<String>> {
    let reports = packets.iter().filter(|packet| packet.event() == Some(kind));
    let name = |source: &[u8]| {
        let field = Fields::find(2, source).unwrap();
        String::from_utf8(field.as_bytes().unwrap().to_vec()).unwrap()
    };
    let names = reports.map(|packet| {
        let event = packet.bytes(f::SERVICE_EVENT).unwrap();
        let list = Fields::find(kind, event).unwrap().as_bytes().unwrap();
        let sources = Fields::new(list).map(|field| field.unwrap());
        sources
            .map(|source| name(source.as_bytes().unwrap()))
            .collect()
    });
    names.collect()
}

#[test]
fn service_044_each_flush_of_a_clone_names_its_slow_sources() {
    let mut world = World::new();
    silent(&mut world, "kept");
    silent(&mut world, "moved");
    world.simple_producer("quick");
    let consumer = world.consumer();
    let config = ConfigBuilder::new()
        .buffer(8)
        .source_to("kept", 0)
        .source_to("moved", 1)
        .source_to("quick", 0)
        .with(|c| c.buffers[1].transfer_on_clone = Some(true));
    world.enable(consumer, config);
    let copy = clone(&mut world, 1);
    world.run_for(5000);
    let mut reports = slow(&world.read(copy), 8);
    reports.sort();
    assert_eq!(reports, [["kept"], ["moved"]]);
    // The session itself also reports it, unless it flushes before it is read.
    world.flush(consumer, 1);
    assert!(slow(&world.read(consumer), 8).is_empty());
}

#[test]
fn service_036_at_most_32_slow_starters_are_named_once() {
    let mut world = World::new();
    let behaviour = Behaviour {
        confirms_start: false,
        ..Default::default()
    };
    let producer = world.producer_with("p", behaviour);
    let mut config = ConfigBuilder::new();
    for index in 0..40 {
        let name = format!("s{index:02}");
        let confirms = index > 0;
        world.register_with(producer, &name, |d| d.will_notify_on_start = Some(confirms));
        config = config.source(&name);
    }
    let consumer = world.consumer();
    world.enable(consumer, config);
    world.run_for(19_999);
    assert!(slow(&world.read(consumer), 7).is_empty());
    world.run_for(1);
    let reports = slow(&world.read(consumer), 7);
    assert_eq!(reports.len(), 1);
    assert_eq!(reports[0].len(), 32);
    assert_eq!(reports[0][0], "s01", "the first data source has started");
    world.run_for(60_000);
    assert!(slow(&world.read(consumer), 7).is_empty());
}

/// Returns the number of connections that were not served, as the statistics tell it.
fn turned_away(world: &mut World, consumer: ClientId) -> Option<u64> {
    let stats = world.stats(consumer).encode_to_vec();
    Fields::find(ferretto_format::TURNED_AWAY, &stats)?.as_u64()
}

#[test]
fn programs_that_could_not_connect_are_counted_in_the_recordings_of_that_time() {
    let mut world = World::new();
    let early = world.consumer();
    world.enable(early, ConfigBuilder::new().source("p"));
    assert_eq!(turned_away(&mut world, early), None);
    world.event(Event::TurnedAway { connections: 2 });
    let late = world.consumer();
    world.enable(late, ConfigBuilder::new().source("p"));
    world.event(Event::TurnedAway { connections: 1 });
    assert_eq!(turned_away(&mut world, early), Some(3));
    assert_eq!(turned_away(&mut world, late), Some(1));
    let copy = clone(&mut world, 1);
    assert_eq!(turned_away(&mut world, copy), Some(3));
    world.disable(early);
    world.run_for(10_000);
    world.event(Event::TurnedAway { connections: 1 });
    assert_eq!(turned_away(&mut world, early), Some(3));
    assert_eq!(turned_away(&mut world, late), Some(2));
}

#[test]
fn a_producer_that_is_cut_off_before_it_registers_is_counted() {
    let mut world = World::new();
    let consumer = world.consumer();
    world.enable(consumer, ConfigBuilder::new().source("p"));
    let registered = world.simple_producer("other");
    world.event(Event::CutOff { client: registered });
    assert_eq!(turned_away(&mut world, consumer), None);
    let unregistered = world.producer_with("p", Behaviour::default());
    world.event(Event::CutOff {
        client: unregistered,
    });
    world.event(Event::CutOff { client: consumer });
    assert_eq!(turned_away(&mut world, consumer), Some(1));
}
