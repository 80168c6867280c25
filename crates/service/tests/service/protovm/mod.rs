//! Packets about to be overwritten are applied to a state. The numbers are those of
//! `docs/rules/protovm.md`.

use ferretto_proto::fields::{trace_packet as f, trace_provenance};
use ferretto_proto::trace_config::buffer_config::{ExperimentalMode, FillPolicy};
use ferretto_proto::{ProtoVmConfig, TraceConfig};
use ferretto_protovm::{Outcome, Program, Vm};
use ferretto_service::ClientId;
use ferretto_shm::TraceWriter;
use ferretto_wire::{Fields, encode};

use crate::cloning::{Recording, by_id, clone};
use crate::world::pipeline::{SIMPLE, allow};
use crate::world::{ConfigBuilder, Packet, TEST_FIELD, World, texts};

mod setup;
mod state;
mod trace;

/// The fields of a TestEvent.
const PATCH: u32 = 6;
const STATE: u32 = 7;
const TEXT: u32 = 1;
const NUMBER: u32 = 2;

/// Encodes an instruction that selects this path and runs another, or a merge.
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

/// Returns a program that merges patches into the state of this field of the test event.
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

/// Returns a packet with a patch of about a kilobyte.
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

/// Returns the number of a patch that was read.
fn patch_number(packet: &Packet) -> Option<u64> {
    number_in(&packet.0, [TEST_FIELD, PATCH])
}

fn patch_numbers(packets: &[Packet]) -> Vec<u64> {
    packets.iter().filter_map(patch_number).collect()
}

/// A machine as described in a trace.
#[derive(Debug, Clone, PartialEq)]
struct Instance {
    program: Vec<u8>,
    state: Vec<u8>,
    limit_kb: u64,
    producers: Vec<u64>,
}

impl Instance {
    /// Returns the number in its state.
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

/// Returns a config with a buffer of 4 kB that meets all conditions of a machine.
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

fn record(config: impl Into<TraceConfig>) -> Recording {
    let mut world = World::new();
    let producer = producer_with(&mut world, "p", program());
    let consumer = world.consumer();
    world.enable(consumer, config);
    Recording::new(world, producer, consumer)
}

impl Recording {
    fn write_packet(&mut self, packet: &[u8]) {
        write(&mut self.world, self.producer, &mut self.writer, packet);
    }

    fn write_patches(&mut self, numbers: std::ops::RangeInclusive<u64>) {
        numbers.for_each(|number| self.write_packet(&patch(number)));
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
