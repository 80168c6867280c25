//! Test of a data source whose packets patch a table, in a ring buffer that overwrites some of
//! them.

use std::collections::BTreeMap;

use ferretto::proto::trace_config::buffer_config::ExperimentalMode;
use ferretto::proto::{DataSourceConfig, ProtoVmConfig};
use ferretto::{DataSource, DataSourceOptions};
use ferretto_client::Consumer;
use ferretto_protovm::{Outcome, Program, Vm};
use ferretto_testing::sdk::{LIMIT, Service, config, source, start, stop};
use ferretto_wire::{Fields, encode};

/// Fields of TracePacket, of the test event in it, and of ProtoVms.Instance.
const FOR_TESTING: u32 = 900;
const PATCH: u32 = 6;
const STATE: u32 = 7;
const PROTOVMS: u32 = 125;

/// The number of changes to the table.
const CHANGES: u64 = 2000;
const CELLS: u64 = 30;

struct Table;

impl DataSource for Table {
    type Instance = ();
    type Thread = ();

    fn setup(&self, _: &DataSourceConfig) {}
}

/// Returns a program that merges the cells of a patch into the table.
fn program() -> Vec<u8> {
    let select = |cursor: u64, field: u32, nested: &[u8]| {
        encode(|instruction| {
            instruction.nested(1, |select| {
                select.varint(1, cursor);
                for field in [FOR_TESTING, field] {
                    select.nested(2, |component| component.varint(1, field.into()));
                }
                select.bool(3, cursor == 2);
            });
            instruction.bytes(7, nested);
        })
    };
    let merge = encode(|instruction| instruction.nested(3, |_| {}));
    let whole = select(1, PATCH, &select(2, STATE, &merge));
    encode(|program| program.bytes(2, &whole))
}

/// Returns the cell and the new value of a change.
fn change(number: u64) -> (u32, u64) {
    (10 + (number * 7 % CELLS) as u32, number * number % 997)
}

/// Returns the table after `changes` changes, with their number in field 1.
fn table_after(changes: u64) -> BTreeMap<u32, u64> {
    let mut table: BTreeMap<_, _> = (1..=changes).map(change).collect();
    table.insert(1, changes);
    table
}

fn inner(message: &[u8], field: u32) -> Option<BTreeMap<u32, u64>> {
    let event = Fields::find(FOR_TESTING, message)?.as_bytes()?;
    let inner = Fields::find(field, event)?.as_bytes()?;
    let cells = Fields::new(inner).map(|cell| cell.unwrap());
    Some(
        cells
            .map(|cell| (cell.number, cell.as_u64().unwrap()))
            .collect(),
    )
}

#[test]
fn protovm_033_a_trace_opens_with_the_state_that_was_overwritten() {
    ferretto_testing::own_process!();
    let service = Service::start();
    let options = ferretto::Options::new().address(service.producers.clone());
    options.wait(LIMIT).init().unwrap();
    let table = DataSourceOptions::new("test.table").protovm_program(program());
    let table = table.register(Table).unwrap();
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();

    let mut wanted = source("test.table", None);
    let source_config = wanted.config.get_or_insert_default();
    source_config.protovm_config = Some(ProtoVmConfig {
        memory_limit_kb: Some(64),
        ..Default::default()
    })
    .into();
    let mut config = config(vec![wanted]);
    config.buffers[0].size_kb = Some(8);
    config.buffers[0].experimental_mode = Some(ExperimentalMode::TRACE_BUFFER_V2);
    start(&mut consumer, config);
    for number in 1..=CHANGES {
        table.trace(|context| {
            context.new_packet().nested(FOR_TESTING, |event| {
                event.nested(PATCH, |patch| {
                    let (cell, value) = change(number);
                    patch.varint(1, number);
                    patch.varint(cell, value);
                });
            });
        });
        if number % 100 == 0 {
            assert!(ferretto::flush(LIMIT));
        }
    }
    let trace = stop(&mut consumer);

    let vms = trace
        .iter()
        .find_map(|packet| Fields::find(PROTOVMS, packet));
    let instance = vms.unwrap().as_message().unwrap().next().unwrap().unwrap();
    let of = |field| Fields::find(field, instance.as_bytes().unwrap()).unwrap();
    assert_eq!(of(1).as_bytes().unwrap(), program());
    // A reader continues from the state with the same program, packet by packet.
    let program = Program::parse(of(1).as_bytes().unwrap()).unwrap();
    let limit = of(3).as_u64().unwrap() * 1024;
    let mut vm = Vm::with_state(program, limit, of(2).as_bytes().unwrap());
    let patches: Vec<_> = trace
        .iter()
        .filter(|packet| inner(packet, PATCH).is_some())
        .collect();
    let lost = CHANGES - patches.len() as u64;
    assert!(lost > CHANGES / 2 && !patches.is_empty(), "{lost}");
    assert_eq!(inner(&vm.state(), STATE), Some(table_after(lost)));
    for (number, patch) in (lost + 1..).zip(patches) {
        assert_eq!(vm.apply(patch), Outcome::Applied);
        assert_eq!(inner(&vm.state(), STATE), Some(table_after(number)));
    }
}
