//! Packets about to be overwritten are folded into a state. Numbers are those of
//! `docs/rules/protovm.md`.

use ferretto_proto::fields::{trace_packet as f, trace_provenance};
use ferretto_proto::trace_config::buffer_config::{ExperimentalMode, FillPolicy};
use ferretto_proto::{ProtoVmConfig, TraceConfig};
use ferretto_protovm::{Outcome, Program, Vm};
use ferretto_service::ClientId;
use ferretto_shm::TraceWriter;
use ferretto_wire::{Fields, encode};

use crate::cloning::{by_id, clone};
use crate::world::pipeline::{SIMPLE, allow};
use crate::world::{ConfigBuilder, Packet, TEST_FIELD, World, texts};

/// Fields of a TestEvent.
const PATCH: u32 = 6;
const STATE: u32 = 7;
const TEXT: u32 = 1;
const NUMBER: u32 = 2;

/// An instruction that selects this path and runs another, or a merge.
fn select(cursor: u64, path: &[u32], nested: Option<Vec<u8>>) -> Vec<u8> {
    encode(|instruction| {
        instruction.nested(1, |select| {
            select.varint(1, cursor);
            for field in path {
                select.nested(2, |component| component.varint(1, (*field).into()));
            }
            if cursor == 2 {
                select.bool(3, true);
            }
        });
        instruction.nested(7, |inner| match nested {
            Some(bytes) => inner.raw(&bytes),
            None => inner.nested(3, |_| {}),
        });
    })
}

/// Merges patches into the state of this field of the test event.
fn program_into(state: u32) -> Vec<u8> {
    let merge = select(2, &[TEST_FIELD, state], None);
    let instruction = select(1, &[TEST_FIELD, PATCH], Some(merge));
    encode(|program| {
        program.varint(1, 1);
        program.bytes(2, &instruction);
    })
}

fn program() -> Vec<u8> {
    program_into(STATE)
}

/// A packet with a patch of about a kilobyte.
fn patch(number: u64) -> Vec<u8> {
    encode(|packet| {
        packet.nested(TEST_FIELD, |event| {
            event.nested(PATCH, |patch| {
                patch.string(TEXT, &"x".repeat(1100));
                patch.varint(NUMBER, number);
            });
        });
    })
}

fn number_in(message: &[u8], path: [u32; 2]) -> Option<u64> {
    let [event, field] = path;
    let event = Fields::find(event, message)?.as_bytes()?;
    let inner = Fields::find(field, event)?.as_bytes()?;
    Fields::find(NUMBER, inner)?.as_u64()
}

/// The number of a patch that was read.
fn patch_number(packet: &Packet) -> Option<u64> {
    number_in(&packet.0, [TEST_FIELD, PATCH])
}

fn patch_numbers(packets: &[Packet]) -> Vec<u64> {
    packets.iter().filter_map(patch_number).collect()
}

/// One machine, as a trace tells of it.
#[derive(Debug, Clone, PartialEq)]
struct Instance {
    program: Vec<u8>,
    state: Vec<u8>,
    limit_kb: u64,
    producers: Vec<u64>,
}

impl Instance {
    /// The number in its state.
    fn number(&self) -> Option<u64> {
        number_in(&self.state, [TEST_FIELD, STATE])
    }
}

fn instances(packets: &[Packet]) -> Vec<Instance> {
    let with_vms: Vec<_> = packets.iter().filter(|p| p.has(f::PROTOVMS)).collect();
    assert!(with_vms.len() <= 1, "{with_vms:?}");
    let Some(packet) = with_vms.first() else {
        return Vec::new();
    };
    assert_eq!(packet.sequence(), 1);
    assert!(!packet.has(f::TIMESTAMP));
    let instances = Fields::new(packet.bytes(f::PROTOVMS).unwrap()).map(|field| field.unwrap());
    instances
        .map(|field| {
            let message = field.as_bytes().unwrap();
            let bytes = |field| Fields::find(field, message).unwrap().as_bytes().unwrap();
            let all = Fields::new(message).map(|field| field.unwrap());
            Instance {
                program: bytes(1).to_vec(),
                state: bytes(2).to_vec(),
                limit_kb: Fields::find(3, message).unwrap().as_u64().unwrap(),
                producers: all
                    .filter(|field| field.number == 4)
                    .map(|field| field.as_u64().unwrap())
                    .collect(),
            }
        })
        .collect()
}

