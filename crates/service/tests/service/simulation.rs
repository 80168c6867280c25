//! Lives of services under random clients: many short ones from consecutive seeds.
//!
//! Replays with `SERVICE_SEED=n cargo test -p ferretto-service simulation`, which runs that one
//! life; `SERVICE_LIVES=n` runs n of them.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use ferretto_ipc::port::consumer::{Reply, Request};
use ferretto_ipc::port::producer::Request as Produce;
use ferretto_proto::clone_session_request::Selector;
use ferretto_proto::commit_data_request::chunk_to_patch::Patch;
use ferretto_proto::commit_data_request::{ChunkToPatch, ChunksToMove};
use ferretto_proto::fields::trace_packet;
use ferretto_proto::observable_events::Type;
use ferretto_proto::trace_config::WriteFlushMode;
use ferretto_proto::trace_config::buffer_config::{ExperimentalMode, FillPolicy};
use ferretto_proto::trace_config::trigger_config::{Trigger, TriggerMode};
use ferretto_proto::{
    ActivateTriggersRequest, AttachRequest, ChangeTraceConfigRequest, CloneSessionRequest,
    CommitDataRequest, DetachRequest, NotifyDataSourceStoppedRequest, ObserveEventsRequest,
};
use ferretto_service::ClientId;
use ferretto_shm::TraceWriter;

use crate::world::pipeline::{self as filtering, SIMPLE};
use crate::world::{Behaviour, ConfigBuilder, Packet, TEST_FIELD, World, split_file};

const STEPS: u64 = 300;
const LIVES: u64 = 100;

/// What the lives consisted of.
#[derive(Debug, Default)]
struct Tally {
    sessions: u64,
    files: u64,
    packets: u64,
    gaps: u64,
    written: u64,
    reads: u64,
    clones: u64,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.files += other.files;
        self.packets += other.packets;
        self.gaps += other.gaps;
        self.written += other.written;
        self.reads += other.reads;
        self.clones += other.clones;
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> Option<T> {
        if items.is_empty() {
            None
        } else {
            Some(items[self.below(items.len() as u64) as usize])
        }
    }
}

struct Writer {
    producer: ClientId,
    name: String,
    count: u64,
    writer: TraceWriter,
}

struct Life {
    world: World,
    random: Random,
    writers: Vec<Writer>,
    /// Reads under way, by consumer.
    reads: BTreeMap<ClientId, u64>,
    /// The last count of each writer that a consumer's session was seen to hold.
    seen: BTreeMap<ClientId, BTreeMap<String, u64>>,
    /// Requests that must be answered in the end.
    requests: Vec<(ClientId, u64)>,
    tally: Tally,
}

#[test]
fn simulation_of_many_lives() {
    let number = |name| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    match number("SERVICE_SEED") {
        Some(seed) => println!("{:?}", Life::new(seed).live()),
        None => {
            let mut tally = Tally::default();
            let lives = number("SERVICE_LIVES").unwrap_or(LIVES);
            for seed in 0..lives {
                let life = std::panic::catch_unwind(|| Life::new(seed).live());
                tally.add(&life.unwrap_or_else(|_| panic!("replay with SERVICE_SEED={seed}")));
            }
            println!("{tally:?}");
            // The lives are worth living.
            assert!(tally.packets > 20 * lives && tally.gaps > lives / 2 && tally.files > lives);
        }
    }
}

impl Life {
    fn new(seed: u64) -> Self {
        Self {
            world: World::new(),
            random: Random(seed),
            writers: Vec::new(),
            reads: BTreeMap::new(),
            seen: BTreeMap::new(),
            requests: Vec::new(),
            tally: Tally::default(),
        }
    }

    fn live(mut self) -> Tally {
        for _ in 0..2 {
            self.connect_consumer();
            self.connect_producer();
        }
        for _ in 0..STEPS {
            self.step();
        }
        self.end()
    }

