//! Clones: the current content of a session, which can be read while the session continues.

use ferretto_ipc::port::consumer::{Reply, Request};
use ferretto_proto::clone_session_request::Selector;
use ferretto_proto::fields::trace_packet as f;
use ferretto_proto::get_async_command_response::Cmd;
use ferretto_proto::trace_config::TriggerConfig;
use ferretto_proto::trace_config::trigger_config::{Trigger, TriggerMode};
use ferretto_proto::trace_stats::FinalFlushOutcome;
use ferretto_proto::{
    ActivateTriggersRequest, CloneSessionRequest, CloneSessionResponse, Message, TraceUuid,
    Trigger as TriggerPacket,
};
use ferretto_service::ClientId;
use ferretto_shm::TraceWriter;
use ferretto_wire::Fields;

use crate::file::null;
use crate::world::pipeline::allow;
use crate::world::{Behaviour, ConfigBuilder, Packet, TEST_FIELD, World, texts};

pub fn by_id(id: u64) -> CloneSessionRequest {
    CloneSessionRequest {
        selector: Some(Selector::SessionId(id)),
        ..Default::default()
    }
}

pub fn by_name(name: &str) -> CloneSessionRequest {
    CloneSessionRequest {
        selector: Some(Selector::UniqueSessionName(name.into())),
        ..Default::default()
    }
}

/// Requests a clone with a descriptor, as upstream's client always does.
pub fn ask(world: &mut World, client: ClientId, request: CloneSessionRequest) -> u64 {
    world.call_with(client, Request::CloneSession(request), Some(null()))
}

pub fn cloned(world: &World, client: ClientId, request: u64) -> CloneSessionResponse {
    match world.answer(client, request) {
        Some(Reply::CloneSession(reply)) => reply.clone(),
        other => panic!("unexpected reply {other:?}"),
    }
}

/// Makes a clone for a new consumer.
pub fn clone(world: &mut World, request: CloneSessionRequest) -> (ClientId, CloneSessionResponse) {
    let reader = world.consumer();
    let id = ask(world, reader, request);
    let reply = cloned(world, reader, id);
    assert_eq!(reply.success, Some(true), "{reply:?}");
    (reader, reply)
}

pub fn refusal(world: &mut World, client: ClientId, request: CloneSessionRequest) -> String {
    let id = ask(world, client, request);
    refused(world, client, id)
}

pub fn refused(world: &World, client: ClientId, id: u64) -> String {
    let reply = cloned(world, client, id);
    assert_eq!(reply.success, Some(false));
    String::from_utf8(reply.error.unwrap()).unwrap()
}

pub fn named(name: &str) -> ConfigBuilder {
    ConfigBuilder::new()
        .source("p")
        .with(|c| c.unique_session_name = Some(name.into()))
}

pub struct Recording {
    pub world: World,
    pub producer: ClientId,
    pub consumer: ClientId,
    pub writer: TraceWriter,
}

pub fn record(config: ConfigBuilder) -> Recording {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    world.enable_into(consumer, config, null());
    Recording::new(world, producer, consumer)
}

impl Recording {
    /// Starts a recording, with a writer of this producer.
    pub fn new(world: World, producer: ClientId, consumer: ClientId) -> Self {
        let writer = world.writer(producer);
        Self {
            world,
            producer,
            consumer,
            writer,
        }
    }

    pub fn write(&mut self, text: &str) {
        self.world.write(self.producer, &mut self.writer, &[text]);
    }
}

fn uuid(packets: &[Packet]) -> TraceUuid {
    let uuid = packets
        .iter()
        .find_map(|packet| packet.bytes(f::TRACE_UUID));
    TraceUuid::decode_from_slice(uuid.unwrap()).unwrap()
}

/// Returns the times and fields of the lifecycle events.
fn events(packets: &[Packet]) -> Vec<(u32, u64)> {
    let number = |packet: &Packet| {
        let field = Fields::new(packet.bytes(f::SERVICE_EVENT)?).next()?.ok()?;
        Some((field.number, field.as_u64()?))
    };
    packets.iter().filter_map(number).collect()
}

pub fn outcome(packets: &[Packet]) -> Option<FinalFlushOutcome> {
    let stats = packets.last().unwrap().stats().expect("statistics");
    stats.final_flush_outcome
}