/// A buffer of 4 kB that asks for everything a machine needs.
fn config() -> ConfigBuilder {
    ConfigBuilder::default().buffer(4).source("p").with(|c| {
        c.buffers[0].experimental_mode = Some(ExperimentalMode::TRACE_BUFFER_V2);
        wants_vm(c, Some(64));
    })
}

fn wants_vm(config: &mut TraceConfig, memory_limit_kb: Option<u32>) {
    for source in &mut config.data_sources {
        let source = source.config.get_or_insert_default();
        source.protovm_config = Some(ProtoVmConfig {
            memory_limit_kb,
            ..Default::default()
        })
        .into();
    }
}

fn producer_with(world: &mut World, name: &str, program: Vec<u8>) -> ClientId {
    let producer = world.producer(name);
    world.register_with(producer, "p", |d| d.protovm_program = Some(program));
    producer
}

struct Recording {
    world: World,
    producer: ClientId,
    consumer: ClientId,
    writer: TraceWriter,
}

fn record(config: impl Into<TraceConfig>) -> Recording {
    let mut world = World::new();
    let producer = producer_with(&mut world, "p", program());
    let consumer = world.consumer();
    world.enable(consumer, config);
    let writer = world.writer(producer);
    Recording {
        world,
        producer,
        consumer,
        writer,
    }
}

impl Recording {
    fn write(&mut self, packet: &[u8]) {
        write(&mut self.world, self.producer, &mut self.writer, packet);
    }

    fn write_patches(&mut self, numbers: std::ops::RangeInclusive<u64>) {
        numbers.for_each(|number| self.write(&patch(number)));
    }

    fn read(&mut self) -> Vec<Packet> {
        self.world.read(self.consumer)
    }
}

fn write(world: &mut World, producer: ClientId, writer: &mut TraceWriter, packet: &[u8]) {
    writer.new_packet().raw(packet);
    writer.flush(None);
    world.commit(producer);
}

#[test]
fn protovm_001_config_program_and_mode_make_a_machine() {
    let mut all = record(config());
    let trace = all.read();
    assert_eq!(
        instances(&trace),
        [Instance {
            program: program(),
            state: Vec::new(),
            limit_kb: 64,
            producers: vec![1],
        }]
    );
    assert!(all.world.problems.is_empty(), "{:?}", all.world.problems);
}

#[test]
fn protovm_001_without_one_of_them_there_is_none_and_the_session_works() {
    let told = |config: ConfigBuilder, with_program: bool| {
        let mut world = World::new();
        let producer = world.producer("p");
        world.register_with(producer, "p", |d| {
            d.protovm_program = with_program.then(program);
        });
        let consumer = world.consumer();
        world.enable(consumer, config);
        let mut writer = world.writer(producer);
        (1..=5).for_each(|n| write(&mut world, producer, &mut writer, &patch(n)));
        let trace = world.read(consumer);
        assert_eq!(instances(&trace), []);
        assert_eq!(patch_numbers(&trace), [3, 4, 5]);
        world.problems
    };
    let none = |c: &mut TraceConfig| {
        let source = c.data_sources[0].config.get_or_insert_default();
        source.protovm_config = None.into();
    };
    let beginning = "ProtoVM is not used for data source \"p\": ";
    for (problems, reason) in [
        (told(config(), false), "the producer has no program for it"),
        (
            told(config().with(none), true),
            "the config has no protovm_config for it",
        ),
        (
            told(config().with(|c| wants_vm(c, None)), true),
            "the protovm_config has no memory_limit_kb",
        ),
    ] {
        assert_eq!(problems, [format!("{beginning}{reason}")]);
    }
    assert!(told(config().with(none), false).is_empty());
    // No memory is a limit, too.
    let trace = record(config().with(|c| wants_vm(c, Some(0)))).read();
    assert_eq!(instances(&trace)[0].limit_kb, 0);
}