    fn step(&mut self) {
        match self.random.below(50) {
            0 => self.connect_producer(),
            1 if self.random.chance(2) => self.disconnect_producer(),
            2 | 3 => self.register(),
            4 => self.connect_consumer(),
            5 if self.random.chance(4) => self.disconnect_consumer(),
            6..=9 => self.enable(),
            10 | 11 => self.control(Request::StartTracing(Default::default())),
            12 => self.control(Request::DisableTracing(Default::default())),
            13 => self.free(),
            14 => self.flush(),
            15..=18 => self.read(),
            19 => self.ask(),
            20 if self.random.chance(3) => self.attach_or_detach(),
            21..=24 => self.create_writer(),
            25..=40 => self.write(),
            41 => self.hostile_commit(),
            42 => self.hostile_call(),
            43 => self.world.memory_available = !self.random.chance(8),
            44 => self.stick(),
            45 => self.world.slow = self.random.chance(2),
            46 if self.random.chance(2) => self.clone_session(),
            46 => self.world.copies = !self.random.chance(4),
            _ => {
                let ms = [1, 10, 100, 1000, 6000][self.random.below(5) as usize];
                self.world.run_for(ms);
                self.world.deliver_late();
                self.finish_reads();
            }
        }
    }

    fn producers(&self) -> Vec<ClientId> {
        self.world.producers.keys().copied().collect()
    }

    fn consumer(&mut self) -> Option<ClientId> {
        let consumers: Vec<_> = self.world.consumers.keys().copied().collect();
        self.random.pick(&consumers)
    }

    fn producer(&mut self) -> Option<ClientId> {
        let producers = self.producers();
        self.random.pick(&producers)
    }

    fn connect_producer(&mut self) {
        let r = &mut self.random;
        let behaviour = Behaviour {
            shares_memory: !r.chance(4),
            machine_id: u32::from(r.chance(5)),
            scraping: [None, Some(true), Some(false)][r.below(3) as usize],
            size_hint: 4096 << r.below(7),
            page_hint: 4096 << r.below(2),
            confirms_start: !r.chance(4),
            confirms_stop: !r.chance(4),
            confirms_flush: !r.chance(4),
            opens_stream: !r.chance(8),
            ..Behaviour::default()
        };
        let name = format!("p{}", r.below(3));
        let producer = self.world.producer_with(&name, behaviour);
        for _ in 0..self.random.below(4) {
            self.register_at(producer);
        }
    }

    fn disconnect_producer(&mut self) {
        if let Some(producer) = self.producer() {
            self.world.disconnect(producer);
            self.forget_writers(producer);
        }
    }

    /// Writers of a process that is gone: nothing of them is heard of again.
    fn forget_writers(&mut self, producer: ClientId) {
        let (gone, left) = std::mem::take(&mut self.writers)
            .into_iter()
            .partition(|w| w.producer == producer);
        self.writers = left;
        let gone: Vec<Writer> = gone;
        gone.into_iter()
            .for_each(|writer| std::mem::forget(writer.writer));
    }

    fn register(&mut self) {
        if let Some(producer) = self.producer() {
            self.register_at(producer);
        }
    }

    fn register_at(&mut self, producer: ClientId) {
        let name = format!("s{}", self.random.below(4));
        if self.random.chance(4) {
            return self.world.unregister(producer, &name);
        }
        let bits = self.random.next();
        self.world.register_with(producer, &name, |descriptor| {
            descriptor.will_notify_on_start = Some(bits & 1 != 0);
            descriptor.will_notify_on_stop = Some(bits & 2 != 0);
            descriptor.no_flush = Some(bits & 12 == 0);
            descriptor.handles_incremental_state_clear = Some(bits & 16 != 0);
        });
    }

    fn connect_consumer(&mut self) {
        if self.world.consumers.len() < 6 {
            let uid = self.random.below(2) as u32;
            self.world.consumer_of(uid);
        }
    }

