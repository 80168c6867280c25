//! Recordings of a day in virtual time.

use ferretto_ipc::port::producer::Request;
use ferretto_proto::DataSourceDescriptor;
use ferretto_proto::fields::{trace_packet as f, tracing_service_event as event};
use ferretto_proto::get_async_command_response::Cmd;
use ferretto_proto::trace_config::WriteFlushMode;
use ferretto_proto::trace_config::buffer_config::ExperimentalMode;
use ferretto_service::{ClientId, Inventory};
use ferretto_shm::TraceWriter;

use crate::file::null;
use crate::world::{ConfigBuilder, MS, Packet, TEST_FIELD, World, split_file};

const HOUR_MS: u64 = 3_600_000;
const DAY_HOURS: u64 = 24;
/// `TracePacket.SEQ_INCREMENTAL_STATE_CLEARED` and `SEQ_NEEDS_INCREMENTAL_STATE`.
const CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;

fn repeats_state(descriptor: &mut DataSourceDescriptor) {
    descriptor.handles_incremental_state_clear = Some(true);
}

/// Returns a producer with a data source that repeats its incremental state on request.
fn producer(world: &mut World) -> ClientId {
    let producer = world.producer("p");
    world.register_with(producer, "p", repeats_state);
    producer
}

/// Returns the number of commands to flush and to clear since the last call.
fn commands(world: &mut World, producer: ClientId) -> (usize, usize) {
    let known = world.producers.get_mut(&producer).unwrap();
    let commands = std::mem::take(&mut known.commands);
    let count = |wanted: fn(&Cmd) -> bool| commands.iter().filter(|c| wanted(c)).count();
    (
        count(|command| matches!(command, Cmd::Flush(_))),
        count(|command| matches!(command, Cmd::ClearIncrementalState(_))),
    )
}

/// Returns the memory of the service in bytes, according to its debug output.
fn footprint(world: &World) -> usize {
    format!("{:?}", world.service).len()
}

#[test]
fn a_day_into_a_file_keeps_its_periods_and_its_memory() {
    const FLUSH_MS: u64 = 30_000;
    const CLEAR_MS: u64 = 60_000;
    let mut world = World::new();
    // Between two multiples of each period, so that drift would be visible.
    world.advance(1234 * MS + 567);
    let producer = producer(&mut world);
    let consumer = world.consumer();
    let config = ConfigBuilder::default().buffer(16).source("p").with(|c| {
        c.write_into_file = Some(true);
        c.buffers[0].experimental_mode = Some(ExperimentalMode::TRACE_BUFFER_V2);
        c.file_write_period_ms = Some(10_000);
        c.flush_period_ms = Some(FLUSH_MS as u32);
        c.write_flush_mode = Some(WriteFlushMode::WRITE_FLUSH_DISABLED);
        let state = c.incremental_state_config.get_or_insert_default();
        state.clear_period_ms = Some(CLEAR_MS as u32);
    });
    let session = world.enable_into(consumer, config, null());
    let mut writer = world.writer(producer);
    let (mut sizes, mut held, mut prints) = (Vec::new(), Vec::new(), Vec::new());
    for hour in 0..DAY_HOURS {
        for minute in 0..60 {
            let text = format!("{:05}", hour * 60 + minute);
            world.write(producer, &mut writer, &[&text]);
            world.run_for(60_000);
        }
        let per_hour = |period| (HOUR_MS / period) as usize;
        let expected = (per_hour(FLUSH_MS), per_hour(CLEAR_MS));
        assert_eq!(commands(&mut world, producer), expected, "hour {hour}");
        sizes.push(world.files.values().next().unwrap().bytes.len());
        held.push(world.service.inventory());
        prints.push(footprint(&world));
    }
    // All hours have the same counts; their printed form may grow by a digit.
    assert!(held.iter().all(|hour| *hour == held[0]), "{held:?}");
    // Measured after the ring has been filled once.
    let (early, late) = (prints[11], prints[23]);
    assert!(late < early + early / 50, "{prints:?}");
    let hour = |index: usize| sizes[index] - sizes[index - 1];
    assert!(hour(23).abs_diff(hour(2)) < hour(2) / 50, "{sizes:?}");

    world.disable(consumer);
    assert_eq!(world.ended(consumer, session).as_deref(), Some(""));
    let packets = split_file(&world.files.values().next().unwrap().bytes);
    let texts: Vec<_> = crate::world::texts(&packets);
    let expected: Vec<_> = (0..DAY_HOURS * 60).map(|n| format!("{n:05}")).collect();
    assert_eq!(texts, expected);
    assert!(packets.iter().all(|packet| packet.loss() == 0));
    check_periods(&packets, event::FLUSH_STARTED, FLUSH_MS);
    world.disconnect(consumer);
    world.disconnect(producer);
    assert_eq!(world.service.inventory(), Inventory::default());
}