#[test]
fn protovm_002_a_buffer_of_the_older_mode_has_none() {
    let mut older = record(config().with(|c| c.buffers[0].experimental_mode = None));
    older.write_patches(1..=5);
    let trace = older.read();
    assert_eq!(instances(&trace), []);
    assert_eq!(patch_numbers(&trace), [3, 4, 5]);
    assert_eq!(
        older.world.problems,
        [
            "ProtoVM is not used for data source \"p\": its buffer is not in the mode TRACE_BUFFER_V2"
        ]
    );
}

#[test]
fn protovm_003_producers_of_one_program_share_a_machine() {
    let mut world = World::new();
    let other = program_into(8);
    let producers = [("a", program()), ("b", other.clone()), ("c", program())];
    let producers = producers.map(|(name, program)| producer_with(&mut world, name, program));
    let consumer = world.consumer();
    world.enable(consumer, config());
    let mut writers = producers.map(|producer| world.writer(producer));
    for number in 1..=6 {
        let index = (number - 1) as usize % 3;
        let packet = patch(number);
        write(&mut world, producers[index], &mut writers[index], &packet);
    }
    let found = instances(&world.read(consumer));
    let producers: Vec<_> = found.iter().map(|one| one.producers.clone()).collect();
    assert_eq!(producers, [vec![1, 3], vec![2]]);
    assert_eq!((&found[0].program, &found[1].program), (&program(), &other));
    assert_eq!(found[0].number(), Some(3));
    assert_eq!(number_in(&found[1].state, [TEST_FIELD, 8]), Some(2));
}

#[test]
fn protovm_003_names_and_buffers_have_machines_of_their_own() {
    let mut world = World::new();
    let producer = world.producer("p");
    for name in ["p", "q"] {
        world.register_with(producer, name, |d| d.protovm_program = Some(program()));
    }
    let consumer = world.consumer();
    let config = ConfigBuilder::default()
        .buffer(4)
        .buffer(4)
        .source("p")
        .source("q")
        .source_to("p", 1)
        .with(|c| {
            for buffer in &mut c.buffers {
                buffer.experimental_mode = Some(ExperimentalMode::TRACE_BUFFER_V2);
            }
            wants_vm(c, Some(64));
            let third = c.data_sources[2].config.get_or_insert_default();
            third.protovm_config.get_or_insert_default().memory_limit_kb = Some(32);
        });
    world.enable(consumer, config);
    let limits: Vec<_> = instances(&world.read(consumer))
        .iter()
        .map(|one| one.limit_kb)
        .collect();
    assert_eq!(limits, [64, 64, 32]);
}

#[test]
fn protovm_003_a_user_can_have_so_many_programs() {
    let mut world = World::new();
    let consumer = world.consumer();
    world.enable(consumer, config());
    for version in 0..20 {
        producer_with(&mut world, "p", program_into(100 + version));
    }
    assert_eq!(instances(&world.read(consumer)).len(), 16);
    assert_eq!(world.problems.len(), 4);
    assert!(
        world.problems[0].ends_with("there are 16 programs of this user in the buffer already")
    );
}

#[test]
fn protovm_004_producers_that_come_later_have_one() {
    let mut world = World::new();
    let consumer = world.consumer();
    world.enable(consumer, config());
    let producer = producer_with(&mut world, "late", program());
    let mut writer = world.writer(producer);
    (1..=5).for_each(|n| write(&mut world, producer, &mut writer, &patch(n)));
    let trace = world.read(consumer);
    assert_eq!(instances(&trace)[0].number(), Some(2));
}

