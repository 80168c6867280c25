//! The state is that before the first remaining packet.

use super::*;

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

/// A table of twenty rows by id, of which patches change or delete one each. A row is a number.
struct Table {
    rows: std::collections::BTreeMap<u64, u64>,
    random: u64,
}

impl Table {
    /// Returns a program that merges the rows of a patch, and deletes those with ids in its field
    /// 5.
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

    /// Changes a row, and returns the patch.
    fn change(&mut self) -> Vec<u8> {
        let (id, value, deletes) = (self.next(20), self.next(1000), self.next(4) == 0);
        if deletes {
            self.rows.remove(&id);
        } else {
            self.rows.insert(id, value);
        }
        encode(|packet| {
            packet.nested(TEST_FIELD, |event| {
                event.nested(PATCH, |patch| {
                    if deletes {
                        patch.varint(5, id)
                    } else {
                        patch.nested(4, |row| {
                            row.varint(1, id);
                            row.varint(2, value);
                        })
                    }
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
    // 15 changes before the first loss, and many more than the buffer can hold.
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
        // Continues as a reader does: from the state, with the same program, packet by packet.
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
    // Packets that were read are not applied when they are overwritten.
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
    (1..=6).for_each(|number| all.write_packet(&long(number)));
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
    // The last overwritten packet of the first producer, although the other wrote the same packets.
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].number(), &found[0].producers),
        (Some(4), &vec![1])
    );
}