    fn disconnect_consumer(&mut self) {
        if let Some(consumer) = self.consumer() {
            self.forget_consumer(consumer);
            self.world.disconnect(consumer);
        }
    }

    fn forget_consumer(&mut self, consumer: ClientId) {
        self.reads.remove(&consumer);
        self.seen.remove(&consumer);
        self.requests.retain(|(client, _)| *client != consumer);
    }

    fn enable(&mut self) {
        let Some(consumer) = self.consumer() else {
            return;
        };
        let r = &mut self.random;
        let mut config = ConfigBuilder::default();
        let buffers = 1 + r.below(3) as u32;
        for _ in 0..buffers {
            config = config.buffer([4, 16, 64, 256][r.below(4) as usize]);
        }
        for _ in 0..r.below(5) {
            let buffer = r.below(u64::from(buffers)) as u32;
            config = config.source_to(&format!("s{}", r.below(4)), buffer);
        }
        let (bits, period) = (r.next(), 100 + r.below(3000) as u32);
        let into_file = bits & 0x30 == 0;
        let config = config.with(|c| {
            for buffer in &mut c.buffers {
                buffer.experimental_mode = Some(ExperimentalMode::TRACE_BUFFER_V2);
            }
            if bits & 0x300 == 0 {
                c.buffers[0].fill_policy = Some(FillPolicy::DISCARD);
            }
            c.deferred_start = Some(bits & 3 == 0);
            c.duration_ms = (bits & 0xc == 0).then_some(period * 2);
            c.write_into_file = Some(into_file);
            c.output_path = (bits & 0x40 == 0).then(|| b"out".to_vec());
            c.file_write_period_ms = Some(period);
            c.max_file_size_bytes = (bits & 0x180 == 0).then_some(20_000);
            c.write_flush_mode =
                (bits & 0x3000 == 0).then_some(WriteFlushMode::WRITE_FLUSH_ENABLED);
            c.flush_period_ms = (bits & 0xc00 == 0).then_some(period);
            match bits >> 32 & 7 {
                0 => filtering::deflate(c),
                1 => filtering::zstd(c, (bits >> 40 & 7) as i32 - 3),
                _ => {}
            }
            if bits >> 35 & 3 == 0 {
                let fields = [
                    (TEST_FIELD, SIMPLE),
                    (trace_packet::PREVIOUS_PACKET_DROPPED, SIMPLE),
                ];
                filtering::allow(c, &fields);
            }
            if bits >> 45 & 15 == 0 {
                let triggers = c.trigger_config.get_or_insert_default();
                triggers.trigger_mode = Some(match into_file {
                    true => TriggerMode::START_TRACING,
                    false => TriggerMode::STOP_TRACING,
                });
                triggers.use_clone_snapshot_if_available = Some(!into_file && bits >> 53 & 1 == 0);
                triggers.trigger_timeout_ms = Some(period * 3);
                triggers.triggers = vec![Trigger {
                    name: Some(b"t".to_vec()),
                    stop_delay_ms: Some(period),
                    ..Default::default()
                }];
                c.duration_ms = None;
            }
            for buffer in &mut c.buffers {
                buffer.transfer_on_clone = Some(bits >> 49 & 3 == 0);
                buffer.clear_before_clone = Some(bits >> 51 & 7 == 0);
            }
            c.exclusive_prio = (bits & 0xff_0000 == 0).then_some(1);
            c.trace_all_machines = Some(bits & 0x4000 != 0);
            c.incremental_state_config
                .get_or_insert_default()
                .clear_period_ms = Some(period);
        });
        let null: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
        let session = self.world.enable_into(consumer, config, null);
        self.tally.sessions += u64::from(!self.world.is_answered(consumer, session));
    }