#[test]
fn protovm_005_producers_cannot_claim_the_fields() {
    let mut all = record(config());
    for field in [f::TRACE_PROVENANCE, f::PROTOVMS] {
        let claim = encode(|packet| packet.nested(field, |message| message.varint(9, 9)));
        all.write(&claim);
    }
    all.write(&patch(1));
    let trace = all.read();
    assert_eq!(patch_numbers(&trace), [1]);
    assert_eq!(instances(&trace).len(), 1);
    let data = trace.iter().filter(|packet| packet.is_data());
    assert_eq!(data.count(), 1);
    let stats = all.world.stats(all.consumer);
    assert_eq!(stats.invalid_packets, Some(2));
}

#[test]
fn protovm_033_the_state_is_that_at_the_start_of_what_is_left() {
    let mut all = record(config());
    all.write_patches(1..=5);
    let trace = all.read();
    let found = instances(&trace);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].number(), Some(2));
    assert_eq!(patch_numbers(&trace), [3, 4, 5]);
}

/// A table of twenty rows by id, of which patches change one or delete one. A row is a number.
struct Table {
    rows: std::collections::BTreeMap<u64, u64>,
    random: u64,
}

impl Table {
    /// Rows of the patch are merged, those whose ids are in its field 5 deleted.
    fn program() -> Vec<u8> {
        const ROWS: u32 = 4;
        let part = |fields: &[(u32, u64)]| {
            encode(|out| {
                out.nested(2, |component| {
                    fields
                        .iter()
                        .for_each(|(field, value)| component.varint(*field, *value));
                });
            })
        };
        let instruction = |cursor: u64, path: &[Vec<u8>], nested: &[Vec<u8>]| {
            encode(|out| {
                out.nested(1, |select| {
                    select.varint(1, cursor);
                    path.iter().for_each(|component| select.raw(component));
                    select.bool(3, cursor == 2);
                });
                nested.iter().for_each(|nested| out.bytes(7, nested));
            })
        };
        let load = encode(|out| out.nested(2, |_| {}));
        let merge = encode(|out| out.nested(3, |_| {}));
        let delete = encode(|out| out.nested(5, |_| {}));
        let key = || {
            [
                part(&[(1, TEST_FIELD.into())]),
                part(&[(1, STATE.into())]),
                part(&[(1, ROWS.into())]),
                part(&[(3, 1), (6, 0)]),
            ]
        };
        let each = |field: u64| [part(&[(1, field), (5, 1)])];
        let change = instruction(
            1,
            &each(ROWS.into()),
            &[
                instruction(1, &[part(&[(1, 1)])], std::slice::from_ref(&load)),
                instruction(2, &key(), &[merge]),
            ],
        );
        let drop = instruction(1, &each(5), &[load, instruction(2, &key(), &[delete])]);
        let patch = [part(&[(1, TEST_FIELD.into())]), part(&[(1, PATCH.into())])];
        let all = instruction(1, &patch, &[change, drop]);
        encode(|program| program.bytes(2, &all))
    }

    fn next(&mut self, bound: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.random >> 33) % bound
    }

    /// Changes a row, and tells how.
    fn change(&mut self) -> Vec<u8> {
        let (id, value, deletes) = (self.next(20), self.next(1000), self.next(4) == 0);
        if deletes {
            self.rows.remove(&id);
        } else {
            self.rows.insert(id, value);
        }
        encode(|packet| {
            packet.nested(TEST_FIELD, |event| {
                event.nested(PATCH, |patch| match deletes {
                    true => patch.varint(5, id),
                    false => patch.nested(4, |row| {
                        row.varint(1, id);
                        row.varint(2, value);
                    }),
                });
            });
        })
    }

    fn rows_of(state: &[u8]) -> std::collections::BTreeMap<u64, u64> {
        let inner = |message, field| Fields::find(field, message).and_then(|f| f.as_bytes());
        let table = inner(state, TEST_FIELD).and_then(|event| inner(event, STATE));
        Fields::new(table.unwrap_or_default())
            .map(|row| {
                let row = row.unwrap().as_bytes().unwrap();
                let number = |field| Fields::find(field, row).unwrap().as_u64().unwrap();
                (number(1), number(2))
            })
            .collect()
    }
}

