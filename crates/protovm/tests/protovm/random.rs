//! Tests with random programs and patches.

use ferretto_protovm::{Outcome, Program, Vm};
use proptest::prelude::*;

use crate::support::Part::{At, Each, F, Key};
use crate::support::*;

const LIMIT: u64 = 4096;

fn part() -> impl Strategy<Value = Part> {
    let field = || 1..5u32;
    prop_oneof![
        4 => field().prop_map(F),
        1 => field().prop_map(Each),
        1 => (field(), 0..3u32).prop_map(|(field, index)| At(field, index)),
        1 => (field(), field(), 0..3u32).prop_map(|(field, key, register)| Key(field, key, register)),
    ]
}

fn instruction() -> impl Strategy<Value = Instruction> {
    let leaf = prop_oneof![
        (0..4u32).prop_map(load),
        (0..4u32).prop_map(load_state),
        (any::<bool>(), any::<bool>()).prop_map(|(skip, empty)| merge_with(skip, empty)),
        Just(set()),
        Just(del()),
    ];
    leaf.prop_recursive(6, 24, 4, |inner| {
        let path = prop::collection::vec(part(), 0..3);
        let nested = prop::collection::vec((inner, 0..4u64), 0..4);
        (1..4u64, any::<bool>(), path, nested).prop_map(|(cursor, create, path, nested)| {
            let nested: Vec<_> = nested
                .into_iter()
                .map(|(instruction, level)| match level {
                    0 => instruction,
                    level => instruction.level(level),
                })
                .collect();
            select(cursor, create && cursor != 1, &path, &nested)
        })
    })
}

fn message() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        prop::collection::vec((1..5u32, 0..4u64), 0..4).prop_map(|fields| nums(&fields)),
        prop::collection::vec(any::<u8>(), 0..6),
    ];
    leaf.prop_recursive(4, 20, 4, |inner| {
        prop::collection::vec((1..5u32, inner, 0..3u64), 0..4).prop_map(|fields| {
            msg(|out| {
                for (field, message, number) in &fields {
                    out.bytes(*field, message);
                    out.varint(*field, *number);
                }
            })
        })
    })
}

/// Checks that the state is within its limits, as accounted and as encoded.
fn holds(vm: &Vm) {
    let program = vm.program().as_bytes().len() as u64;
    assert!(vm.memory_usage() <= LIMIT + program);
    assert!((vm.state().len() as u64) < LIMIT * 2);
}

proptest! {
    #[test]
    fn protovm_040_any_program_on_any_patch_ends_within_its_memory(
        instructions in prop::collection::vec(instruction(), 0..4),
        patches in prop::collection::vec(message(), 0..12),
    ) {
        let mut vm = Vm::new(program(&instructions), LIMIT);
        for patch in &patches {
            vm.apply(patch);
            holds(&vm);
        }
    }

    #[test]
    fn protovm_040_all_memory_is_given_back(
        instructions in prop::collection::vec(instruction(), 0..4),
        patches in prop::collection::vec(message(), 0..12),
    ) {
        // One kind of patch is for the program, another deletes all it has made.
        let whole = [src(&[F(77)], &[del()]).skip(), src(&[F(78)], &instructions)];
        let mut vm = Vm::new(program(&whole), LIMIT);
        for patch in &patches {
            vm.apply(&inside(78, patch));
            holds(&vm);
        }
        prop_assert_eq!(vm.apply(&nums(&[(77, 1)])), Outcome::Rejected);
        prop_assert_eq!(vm.state(), Vec::<u8>::new());
        prop_assert_eq!(vm.memory_usage(), vm.program().as_bytes().len() as u64);
    }

    #[test]
    fn protovm_040_bytes_are_no_program_and_yet_run(
        bytes in prop::collection::vec(any::<u8>(), 0..60),
        patch in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        if let Ok(program) = Program::parse(&bytes) {
            let mut vm = Vm::new(program, LIMIT);
            vm.apply(&patch);
            holds(&vm);
        }
    }
}
