//! A service, an honest producer, and producers whose memory another process constantly rewrites.
//!
//! The short run does a fixed amount of work. The long run uses two processors for a minute:
//! `cargo test -p ferretto-service --test hostile -- --ignored --nocapture a_minute`
//! (`HOSTILE_SECONDS` changes the duration).
#![allow(unreachable_pub)]

mod attacker;
mod checklist;
#[path = "../service/world/mod.rs"]
mod world;

use std::time::{Duration, Instant};

use attacker::Attacker;
use ferretto_ipc::port::producer::Request;
use ferretto_proto::commit_data_request::chunk_to_patch::Patch;
use ferretto_proto::commit_data_request::{ChunkToPatch, ChunksToMove};
use ferretto_proto::fields::trace_packet;
use ferretto_proto::{CommitDataRequest, RegisterTraceWriterRequest};
use ferretto_service::ClientId;
use ferretto_shm::TraceWriter;
use ferretto_testing::Random;
use ferretto_wire::decode_varint;
use world::{Behaviour, ConfigBuilder, Packet, TEST_FIELD, World};

const MEMORY: usize = 256 * 1024;
const PAGES: u64 = MEMORY as u64 / 4096;
const HONEST_UID: u32 = 2000;
const HOSTILE_UID: u32 = 666;

/// The number of packets that the honest producer writes in a round.
const PACKETS: usize = 40;

struct Fight {
    world: World,
    consumer: ClientId,
    honest: ClientId,
    hostile: Vec<ClientId>,
    /// Kept alive: the processes end when they are dropped.
    _attackers: Vec<Attacker>,
    writer: TraceWriter,
    random: Random,
    written: usize,
    read: usize,
    foreign: usize,
}

impl Fight {
    fn new(attackers: u64) -> Self {
        let mut world = World::new();
        let honest = world.producer_with("honest", behaviour(HONEST_UID, None));
        world.register(honest, "honest");
        let hostile: Vec<_> = (0..attackers)
            .map(|_| {
                let client = world.producer_with("hostile", behaviour(HOSTILE_UID, Some(MEMORY)));
                world.register(client, "hostile");
                client
            })
            .collect();
        let consumer = world.consumer();
        // One buffer for all, large enough for all packets between two reads.
        let config = ConfigBuilder::default().buffer(8192);
        world.enable(consumer, config.source("honest").source("hostile"));
        let mut seed = 0;
        let attackers = hostile
            .iter()
            .map(|client| {
                let region = world.producers[client]
                    .region
                    .clone()
                    .expect("it brought some");
                seed += 1;
                Attacker::start(&region, seed)
            })
            .collect();
        let writer = world.writer(honest);
        Self {
            world,
            consumer,
            honest,
            hostile,
            _attackers: attackers,
            writer,
            random: Random(99),
            written: 0,
            read: 0,
            foreign: 0,
        }
    }

    /// Runs a round: the hostile producers send arbitrary requests, the honest one writes, and
    /// sometimes all are scraped.
    fn round(&mut self, number: u64) {
        for client in self.hostile.clone() {
            for request in self.lies() {
                self.world.produce(client, request);
            }
        }
        for _ in 0..PACKETS {
            self.writer
                .new_packet()
                .string(TEST_FIELD, &text(self.written));
            self.written += 1;
        }
        self.writer.flush(None);
        self.world.commit(self.honest);
        assert_eq!(self.writer.drop_count(), 0, "others are not blocked");
        if number.is_multiple_of(4) {
            let id = self.world.flush(self.consumer, 1000);
            self.world.run_for(10);
            assert!(self.world.is_answered(self.consumer, id));
            self.collect();
        }
    }

    /// Returns requests with any chunk, in order or not, that patch anything, as any writer.
    fn lies(&mut self) -> Vec<Request> {
        let random = &mut self.random;
        let moves = (0..PAGES).map(|page| ChunksToMove {
            page: Some(if random.one_in(4) {
                random.next() as u32 % 80
            } else {
                page as u32
            }),
            chunk: Some(if random.one_in(2) {
                0
            } else {
                random.next() as u32 % 16
            }),
            target_buffer: Some(if random.one_in(16) {
                random.next() as u32 % 5
            } else {
                1
            }),
            ..Default::default()
        });
        let chunks_to_move = moves.collect();
        let patches = (0..8).map(|_| ChunkToPatch {
            target_buffer: Some(1),
            writer_id: Some(1 + random.next() as u32 % 4),
            chunk_id: Some(random.next() as u32 % 64),
            patches: (0..random.next() % 4)
                .map(|_| Patch {
                    offset: Some(random.next() as u32 % 5000),
                    data: Some(random.next().to_le_bytes()[..4].to_vec()),
                    ..Default::default()
                })
                .collect(),
            has_more_patches: Some(random.one_in(2)),
            ..Default::default()
        });
        let commit = CommitDataRequest {
            chunks_to_move,
            chunks_to_patch: patches.collect(),
            flush_request_id: random.one_in(8).then(|| random.next() % 1000),
            ..Default::default()
        };
        let register = RegisterTraceWriterRequest {
            trace_writer_id: Some(1 + random.next() as u32 % 4),
            target_buffer: Some(1),
            ..Default::default()
        };
        vec![
            Request::RegisterTraceWriter(register),
            Request::CommitData(commit),
        ]
    }