#[test]
fn protovm_033_a_table_is_whole_wherever_the_trace_begins() {
    // 15 changes before anything is lost, and many more times what the buffer holds.
    for changes in [1, 60, 150, 400, 1000, 3000] {
        let mut world = World::new();
        let producer = producer_with(&mut world, "p", Table::program());
        let consumer = world.consumer();
        world.enable(consumer, config());
        let mut writer = world.writer(producer);
        let mut table = Table {
            rows: Default::default(),
            random: changes,
        };
        let mut history = vec![table.rows.clone()];
        for _ in 0..changes {
            let change = table.change();
            history.push(table.rows.clone());
            writer.new_packet().raw(&change);
            if table.next(3) == 0 {
                writer.flush(None);
                world.commit(producer);
            }
        }
        writer.flush(None);
        world.commit(producer);
        let trace = world.read(consumer);
        let found = instances(&trace).remove(0);
        let left: Vec<_> = trace
            .iter()
            .filter(|packet| packet.has(TEST_FIELD))
            .collect();
        assert!(!left.is_empty());
        let lost = changes as usize - left.len();
        assert_eq!(lost > 0, changes >= 400, "{lost} of {changes}");
        // As a reader goes on: from the state, with the same program, packet by packet.
        let program = Program::parse(&found.program).unwrap();
        let mut reader = Vm::with_state(program, found.limit_kb * 1024, &found.state);
        assert_eq!(Table::rows_of(&reader.state()), history[lost]);
        for (packet, expected) in left.iter().zip(&history[lost + 1..]) {
            assert_eq!(reader.apply(&packet.0), Outcome::Applied);
            assert_eq!(&Table::rows_of(&reader.state()), expected);
        }
        assert!(world.problems.is_empty(), "{:?}", world.problems);
    }
}

#[test]
fn protovm_034_what_is_not_overwritten_is_not_in_the_state() {
    let mut all = record(config());
    all.write_patches(1..=3);
    let trace = all.read();
    assert!(instances(&trace)[0].state.is_empty());
    assert_eq!(patch_numbers(&trace), [1, 2, 3]);
    // What was read is not applied either, when it is overwritten.
    all.write_patches(4..=9);
    let (reader, _) = clone(&mut all.world, by_id(1));
    let trace = all.world.read(reader);
    assert_eq!(instances(&trace)[0].number(), Some(6));
    assert_eq!(patch_numbers(&trace), [7, 8, 9]);
}

#[test]
fn protovm_034_a_buffer_that_discards_applies_nothing() {
    let discards = |c: &mut TraceConfig| c.buffers[0].fill_policy = Some(FillPolicy::DISCARD);
    let mut all = record(config().with(discards));
    all.write_patches(1..=6);
    let trace = all.read();
    assert!(instances(&trace)[0].state.is_empty());
    assert_eq!(patch_numbers(&trace), [1, 2, 3]);
}

#[test]
fn protovm_034_packets_of_many_chunks_are_applied_whole() {
    let long = |number: u64| {
        encode(|packet| {
            packet.nested(TEST_FIELD, |event| {
                event.nested(PATCH, |patch| {
                    patch.string(TEXT, &number.to_string().repeat(9000));
                    patch.varint(NUMBER, number);
                });
            });
        })
    };
    let mut all = record(config().with(|c| c.buffers[0].size_kb = Some(32)));
    (1..=6).for_each(|number| all.write(&long(number)));
    let trace = all.read();
    let left = patch_numbers(&trace);
    let found = instances(&trace).remove(0);
    assert_eq!(found.number(), Some(left[0] - 1));
    let number = (left[0] - 1).to_string();
    let event = Fields::find(TEST_FIELD, &found.state)
        .unwrap()
        .as_bytes()
        .unwrap();
    let state = Fields::find(STATE, event).unwrap().as_bytes().unwrap();
    let text = Fields::find(TEXT, state).unwrap().as_bytes().unwrap();
    assert_eq!(text, number.repeat(9000).as_bytes());
}