/// Checks that events of this kind are at multiples of the period, complete and in time.
fn check_periods(packets: &[Packet], kind: u32, period_ms: u64) {
    let events = packets.iter().filter(|p| p.event() == Some(kind));
    let times: Vec<u64> = events.map(|p| p.int(f::TIMESTAMP).unwrap()).collect();
    assert_eq!(times.len() as u64, DAY_HOURS * HOUR_MS / period_ms);
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(gaps.clone().all(|gap| gap == period_ms * MS), "{times:?}");
    assert!(
        times
            .iter()
            .all(|time| (time / MS).is_multiple_of(period_ms))
    );
}

/// Writes names once and then only their ids, as track events do.
struct Interning {
    writer: TraceWriter,
    written: u64,
    reported: bool,
}

impl Interning {
    fn write(&mut self) {
        let flags = if std::mem::replace(&mut self.reported, true) {
            NEEDS_STATE
        } else {
            CLEARED | NEEDS_STATE
        };
        let mut packet = self.writer.new_packet();
        packet.varint(f::SEQUENCE_FLAGS, flags);
        packet.varint(f::TIMESTAMP, self.written);
        packet.bytes(TEST_FIELD, &[b'x'; 100]);
        drop(packet);
        self.written += 1;
    }
}

#[test]
fn a_ring_after_a_day_is_readable_from_the_first_repeated_state() {
    const CLEAR_MS: u64 = 20_000;
    const WRITE_MS: u64 = 2000;
    let mut world = World::new();
    let producer = producer(&mut world);
    let consumer = world.consumer();
    let config = ConfigBuilder::default().buffer(64).source("p").with(|c| {
        let state = c.incremental_state_config.get_or_insert_default();
        state.clear_period_ms = Some(CLEAR_MS as u32);
    });
    world.enable(consumer, config);
    let writer = world.writer(producer);
    let mut interning = Interning {
        writer,
        written: 0,
        reported: false,
    };
    for _ in 0..DAY_HOURS * HOUR_MS / WRITE_MS {
        interning.write();
        if interning.written.is_multiple_of(4) {
            interning.writer.flush(None);
            world.commit(producer);
        }
        world.run_for(WRITE_MS);
        let (_, clears) = commands(&mut world, producer);
        interning.reported &= clears == 0;
    }
    interning.writer.flush(None);
    world.commit(producer);
    world.produce(producer, Request::Sync(Default::default()));

    let stats = world.stats(consumer).buffer_stats[0].clone();
    assert!(stats.write_wrap_count.unwrap() > 50, "{stats:?}");
    let packets = world.read(consumer);
    let data: Vec<_> = packets.iter().filter(|packet| packet.is_data()).collect();
    let flags = |packet: &Packet| packet.int(f::SEQUENCE_FLAGS).unwrap();
    // Packets before the first repetition need overwritten state, and report a loss.
    let first = data.iter().position(|p| flags(p) & CLEARED != 0).unwrap();
    let repeats = (CLEAR_MS / WRITE_MS) as usize;
    assert!(first <= repeats, "{first} packets cannot be read");
    assert_ne!(data[0].loss(), 0);
    let readable = &data[first..];
    assert!(readable.len() > 5 * repeats, "{} packets", readable.len());
    // From there on the trace is complete, and the state is repeated as often as requested.
    let numbers: Vec<u64> = readable
        .iter()
        .map(|p| p.int(f::TIMESTAMP).unwrap())
        .collect();
    let to_the_end = numbers[0]..interning.written;
    assert_eq!(numbers, to_the_end.collect::<Vec<_>>());
    let cleared = readable.iter().filter(|p| flags(p) & CLEARED != 0).count();
    assert_eq!(cleared, readable.len().div_ceil(repeats));
}