#[test]
fn service_072_a_clone_is_another_trace_of_the_same_data() {
    let mut r = record(named("s").with(|c| {
        c.trace_uuid_msb = Some(11);
        c.trace_uuid_lsb = Some(22);
    }));
    r.write("one");
    let (reader, reply) = clone(&mut r.world, by_name("s"));
    assert_eq!(reply.error.as_deref(), Some(&b""[..]));
    assert_eq!(reply.was_write_into_file, Some(false));
    assert_eq!(reply.uuid_lsb, Some(22));
    assert_ne!(reply.uuid_msb, Some(11));
    r.write("two");
    let packets = r.world.read(reader);
    assert_eq!(texts(&packets), ["one"]);
    let reported = uuid(&packets);
    assert_eq!(
        (reported.msb, reported.lsb),
        (reply.uuid_msb, reply.uuid_lsb)
    );
    assert_eq!(packets[0].kind(), f::CLOCK_SNAPSHOT);
    let reported: Vec<_> = events(&packets);
    let expected = [
        (2, 1),
        (1, 1),
        (9, 1),
        (3, 1),
        (3, 1),
        (10, 1),
        (11, 0),
        (5, 1),
        (4, 1),
    ];
    let sorted = |list: &[(u32, u64)]| {
        let mut list = list.to_vec();
        list.sort_unstable();
        list
    };
    assert_eq!(sorted(&reported), sorted(&expected));
    assert_eq!(
        outcome(&packets),
        Some(FinalFlushOutcome::FINAL_FLUSH_SUCCEEDED)
    );

    let state = r.world.state(r.consumer);
    let states: Vec<_> = state
        .tracing_sessions
        .iter()
        .map(|s| s.state.clone().unwrap())
        .collect();
    assert_eq!(states, [&b"STARTED"[..], b"CLONED_READ_ONLY"]);
    assert_eq!(texts(&r.world.read(r.consumer)), ["one", "two"]);
    r.world.disable(reader);
    r.world.free(reader);
    assert_eq!(r.world.sessions(), 1);
}

#[test]
fn the_flush_of_a_clone_has_the_reason_clone() {
    let mut r = record(named("s").with(|c| c.bugreport_score = Some(1)));
    clone(&mut r.world, by_name("s"));
    let request = CloneSessionRequest {
        for_bugreport: Some(true),
        ..by_name("s")
    };
    clone(&mut r.world, request);
    clone(&mut r.world, by_id(u64::MAX));
    let commands = r.world.producers[&r.producer].commands.iter();
    let flags = commands.filter_map(|command| match command {
        Cmd::Flush(flush) => flush.flags,
        _ => None,
    });
    assert_eq!(flags.collect::<Vec<_>>(), [0x13, 0x113, 0x113]);
}

#[test]
fn service_071_which_session_is_cloned() {
    let mut world = World::new();
    world.simple_producer("p");
    let consumers = [0, 1, 2].map(|_| world.consumer());
    for (consumer, (name, score)) in consumers.iter().zip([("a", 0), ("b", 5), ("c", 5)]) {
        let config = named(name).with(|c| {
            c.bugreport_score = Some(score);
            c.trace_uuid_lsb = Some(i64::from(name.as_bytes()[0]));
        });
        world.enable(*consumer, config);
    }
    let lsb = |world: &mut World, request| {
        let (reader, reply) = clone(world, request);
        world.disconnect(reader);
        reply.uuid_lsb.unwrap() as u8
    };
    assert_eq!(lsb(&mut world, by_id(1)), b'a');
    assert_eq!(lsb(&mut world, by_id(3)), b'c');
    assert_eq!(lsb(&mut world, by_name("b")), b'b');
    assert_eq!(
        lsb(&mut world, by_id(u64::MAX)),
        b'b',
        "the first of the best"
    );
    world.disable(consumers[1]);
    assert_eq!(lsb(&mut world, by_id(u64::MAX)), b'c');
    // A name never selects a clone, although the clone has it as well; its id does.
    let (reader, _) = clone(&mut world, by_name("a"));
    assert_eq!(lsb(&mut world, by_name("a")), b'a');
    let id = world
        .state(reader)
        .tracing_sessions
        .last()
        .unwrap()
        .id
        .unwrap();
    assert_eq!(lsb(&mut world, by_id(id)), b'a');
    world.free(consumers[0]);
    let (other, _) = (world.consumer(), ());
    assert_eq!(
        refusal(&mut world, other, by_name("a")),
        "Tracing session not found"
    );
    // Nor does the clone exclude a session of that name.
    let again = world.enable(consumers[0], named("a"));
    assert_eq!(world.ended(consumers[0], again), None);
}