#[test]
fn protovm_035_losses_are_told_as_without() {
    let mut all = record(config());
    all.write_patches(1..=5);
    let trace = all.read();
    let losses: Vec<u64> = trace
        .iter()
        .filter(|p| p.is_data())
        .map(Packet::loss)
        .collect();
    assert_eq!(losses, [65, 0, 0]);
    let stats = all.world.stats(all.consumer).buffer_stats.remove(0);
    assert_eq!(stats.chunks_overwritten, Some(2));
    assert!(stats.bytes_overwritten > Some(2200));
}

#[test]
fn protovm_036_packets_of_others_are_not_applied() {
    let mut world = World::new();
    let with = producer_with(&mut world, "with", program());
    let without = world.producer("without");
    world.register(without, "p");
    let consumer = world.consumer();
    world.enable(consumer, config());
    let mut writers = [with, without].map(|producer| (producer, world.writer(producer)));
    for number in 1..=8 {
        let (producer, writer) = &mut writers[number as usize % 2];
        write(&mut world, *producer, writer, &patch(number));
    }
    let found = instances(&world.read(consumer));
    // The last one of the first producer that was overwritten, though the other wrote the same
    // packets.
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].number(), &found[0].producers),
        (Some(4), &vec![1])
    );
}

#[test]
fn protovm_037_the_packet_comes_once_before_all_data() {
    let mut all = record(config());
    all.write_patches(1..=5);
    let trace = all.read();
    let at = |field| trace.iter().position(|packet| packet.has(field)).unwrap();
    let vms = at(f::PROTOVMS);
    for earlier in [
        f::CLOCK_SNAPSHOT,
        f::TRACE_CONFIG,
        f::TRACE_UUID,
        f::TRACE_PROVENANCE,
        f::SYSTEM_INFO,
    ] {
        assert!(at(earlier) < vms, "{earlier}");
    }
    let first = trace.iter().position(Packet::is_data).unwrap();
    assert_eq!(vms + 1, first, "the last packet before the data");
    // Readers find the sequences by the producers.
    let provenance = trace[at(f::TRACE_PROVENANCE)]
        .bytes(f::TRACE_PROVENANCE)
        .unwrap();
    let buffer = Fields::find(trace_provenance::BUFFERS, provenance)
        .unwrap()
        .as_bytes()
        .unwrap();
    let pair = Fields::find(1, buffer).unwrap().as_bytes().unwrap();
    let of = |field| Fields::find(field, pair).unwrap().as_u64().unwrap();
    assert_eq!((of(1), of(2)), (trace[first].sequence(), 1));
    // Never again, though the state goes on.
    all.write_patches(6..=9);
    assert_eq!(instances(&all.read()), []);
}

#[test]
fn protovm_037_a_filter_may_take_it_out() {
    let filtered = config().with(|c| allow(c, &[(TEST_FIELD, SIMPLE)]));
    let mut all = record(filtered);
    all.write_patches(1..=5);
    let trace = all.read();
    assert_eq!(patch_numbers(&trace), [3, 4, 5]);
    assert!(!trace.iter().any(|packet| packet.has(f::PROTOVMS)));
}