    /// Reads all packets, and checks them.
    fn collect(&mut self) {
        for packet in self.world.read(self.consumer) {
            match trusted_uid(&packet.0) {
                Some(uid) if uid == u64::from(HONEST_UID) => self.check_honest(&packet),
                Some(uid) if uid == u64::from(HOSTILE_UID) => self.foreign += 1,
                _ => assert!(!packet.is_data(), "{packet:?} has an unknown writer"),
            }
        }
        // The test's own record of messages is not part of the measurement.
        self.world
            .consumers
            .get_mut(&self.consumer)
            .unwrap()
            .answers
            .clear();
        for producer in self.world.producers.values_mut() {
            producer.replies.clear();
            producer.commands.retain(|_| false);
        }
    }

    fn check_honest(&mut self, packet: &Packet) {
        assert_eq!(packet.bytes(TEST_FIELD), Some(text(self.read).as_bytes()));
        // Losses before the first packet of a sequence are not known.
        let loss = u64::from(self.read == 0);
        assert_eq!(packet.loss(), loss, "packet {}", self.read);
        self.read += 1;
    }

    fn finish(mut self) {
        self.collect();
        assert_eq!(
            self.read, self.written,
            "every honest packet arrived, in order"
        );
        println!(
            "{} honest packets, {} hostile ones",
            self.read, self.foreign
        );
        assert!(
            self.foreign > 0,
            "the attack is realistic enough to get packets stored"
        );
    }
}

fn behaviour(uid: u32, brings: Option<usize>) -> Behaviour {
    Behaviour {
        uid,
        brings,
        page_hint: 4096,
        scraping: Some(true),
        ..Behaviour::default()
    }
}

/// Returns the writer of a packet as stated by the service in its last field. Hostile packets are
/// only well-formed as far as the service checks them; like upstream's, it passes nested field
/// numbers that do not exist.
fn trusted_uid(mut packet: &[u8]) -> Option<u64> {
    let mut uid = None;
    let varint = |packet: &mut &[u8]| {
        let (value, width) = decode_varint(packet).expect("a varint");
        *packet = &packet[width..];
        value
    };
    while !packet.is_empty() {
        let key = varint(&mut packet);
        let length = match key & 7 {
            0 => {
                let value = varint(&mut packet);
                if key >> 3 == u64::from(trace_packet::TRUSTED_UID) {
                    uid = Some(value);
                }
                0
            }
            1 => 8,
            2 => varint(&mut packet),
            _ => 4,
        };
        packet = &packet[length as usize..];
    }
    uid
}

/// Returns a packet of the honest producer, with one of many lengths, and recognisable in every
/// byte.
fn text(number: usize) -> String {
    let letter = char::from(b'a' + (number % 26) as u8);
    format!("{number}:{}", letter.to_string().repeat(number * 37 % 600))
}

#[test]
fn shm_052_and_tracebuf_050_memory_rewritten_by_another_process_harms_nobody_else() {
    let mut fight = Fight::new(1);
    (0..200).for_each(|number| fight.round(number));
    fight.finish();
}

#[test]
#[ignore = "takes a minute and every processor; see the top of this file"]
fn shm_052_a_minute_of_memory_rewritten_by_two_processes() {
    let seconds = std::env::var("HOSTILE_SECONDS")
        .ok()
        .and_then(|value| value.parse().ok());
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(60));
    let mut fight = Fight::new(2);
    let mut rounds = 0;
    let mut run_until = |end: Instant| {
        while Instant::now() < end {
            fight.round(rounds);
            rounds += 1;
        }
        resident_kb()
    };
    let warm = run_until(end - Duration::from_secs(seconds.unwrap_or(60)) * 3 / 4);
    let last = run_until(end);
    println!(
        "{rounds} rounds, {warm} KiB resident after a quarter of the time, {last} KiB at the end"
    );
    assert!(last < warm + 16 * 1024, "memory stays flat");
    fight.finish();
}

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let value = line.and_then(|line| line.split_whitespace().next());
    value
        .and_then(|value| value.parse().ok())
        .expect("a number")
}