#[test]
fn service_071_service_076_why_there_is_no_clone() {
    let mut r = record(named("s"));
    let reader = r.world.consumer();
    let world = &mut r.world;
    assert_eq!(
        refusal(world, reader, by_id(u64::MAX)),
        "No tracing sessions eligible for bugreport found"
    );
    for request in [
        by_id(99),
        by_id(0),
        by_name("other"),
        by_name(""),
        Default::default(),
    ] {
        assert_eq!(refusal(world, reader, request), "Tracing session not found");
    }
    let stranger = world.consumer_of(4242);
    assert_eq!(
        refusal(world, stranger, by_name("s")),
        "Not allowed to clone a session from another UID"
    );
    assert!(world.state(stranger).tracing_sessions.is_empty());
    let root = world.consumer_of(0);
    let id = ask(world, root, by_name("s"));
    assert_eq!(cloned(world, root, id).success, Some(true));
    assert_eq!(
        refusal(world, root, by_name("s")),
        "The consumer is already attached to another tracing session"
    );
    assert_eq!(world.sessions(), 2);
}

#[test]
fn clones_count_towards_the_limit_of_sessions() {
    let mut r = record(named("s"));
    for _ in 0..14 {
        clone(&mut r.world, by_name("s"));
    }
    let reader = r.world.consumer();
    assert_eq!(
        refusal(&mut r.world, reader, by_name("s")),
        "Too many concurrent tracing sesions (15)"
    );
    let other = r.world.consumer_of(77);
    let enabled = r.world.enable(other, ConfigBuilder::new());
    assert!(r.world.ended(other, enabled).unwrap().contains("(15)"));
}

#[test]
fn service_073_a_transferred_buffer_starts_empty_and_holds_nobody_up() {
    let mut world = World::new();
    let slow = Behaviour {
        confirms_flush: false,
        ..Default::default()
    };
    let producers = [world.producer_with("a", slow), world.simple_producer("b")];
    world.register(producers[0], "a");
    let consumer = world.consumer();
    let config = ConfigBuilder::new()
        .buffer(64)
        .source_to("a", 0)
        .source_to("b", 1)
        .with(|c| c.buffers[0].transfer_on_clone = Some(true));
    world.enable(consumer, config);
    let mut writers = producers.map(|producer| world.writer(producer));
    for (which, text) in [(0, "a1"), (1, "b1")] {
        world.write(producers[which], &mut writers[which], &[text]);
    }
    let reader = world.consumer();
    let begin = world.now.boottime;
    let id = ask(&mut world, reader, by_id(1));
    assert!(!world.is_answered(reader, id));
    for (which, text) in [(0, "a2"), (1, "b2")] {
        world.write(producers[which], &mut writers[which], &[text]);
    }
    world.run_for(2_000);
    assert_eq!(cloned(&world, reader, id).success, Some(true));
    let packets = world.read(reader);
    assert_eq!(texts(&packets), ["a1", "a2", "b1"]);
    assert_eq!(
        outcome(&packets),
        Some(FinalFlushOutcome::FINAL_FLUSH_FAILED)
    );
    let copied: Vec<_> = packets
        .iter()
        .filter(|packet| packet.event() == Some(11))
        .map(|packet| packet.int(f::TIMESTAMP).unwrap() - begin)
        .collect();
    assert_eq!(copied, [0, 2_000_000_000]);
    assert!(
        packets.iter().any(|packet| packet.event() == Some(8)),
        "the slow data source is reported"
    );
    for (which, text) in [(0, "a3"), (1, "b3")] {
        world.write(producers[which], &mut writers[which], &[text]);
    }
    assert_eq!(texts(&world.read(consumer)), ["a3", "b1", "b2", "b3"]);
}

#[test]
fn a_buffer_cleared_before_the_clone_contains_only_flushed_data() {
    let mut r = record(named("s").with(|c| {
        c.buffers[0].transfer_on_clone = Some(true);
        c.buffers[0].clear_before_clone = Some(true);
    }));
    r.write("old");
    r.writer.new_packet().string(TEST_FIELD, "new");
    r.writer.flush(None);
    let (reader, _) = clone(&mut r.world, by_name("s"));
    assert_eq!(texts(&r.world.read(reader)), ["new"]);
    assert!(texts(&r.world.read(r.consumer)).is_empty());
}

