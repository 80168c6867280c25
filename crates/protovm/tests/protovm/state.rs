//! The state as bytes, and its memory.

use ferretto_protovm::{Outcome, Reason, Vm};

use crate::support::Part::{At, Each, F, Key};
use crate::support::*;

#[test]
fn protovm_029_fields_and_keys_are_in_order_and_selected_fields_invisible() {
    let copy = |field| src(&[F(field)], &[make(&[F(field)], &[set()])]);
    let keyed = src(&[Each(8)], &[load(0), make(&[Key(5, 1, 0)], &[set()])]);
    let mut vm = vm(&[
        copy(9),
        copy(3),
        copy(6),
        keyed,
        make(&[F(4)], &[]),
        make(&[At(7, 0)], &[]),
    ]);
    let patch = all(&[
        nums(&[(9, 1), (3, 2)]),
        inside(6, &nums(&[(2, 2), (1, 1)])),
        nums(&[(8, 30), (8, 10), (8, 20)]),
    ]);
    assert_eq!(vm.apply(&patch), Outcome::Applied);
    let state = all(&[
        nums(&[(3, 2), (5, 10), (5, 20), (5, 30)]),
        // Nobody entered it, so it is as it came.
        inside(6, &nums(&[(2, 2), (1, 1)])),
        nums(&[(9, 1)]),
    ]);
    assert_eq!(vm.state(), state);
    // A message that was entered and has no fields is an empty one.
    let mut entered = super::support::vm(&[make(&[F(1)], &[dst(&[F(2)], &[]).skip()])]);
    assert_eq!(entered.apply(&[]), Outcome::Applied);
    assert_eq!(entered.state(), inside(1, &[]));
}

#[test]
fn protovm_029_what_is_malformed_ends_a_message() {
    let enter = [make(&[F(9)], &[set()]).skip()];
    let mut state = nums(&[(1, 1), (2, 2)]);
    state.extend([0x18]);
    let mut vm = vm_with(&enter, &state);
    assert_eq!(vm.state(), state, "not entered yet");
    assert_eq!(vm.apply(b"x"), Outcome::Applied);
    assert_eq!(vm.state(), all(&[nums(&[(1, 1), (2, 2)]), inside(9, b"x")]));
}

#[test]
fn protovm_029_lists_find_their_keys() {
    let select = [
        src(&[F(1)], &[load(0)]),
        make(&[Key(5, 1, 0)], &[src(&[F(2)], &[merge()])]),
    ];
    let patch = |id, value| all(&[nums(&[(1, id)]), inside(2, &nums(&[(1, id), (2, value)]))]);
    let element = |id, value| inside(5, &nums(&[(1, id), (2, value)]));
    // Large keys are whole ones, also those of elements that were there.
    let large = u64::MAX - 1;
    let state = all(&[element(large, 1), element(3, 1), element(3, 2)]);
    let mut vm = vm_with(&select, &state);
    assert_eq!(vm.apply(&patch(large, 7)), Outcome::Applied);
    // Of two with one key the first one stayed.
    assert_eq!(vm.state(), all(&[element(3, 1), element(large, 7)]));
    assert_eq!(
        vm.memory_usage() - vm.program().as_bytes().len() as u64,
        Vm::with_state(program(&select), 1 << 20, &[]).memory_usage()
            - vm.program().as_bytes().len() as u64
            // The list, its elements, and the fields of the one that was entered.
            + 96 * 5
            + nums(&[(1, 3), (2, 1)]).len() as u64
    );
    // An element without a key leaves the list as it is.
    let state = all(&[element(3, 1), inside(5, &nums(&[(2, 1)])), element(4, 1)]);
    let mut vm = vm_with(&select, &state);
    assert_eq!(aborted(vm.apply(&patch(3, 7))), Reason::NoKey(1));
    assert_eq!(vm.state(), state);
}

#[test]
fn protovm_030_another_machine_goes_on_from_a_state() {
    let by_id = |create, operation| {
        src(
            &[Each(3)],
            &[
                src(&[F(1)], &[load(0)]),
                select(2, create, &[Key(1, 1, 0)], &[operation]),
            ],
        )
    };
    let program = [
        by_id(true, merge()),
        src(&[Each(2)], &[load(0), dst(&[Key(1, 1, 0)], &[del()])]),
    ];
    let patches: Vec<_> = (0..40u64)
        .map(|n| {
            all(&[
                inside(3, &nums(&[(1, n * 7 % 11), (2 + n as u32 % 3, n)])),
                nums(&[(2, n % 5)]),
            ])
        })
        .collect();
    let mut whole = vm(&program);
    for (index, patch) in patches.iter().enumerate() {
        let mut other = vm_with(&program, &whole.state());
        for later in &patches[index..] {
            other.apply(later);
        }
        assert_eq!(whole.apply(patch), Outcome::Applied);
        let mut same = whole.clone();
        for later in &patches[index + 1..] {
            same.apply(later);
        }
        assert_eq!(other.state(), same.state(), "from {index}");
    }
    assert!(!whole.state().is_empty());
}

#[test]
fn protovm_031_a_patch_beyond_the_limit_is_given_up_and_smaller_ones_apply() {
    let program = program(&[
        src(&[F(1)], &[make(&[F(1)], &[set()])]),
        src(&[F(2)], &[make(&[F(2)], &[set()])]).skip(),
    ]);
    let mut vm = Vm::new(program.clone(), 1024);
    assert_eq!(vm.apply(&inside(1, &[7; 500])), Outcome::Applied);
    assert_eq!(
        aborted(vm.apply(&inside(1, &[8; 900]))),
        Reason::OutOfMemory
    );
    assert_eq!(vm.state(), inside(1, &[7; 500]));
    assert_eq!(vm.apply(&inside(1, &[9; 100])), Outcome::Applied);
    assert_eq!(vm.state(), inside(1, &[9; 100]));

    // With no memory at all nothing is ever written.
    let mut none = Vm::new(program.clone(), 0);
    assert_eq!(aborted(none.apply(&inside(1, b""))), Reason::OutOfMemory);
    assert_eq!(none.state(), []);
    // A state that is too large is not begun with.
    assert_eq!(
        Vm::with_state(program, 100, &inside(1, &[7; 200])).state(),
        []
    );
}

#[test]
fn protovm_031_a_message_that_does_not_fit_taken_apart_stays_whole() {
    let state = nums(&[(1, 1); 20]);
    let mut vm = Vm::with_state(program(&[make(&[F(2)], &[])]), 400, &state);
    let before = vm.memory_usage();
    assert_eq!(aborted(vm.apply(&[])), Reason::OutOfMemory);
    assert_eq!(vm.state(), state);
    assert_eq!(vm.memory_usage(), before);
}

#[test]
fn protovm_032_a_machine_that_was_not_used_takes_its_program() {
    let bytes = program_bytes(&[merge(), set()]);
    let vm = Vm::new(program(&[merge(), set()]), 1 << 20);
    assert_eq!(vm.memory_usage(), bytes.len() as u64);
}
