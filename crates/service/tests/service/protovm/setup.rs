//! Buffers with machines, and their owners.

use super::*;

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
    let reported = |config: ConfigBuilder, with_program: bool| {
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
        (
            reported(config(), false),
            "the producer has no program for it",
        ),
        (
            reported(config().with(none), true),
            "the config has no protovm_config for it",
        ),
        (
            reported(config().with(|c| wants_vm(c, None)), true),
            "the protovm_config has no memory_limit_kb",
        ),
    ] {
        assert_eq!(problems, [format!("{beginning}{reason}")]);
    }
    assert!(reported(config().with(none), false).is_empty());
    // A limit of 0 is also a limit.
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
        all.write_packet(&claim);
    }
    all.write_packet(&patch(1));
    let trace = all.read();
    assert_eq!(patch_numbers(&trace), [1]);
    assert_eq!(instances(&trace).len(), 1);
    let data = trace.iter().filter(|packet| packet.is_data());
    assert_eq!(data.count(), 1);
    let stats = all.world.stats(all.consumer);
    assert_eq!(stats.invalid_packets, Some(2));
}