#[test]
fn service_075_sessions_that_do_not_run() {
    let mut r = record(named("s"));
    r.write("one");
    r.world.disable(r.consumer);
    let (reader, _) = clone(&mut r.world, by_name("s"));
    let packets = r.world.read(reader);
    assert_eq!(texts(&packets), ["one"]);
    assert_eq!(
        outcome(&packets),
        Some(FinalFlushOutcome::FINAL_FLUSH_FAILED)
    );
    // As stated above, it is still unread.
    assert_eq!(texts(&r.world.read(r.consumer)), ["one"]);
    let (reader, _) = clone(&mut r.world, by_name("s"));
    let packets = r.world.read(reader);
    assert!(texts(&packets).is_empty());
    assert_eq!(
        packets[0].kind(),
        f::CLOCK_SNAPSHOT,
        "even after the session was read"
    );
}

#[test]
fn service_075_a_session_that_is_freed_meanwhile() {
    let mut r = record(named("s"));
    r.world
        .producers
        .get_mut(&r.producer)
        .unwrap()
        .behaviour
        .confirms_flush = false;
    let readers = [r.world.consumer(), r.world.consumer()];
    let requests = readers.map(|reader| ask(&mut r.world, reader, by_name("s")));
    r.world.disconnect(readers[1]);
    r.world.free(r.consumer);
    assert_eq!(
        refused(&r.world, readers[0], requests[0]),
        "Original session ended"
    );
    r.world.run_for(60_000);
    assert_eq!(r.world.sessions(), 0);
}

#[test]
fn a_clone_contains_triggers_and_the_session_keeps_them() {
    let trigger = |name: &str| Trigger {
        name: Some(name.into()),
        stop_delay_ms: Some(60_000),
        ..Default::default()
    };
    let triggers = TriggerConfig {
        trigger_mode: Some(TriggerMode::STOP_TRACING),
        triggers: vec![trigger("t")],
        trigger_timeout_ms: Some(600_000),
        ..Default::default()
    };
    let mut r = record(named("s").with(|c| c.trigger_config = triggers.into()));
    r.write("one");
    let (early, _) = clone(&mut r.world, by_name("s"));
    assert_eq!(
        texts(&r.world.read(early)),
        ["one"],
        "even before the trigger"
    );
    let request = ActivateTriggersRequest {
        trigger_names: vec![b"t".to_vec()],
        ..Default::default()
    };
    let activate = ferretto_ipc::port::producer::Request::ActivateTriggers(request);
    r.world.produce(r.producer, activate.clone());
    let request = CloneSessionRequest {
        clone_trigger_name: Some(b"why".to_vec()),
        clone_trigger_producer_name: Some(b"who".to_vec()),
        clone_trigger_trusted_producer_uid: Some(5),
        clone_trigger_boot_time_ns: Some(6),
        clone_trigger_delay_ms: Some(7),
        ..by_name("s")
    };
    let (reader, _) = clone(&mut r.world, request);
    let received = |packets: &[Packet], field| {
        let found = packets.iter().filter_map(|packet| {
            let trigger = TriggerPacket::decode_from_slice(packet.bytes(field)?).unwrap();
            Some((packet.int(f::TIMESTAMP)?, trigger))
        });
        found.collect::<Vec<_>>()
    };
    let packets = r.world.read(reader);
    assert_eq!(received(&packets, f::TRIGGER).len(), 1);
    let (time, trigger) = &received(&packets, f::CLONE_SNAPSHOT_TRIGGER)[0];
    assert_eq!(*time, 6);
    assert_eq!(trigger.trigger_name.as_deref(), Some(&b"why"[..]));
    assert_eq!(trigger.producer_name.as_deref(), Some(&b"who"[..]));
    assert_eq!(
        (trigger.trusted_producer_uid, trigger.stop_delay_ms),
        (Some(5), Some(7))
    );
    let packets = r.world.read(r.consumer);
    assert_eq!(
        received(&packets, f::TRIGGER).len(),
        1,
        "the session still has its own"
    );
    assert_eq!(texts(&packets), ["one"]);
    // Clones have no further use for triggers.
    r.world.produce(r.producer, activate);
    assert!(received(&r.world.read(reader), f::TRIGGER).is_empty());
}

#[test]
fn a_clone_is_filtered_unless_the_request_skips_the_filter() {
    let config = || {
        named("s").with(|c| {
            c.bugreport_score = Some(1);
            allow(c, &[]);
        })
    };
    let mut r = record(config());
    r.write("secret");
    let mut holds = |request: CloneSessionRequest| {
        let (reader, _) = clone(&mut r.world, request);
        let packets = r.world.read(reader);
        packets.iter().any(|packet| packet.has(TEST_FIELD))
    };
    assert!(!holds(by_name("s")));
    assert!(holds(by_id(u64::MAX)));
    let unfiltered = CloneSessionRequest {
        skip_trace_filter: Some(true),
        ..by_name("s")
    };
    assert!(holds(unfiltered));
}