    fn clone_session(&mut self) {
        let Some(consumer) = self.consumer() else {
            return;
        };
        let asker = self.world.consumer_of(0);
        let sessions = self.world.state(asker).tracing_sessions;
        self.world.disconnect(asker);
        let sessions: Vec<_> = sessions.iter().filter_map(|session| session.id).collect();
        let session = self.random.pick(&sessions).unwrap_or(0);
        let request = CloneSessionRequest {
            selector: Some(Selector::SessionId(session)),
            skip_trace_filter: Some(self.random.chance(2)),
            ..Default::default()
        };
        let fd: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
        let request = Request::CloneSession(request);
        let id = self.world.call_with(consumer, request, Some(fd));
        self.requests.push((consumer, id));
        self.seen.remove(&consumer);
    }

    fn control(&mut self, request: Request) {
        if let Some(consumer) = self.consumer() {
            let id = self.world.call(consumer, request);
            self.requests.push((consumer, id));
        }
    }

    fn free(&mut self) {
        let Some(consumer) = self.consumer() else {
            return;
        };
        self.world.free(consumer);
        self.seen.remove(&consumer);
    }

    fn flush(&mut self) {
        if let Some(consumer) = self.consumer() {
            let timeout = [0, 50, 500][self.random.below(3) as usize];
            let id = self.world.flush(consumer, timeout);
            self.requests.push((consumer, id));
        }
    }

    fn read(&mut self) {
        let Some(consumer) = self.consumer() else {
            return;
        };
        if !self.reads.contains_key(&consumer) {
            let id = self
                .world
                .call(consumer, Request::ReadBuffers(Default::default()));
            self.reads.insert(consumer, id);
        }
        self.finish_reads();
    }

    /// Looks at what finished reads returned.
    fn finish_reads(&mut self) {
        let reads: Vec<_> = self
            .reads
            .iter()
            .map(|(client, id)| (*client, *id))
            .collect();
        for (consumer, id) in reads {
            let ended = self
                .world
                .answers(consumer, id)
                .last()
                .is_some_and(|answer| !answer.1);
            if !ended {
                continue;
            }
            self.reads.remove(&consumer);
            if self
                .world
                .answers(consumer, id)
                .iter()
                .any(|answer| answer.0.is_none())
            {
                continue;
            }
            self.tally.reads += 1;
            let packets = unpacked(whole_packets(&self.world, consumer, id));
            let seen = self.seen.entry(consumer).or_default();
            check_order(&packets, seen, &mut self.tally);
        }
    }

    fn ask(&mut self) {
        let Some(consumer) = self.consumer() else {
            return;
        };
        let request = match self.random.below(5) {
            0 => Request::QueryServiceState(Default::default()),
            1 => Request::GetTraceStats(Default::default()),
            2 => Request::QueryCapabilities(Default::default()),
            3 => Request::ChangeTraceConfig(ChangeTraceConfigRequest {
                trace_config: ConfigBuilder::new().source("s1").0.into(),
                ..Default::default()
            }),
            _ => {
                let types = [
                    Type::TYPE_DATA_SOURCES_INSTANCES,
                    Type::TYPE_ALL_DATA_SOURCES_STARTED,
                ];
                let request = ObserveEventsRequest {
                    events_to_observe: types[..self.random.below(3) as usize].to_vec(),
                    ..Default::default()
                };
                self.world.call(consumer, Request::ObserveEvents(request));
                return;
            }
        };
        let id = self.world.call(consumer, request);
        self.requests.push((consumer, id));
    }

    fn attach_or_detach(&mut self) {
        let Some(consumer) = self.consumer() else {
            return;
        };
        let key = Some(vec![b'a' + self.random.below(2) as u8]);
        let request = if self.random.chance(2) {
            Request::Detach(DetachRequest {
                key,
                ..Default::default()
            })
        } else {
            Request::Attach(AttachRequest {
                key,
                ..Default::default()
            })
        };
        let id = self.world.call(consumer, request);
        self.requests.push((consumer, id));
        self.seen.remove(&consumer);
    }