#[test]
fn protovm_038_a_clone_has_the_state_of_its_moment() {
    let mut all = record(config());
    all.write_patches(1..=5);
    let (first, _) = clone(&mut all.world, by_id(1));
    all.write_patches(6..=7);
    let (second, _) = clone(&mut all.world, by_id(1));
    all.write_patches(8..=8);
    for (reader, state, left) in [(first, 2, [3, 4, 5]), (second, 4, [5, 6, 7])] {
        let trace = all.world.read(reader);
        let found = instances(&trace);
        assert_eq!(found[0].number(), Some(state));
        assert_eq!((found[0].limit_kb, &found[0].producers), (64, &vec![1]));
        assert_eq!(patch_numbers(&trace), left);
        // Its readers find the sequences, too.
        let provenance = trace
            .iter()
            .find_map(|p| p.bytes(f::TRACE_PROVENANCE))
            .unwrap();
        let buffer = Fields::find(trace_provenance::BUFFERS, provenance).unwrap();
        assert!(!buffer.as_bytes().unwrap().is_empty());
    }
    let trace = all.read();
    assert_eq!(instances(&trace)[0].number(), Some(5));
    assert_eq!(patch_numbers(&trace), [6, 7, 8]);
}

#[test]
fn protovm_038_a_buffer_that_takes_the_place_of_another_goes_on_from_its_end() {
    let transferred = |c: &mut TraceConfig| c.buffers[0].transfer_on_clone = Some(true);
    let cleared = |c: &mut TraceConfig| c.buffers[0].clear_before_clone = Some(true);
    for (config, of_clone) in [
        (config().with(transferred), (Some(2), vec![3, 4, 5])),
        (config().with(cleared), (Some(5), vec![])),
    ] {
        let mut all = record(config);
        all.write_patches(1..=5);
        let (reader, _) = clone(&mut all.world, by_id(1));
        let trace = all.world.read(reader);
        let found = instances(&trace);
        assert_eq!((found[0].number(), patch_numbers(&trace)), of_clone);
        // Nothing of the new buffer is overwritten yet, and all of the old one came before.
        all.write_patches(6..=7);
        let (reader, _) = clone(&mut all.world, by_id(1));
        let trace = all.world.read(reader);
        let expected = match of_clone.1.is_empty() {
            false => (Some(5), vec![6, 7]),
            true => (Some(7), vec![]),
        };
        assert_eq!(
            (instances(&trace)[0].number(), patch_numbers(&trace)),
            expected
        );
        all.write_patches(8..=11);
        let trace = all.read();
        assert_eq!(instances(&trace)[0].number(), Some(8));
        assert_eq!(patch_numbers(&trace), [9, 10, 11]);
    }
}

#[test]
fn protovm_039_patches_that_are_given_up_disturb_nothing() {
    // A number where the program merges a message.
    let bad = encode(|packet| packet.nested(TEST_FIELD, |event| event.varint(PATCH, 1)));
    let mut all = record(config());
    let mut other = all.world.writer(all.producer);
    all.write(&bad);
    write(&mut all.world, all.producer, &mut other, &patch(1));
    all.write(&bad);
    all.write(&[0xff; 30]);
    all.write_patches(2..=6);
    let trace = all.read();
    assert_eq!(patch_numbers(&trace), [4, 5, 6]);
    assert_eq!(instances(&trace)[0].number(), Some(3));
    // The first one is told, not each.
    assert_eq!(
        all.world.problems,
        [
            "the ProtoVM of data source \"p\" gave up a packet: a number is where a message is expected, at instruction 0.0.0"
        ]
    );
    let text = "still there";
    all.world.write(all.producer, &mut other, &[text]);
    assert_eq!(texts(&all.read()), [text]);
}

#[test]
fn protovm_039_a_state_at_its_limit_keeps_what_it_has() {
    let mut all = record(config().with(|c| wants_vm(c, Some(1))));
    all.write_patches(1..=5);
    let trace = all.read();
    // A kilobyte does not hold the text; the session goes on.
    assert_eq!(instances(&trace)[0].number(), None);
    assert_eq!(patch_numbers(&trace), [3, 4, 5]);
    assert_eq!(all.world.problems.len(), 1);
    assert!(all.world.problems[0].contains("memory limit"));
}