    fn create_writer(&mut self) {
        let Some(producer) = self.producer() else {
            return;
        };
        if self.world.producers[&producer].arbiter.is_none()
            || self.world.setups(producer).is_empty()
            || self.writers.len() > 20
        {
            return;
        }
        let writer = self.world.writer(producer);
        let name = format!("{}/{}/{}", producer.0, writer.id(), self.random.next());
        self.writers.push(Writer {
            producer,
            name,
            count: 0,
            writer,
        });
    }

    fn write(&mut self) {
        if self.writers.is_empty() {
            return;
        }
        let index = self.random.below(self.writers.len() as u64) as usize;
        let size = [10, 100, 3000, 9000][self.random.below(4) as usize];
        let writer = &mut self.writers[index];
        for _ in 0..1 + self.random.below(5) {
            writer.count += 1;
            self.tally.written += 1;
            let text = format!("{} {} {}", writer.name, writer.count, "x".repeat(size));
            writer.writer.new_packet().string(TEST_FIELD, &text);
        }
        let producer = writer.producer;
        if self.random.chance(2) {
            writer.writer.flush(None);
        }
        match self.random.below(12) {
            0 => self.world.lose_commits(producer),
            1 | 2 => {}
            _ => self.world.commit(producer),
        }
        if self.random.chance(20) {
            let gone = self.writers.swap_remove(index);
            drop(gone.writer);
            self.world.commit(producer);
        }
    }

    /// A commit of nonsense. Its writers are none that a correct producer has.
    fn hostile_commit(&mut self) {
        let Some(producer) = self.producer() else {
            return;
        };
        let r = &mut self.random;
        let mut moves = Vec::new();
        for _ in 0..r.below(4) {
            let mut data: Vec<u8> = (0..r.below(40)).map(|_| r.next() as u8).collect();
            if let Some(writer) = data.get_mut(5) {
                *writer |= 0x40;
            }
            moves.push(ChunksToMove {
                page: Some(r.below(200) as u32),
                chunk: Some(14 + r.below(20) as u32),
                target_buffer: Some(r.below(20) as u32),
                data: (!r.chance(3)).then_some(data),
                chunk_incomplete: Some(r.chance(2)),
                ..Default::default()
            });
        }
        let patches = (0..r.below(4)).map(|_| Patch {
            offset: Some(r.below(5000) as u32),
            data: Some(vec![0xff; r.below(6) as usize]),
            ..Default::default()
        });
        let patches = ChunkToPatch {
            patches: patches.collect(),
            target_buffer: Some(r.below(20) as u32),
            writer_id: Some(0x4000 + r.below(0x8000) as u32),
            chunk_id: Some(r.below(20) as u32),
            has_more_patches: Some(r.chance(2)),
            ..Default::default()
        };
        let request = CommitDataRequest {
            chunks_to_move: moves,
            chunks_to_patch: vec![patches],
            flush_request_id: r.chance(2).then(|| r.below(100)),
            ..Default::default()
        };
        self.world.produce(producer, Produce::CommitData(request));
    }

    fn hostile_call(&mut self) {
        let Some(producer) = self.producer() else {
            return;
        };
        let data_source_id = Some(self.random.below(100));
        let request = match self.random.below(5) {
            0 => Produce::NotifyDataSourceStopped(NotifyDataSourceStoppedRequest {
                data_source_id,
                ..Default::default()
            }),
            1 => Produce::InitializeConnection(Default::default()),
            2 => Produce::Sync(Default::default()),
            3 => Produce::ActivateTriggers(ActivateTriggersRequest {
                trigger_names: vec![b"t".to_vec(), b"u".to_vec()],
                ..Default::default()
            }),
            _ => return self.world.open_stream(producer),
        };
        self.world.produce(producer, request);
    }

    fn stick(&mut self) {
        let Some(consumer) = self.consumer() else {
            return;
        };
        if self.random.chance(3) {
            self.world.consumers.get_mut(&consumer).unwrap().stuck = true;
        } else {
            self.world.unstick(consumer);
            self.finish_reads();
        }
    }

    /// Everybody reads, waits and leaves; then nothing may be left.
    fn end(mut self) -> Tally {
        let consumers: Vec<_> = self.world.consumers.keys().copied().collect();
        self.world.slow = false;
        self.world.deliver_late();
        for consumer in &consumers {
            self.world.unstick(*consumer);
        }
        self.world.run_for(60_000);
        self.finish_reads();
        assert!(self.reads.is_empty(), "a read never ended");
        for (consumer, request) in &self.requests {
            let answered = self.world.answers(*consumer, *request);
            assert!(
                answered.last().is_some_and(|a| !a.1),
                "a request was never answered"
            );
            if let Some((Some(Reply::CloneSession(reply)), _)) = answered.last() {
                self.tally.clones += u64::from(reply.success == Some(true));
            }
        }
        for consumer in consumers {
            self.world.disconnect(consumer);
        }
        for producer in self.producers() {
            self.world.disconnect(producer);
            self.forget_writers(producer);
        }
        // Detached sessions of unlimited duration wait for ever to be picked up.
        for uid in [0, 1] {
            for key in [b'a', b'b'] {
                let consumer = self.world.consumer_of(uid);
                let request = AttachRequest {
                    key: Some(vec![key]),
                    ..Default::default()
                };
                self.world.call(consumer, Request::Attach(request));
                self.world.disconnect(consumer);
            }
        }
        self.world.run_for(6000);
        assert_eq!(self.world.sessions(), 0);
        assert_eq!(self.world.service.poll_timeout(), None);
        for file in self.world.files.values() {
            assert!(file.closed);
            check_order(
                &unpacked(split_file(&file.bytes)),
                &mut BTreeMap::new(),
                &mut self.tally,
            );
            self.tally.files += 1;
        }
        self.tally
    }
}

/// The packets of a read. It may end within one, if the session was freed meanwhile.
fn whole_packets(world: &World, consumer: ClientId, request: u64) -> Vec<Packet> {
    let mut packets = Vec::new();
    let mut partial = Vec::new();
    for (reply, _) in world.answers(consumer, request) {
        let Some(Reply::ReadBuffers(reply)) = reply else {
            panic!("rejected")
        };
        for slice in &reply.slices {
            partial.extend_from_slice(slice.data.as_deref().unwrap());
            if slice.last_slice_for_packet == Some(true) {
                packets.push(Packet(std::mem::take(&mut partial)));
            }
        }
    }
    packets
}

/// The packets, also those inside compressed ones.
fn unpacked(packets: Vec<Packet>) -> Vec<Packet> {
    let inside = |packet: Packet| {
        let compressed = packet.has(trace_packet::COMPRESSED_PACKETS)
            || packet.has(trace_packet::ZSTD_COMPRESSED_PACKETS);
        match compressed {
            true => filtering::decompressed(&[packet]).1,
            false => vec![packet],
        }
    };
    packets.into_iter().flat_map(inside).collect()
}

/// Packets of a writer come in the order they were written in, and where some are missing the next
/// one says so.
fn check_order(packets: &[Packet], seen: &mut BTreeMap<String, u64>, tally: &mut Tally) {
    for packet in packets.iter().filter(|packet| packet.is_data()) {
        let Some(text) = packet.bytes(TEST_FIELD) else {
            continue;
        };
        let text = String::from_utf8_lossy(text).into_owned();
        let mut parts = text.split(' ');
        let (Some(name), Some(count)) = (parts.next(), parts.next()) else {
            continue;
        };
        let count: u64 = count.parse().expect("a count");
        let last = seen.insert(name.to_owned(), count);
        tally.packets += 1;
        if let Some(last) = last {
            assert!(count > last, "{name}: {count} after {last}");
            let accounted = count == last + 1 || packet.loss() != 0;
            tally.gaps += u64::from(count != last + 1);
            assert!(accounted, "{name}: {count} after {last} and nobody says so");
        }
    }
}
