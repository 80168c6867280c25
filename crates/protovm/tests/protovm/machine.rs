//! Control flow, cursors and registers.

use ferretto_protovm::{MAX_DEPTH, MAX_INSTRUCTIONS, Outcome, Program, ProgramError, Reason, Vm};

use crate::support::Part::{At, Each, F, Key, Nothing};
use crate::support::*;

#[test]
fn protovm_006_an_empty_program_takes_every_packet_and_changes_nothing() {
    let mut vm = vm_with(&[], &nums(&[(1, 7)]));
    assert_eq!(vm.apply(&nums(&[(1, 8)])), Outcome::Applied);
    assert_eq!(vm.apply(&[0xff; 20]), Outcome::Applied);
    assert_eq!(vm.state(), nums(&[(1, 7)]));
}

#[test]
fn protovm_007_an_instruction_without_operation_aborts() {
    assert_eq!(aborted(vm(&[nothing()]).apply(&[])), Reason::NoOperation);
    let nested = src(&[F(1)], &[nothing().skip()]);
    assert_eq!(
        aborted(vm(&[nested]).apply(&inside(1, &[]))),
        Reason::NoOperation
    );
}

#[test]
fn protovm_008_an_error_ends_its_list_unless_it_is_skipped_or_must_not_be() {
    let failing = || src(&[F(9)], &[]);
    let write = |field| src(&[F(1)], &[make(&[F(field)], &[set()])]);
    let patch = nums(&[(1, 5)]);

    let mut default = vm(&[failing(), write(2)]);
    assert_eq!(default.apply(&patch), Outcome::Rejected);
    assert_eq!(default.state(), []);

    let mut skipped = vm(&[failing().skip(), write(2)]);
    assert_eq!(skipped.apply(&patch), Outcome::Applied);
    assert_eq!(skipped.state(), nums(&[(2, 5)]));

    // Levels nobody has defined skip, too.
    let mut unknown = vm(&[failing().level(7), write(2)]);
    assert_eq!(unknown.apply(&patch), Outcome::Applied);

    let mut strict = vm(&[failing().strict(), write(2)]);
    assert_eq!(aborted(strict.apply(&patch)), Reason::ErrorNotAllowed);
    assert_eq!(strict.state(), []);

    // An inner failure fails the enclosing instruction, whose level decides next.
    let around = src(&[], &[failing(), write(2)]);
    let mut outer = vm(&[around.clone().skip(), write(3)]);
    assert_eq!(outer.apply(&patch), Outcome::Applied);
    assert_eq!(outer.state(), nums(&[(3, 5)]));
    assert_eq!(vm(&[around, write(3)]).apply(&patch), Outcome::Rejected);
}

#[test]
fn protovm_009_nothing_hides_an_abort() {
    let mut vm = vm(&[src(&[], &[nothing().skip()]).skip(), make(&[F(1)], &[])]);
    let Outcome::Aborted(abort) = vm.apply(&[]) else {
        panic!("not aborted");
    };
    assert_eq!(abort.path().collect::<Vec<_>>(), [0, 0]);
    assert_eq!(
        abort.to_string(),
        "the instruction has no operation, at instruction 0.0"
    );
    assert_eq!(vm.state(), []);
}

#[test]
fn protovm_010_nested_instructions_run_after_every_operation() {
    let note = |field| [make(&[F(field)], &[set()])];
    let number = |inner| src(&[F(1)], &[inner]);
    let message = |inner| src(&[F(2)], &[inner]);
    let patch = all(&[nums(&[(1, 5)]), inside(2, &nums(&[(1, 6)]))]);

    let mut loads = vm(&[number(load(0).with(&note(3)))]);
    assert_eq!(loads.apply(&patch), Outcome::Applied);
    assert_eq!(loads.state(), nums(&[(3, 5)]));

    let mut sets = vm(&[message(make(&[F(7)], &[set().with(&note(4))]))]);
    assert_eq!(sets.apply(&patch), Outcome::Applied);
    let whole = all(&[nums(&[(1, 6)]), inside(4, &nums(&[(1, 6)]))]);
    assert_eq!(sets.state(), inside(7, &whole));

    let mut merges = vm(&[message(merge().with(&note(3)))]);
    assert_eq!(merges.apply(&patch), Outcome::Applied);
    assert_eq!(
        merges.state(),
        all(&[nums(&[(1, 6)]), inside(3, &nums(&[(1, 6)]))])
    );

    let mut deletes = vm_with(&[number(del().with(&note(3)))], &nums(&[(9, 9)]));
    assert_eq!(deletes.apply(&patch), Outcome::Applied);
    assert_eq!(deletes.state(), nums(&[(3, 5)]));
}

#[test]
fn protovm_011_registers_stay_and_must_exist_and_be_loaded() {
    // Field 1 is loaded if it is there; field 2 is merged into the element it names.
    let mut vm = vm(&[
        src(&[F(1)], &[load(31)]).skip(),
        src(&[F(2)], &[make(&[Key(5, 1, 31)], &[merge()])]),
    ]);
    let value = inside(2, &nums(&[(2, 22)]));
    assert_eq!(aborted(vm.apply(&value)), Reason::EmptyRegister(31));
    assert_eq!(vm.apply(&nums(&[(1, 6)])), Outcome::Rejected);
    assert_eq!(vm.apply(&value), Outcome::Applied);
    assert_eq!(vm.state(), inside(5, &nums(&[(2, 22)])));

    let beyond = |register| {
        let mut vm = super::support::vm(&[src(&[F(1)], &[load(register)])]);
        vm.apply(&nums(&[(1, 1)]))
    };
    assert_eq!(aborted(beyond(32)), Reason::BadRegister(32));
    assert_eq!(aborted(beyond(255)), Reason::BadRegister(255));
    assert_eq!(beyond(256), Outcome::Applied, "the low eight bits count");
    let key = make(&[Key(1, 1, 32)], &[]);
    assert_eq!(
        aborted(super::support::vm(&[key]).apply(&[])),
        Reason::BadRegister(32)
    );
}

#[test]
fn protovm_011_only_numbers_are_loaded() {
    let mut vm = vm(&[src(&[F(1)], &[load(0)])]);
    assert_eq!(aborted(vm.apply(&inside(1, b"x"))), Reason::NoNumber);
    let fixed = msg(|out| out.fixed32(1, 9));
    assert_eq!(vm.apply(&fixed), Outcome::Applied);

    let of_state = [dst(&[F(1)], &[load_state(0)]), make(&[Key(2, 1, 0)], &[])];
    let mut vm = vm_with(&of_state, &nums(&[(1, 3)]));
    assert_eq!(vm.apply(&[]), Outcome::Applied);
    let mut vm = vm_with(&of_state, &inside(1, b"x"));
    assert_eq!(aborted(vm.apply(&[])), Reason::NoNumber);
}

#[test]
fn protovm_012_nothing_is_made_in_the_patch() {
    let mut vm = vm(&[select(1, true, &[F(1)], &[])]);
    assert_eq!(aborted(vm.apply(&nums(&[(1, 1)]))), Reason::CreateInPatch);
}

#[test]
fn protovm_013_a_loop_takes_each_element_in_order() {
    let append = src(&[Each(1)], &[load(0), make(&[Key(2, 1, 0)], &[set()])]);
    let mut vm = vm(&[src(&[Each(1)], &[nothing()])]);
    assert_eq!(vm.apply(&nums(&[(2, 1)])), Outcome::Applied);

    // The last one wins, so it came last.
    let mut vm = super::support::vm(&[src(&[Each(1)], &[make(&[F(3)], &[set()])])]);
    assert_eq!(
        vm.apply(&nums(&[(1, 7), (2, 0), (1, 8), (1, 9)])),
        Outcome::Applied
    );
    assert_eq!(vm.state(), nums(&[(3, 9)]));

    let mut vm = super::support::vm(&[append]);
    assert_eq!(vm.apply(&nums(&[(1, 7), (1, 9), (1, 8)])), Outcome::Applied);
    assert_eq!(vm.state(), nums(&[(2, 7), (2, 8), (2, 9)]));
}

#[test]
fn protovm_013_a_loop_in_a_loop_and_over_the_state() {
    let patch = msg(|out| {
        for group in [[1, 2], [3, 4]] {
            out.bytes(1, &nums(&[(5, group[0]), (5, group[1])]));
        }
    });
    let mut vm = vm(&[src(
        &[Each(1), Each(5)],
        &[load(0), make(&[Key(2, 1, 0)], &[set()])],
    )]);
    assert_eq!(vm.apply(&patch), Outcome::Applied);
    assert_eq!(vm.state(), nums(&[(2, 1), (2, 2), (2, 3), (2, 4)]));

    // A single value is a list of one.
    let each = [src(&[F(9)], &[dst(&[Each(2)], &[set()])])];
    let mut one = vm_with(&each, &nums(&[(2, 5)]));
    assert_eq!(one.apply(&nums(&[(9, 6)])), Outcome::Applied);
    assert_eq!(one.state(), nums(&[(2, 6)]));
    let mut three = vm_with(&each, &nums(&[(2, 5), (2, 6), (2, 7)]));
    assert_eq!(three.apply(&nums(&[(9, 1)])), Outcome::Applied);
    assert_eq!(three.state(), nums(&[(2, 1), (2, 1), (2, 1)]));
    let both = select(3, true, &[Each(1)], &[]);
    assert_eq!(
        aborted(super::support::vm(&[both]).apply(&[])),
        Reason::LoopOverBoth
    );
}

#[test]
fn protovm_014_a_loop_ends_at_the_first_element_that_fails() {
    let element = |with: bool| {
        inside(
            1,
            &if with {
                nums(&[(2, 1)])
            } else {
                nums(&[(3, 1)])
            },
        )
    };
    let patch = all(&[element(true), element(false), element(true)]);
    let count = || [src(&[F(2)], &[]), make(&[F(7)], &[set()])];
    let mut vm = vm(&[src(&[Each(1)], &count())]);
    assert_eq!(vm.apply(&patch), Outcome::Rejected);
    assert_eq!(vm.state(), inside(7, &nums(&[(2, 1)])));

    let tolerant = src(&[Each(1)], &[src(&[F(2)], &[load(0)]).skip()]);
    assert_eq!(
        super::support::vm(&[tolerant]).apply(&patch),
        Outcome::Applied
    );
}

#[test]
fn protovm_015_a_missing_field_fails_and_a_number_has_none() {
    assert_eq!(vm(&[src(&[F(1)], &[])]).apply(&[]), Outcome::Rejected);
    let deep = [src(&[F(1), F(2)], &[])];
    assert_eq!(vm(&deep).apply(&inside(1, &[])), Outcome::Rejected);
    assert_eq!(
        aborted(vm(&deep).apply(&nums(&[(1, 1)]))),
        Reason::NumberForMessage
    );
    let each = [src(&[F(1), Each(2)], &[])];
    assert_eq!(
        aborted(vm(&each).apply(&nums(&[(1, 1)]))),
        Reason::NumberForMessage
    );
    // The same in the state, unless fields are to be made.
    assert_eq!(vm(&[dst(&[F(1)], &[])]).apply(&[]), Outcome::Rejected);
    assert_eq!(vm(&[make(&[F(1)], &[])]).apply(&[]), Outcome::Applied);
    let mut number = vm_with(&[make(&[F(1), F(2)], &[])], &nums(&[(1, 1)]));
    assert_eq!(aborted(number.apply(&[])), Reason::NumberForMessage);
    let component = [src(&[Nothing], &[])];
    assert_eq!(aborted(vm(&component).apply(&[])), Reason::NoField);
}

#[test]
fn protovm_016_keys_are_for_the_state_and_lists_with_keys_for_nothing_else() {
    let loaded = [load_first(), src(&[Key(1, 1, 0)], &[])];
    assert_eq!(
        aborted(vm(&loaded).apply(&nums(&[(1, 1)]))),
        Reason::KeyInPatch
    );
    for other in [dst(&[Each(5)], &[]), make(&[At(5, 0)], &[])] {
        let program = [load_first(), make(&[Key(5, 1, 0)], &[]), other];
        assert_eq!(
            aborted(vm(&program).apply(&nums(&[(1, 1)]))),
            Reason::KeyedList
        );
    }
    let value = [load_first(), make(&[Key(5, 1, 0)], &[]), make(&[F(5)], &[])];
    assert_eq!(
        aborted(vm(&value).apply(&nums(&[(1, 1)]))),
        Reason::ListForValue(5)
    );
    // Nor is a list with indices one value.
    let indexed = [make(&[At(5, 0)], &[]), make(&[F(5)], &[])];
    assert_eq!(aborted(vm(&indexed).apply(&[])), Reason::ListForValue(5));
}

fn load_first() -> Instruction {
    src(&[F(1)], &[load(0)])
}

#[test]
fn protovm_017_looking_up_makes_the_element() {
    let drop = [load_first(), dst(&[Key(5, 1, 0)], &[del()])];
    // Without the list it is an error, with it the element is made and deleted.
    assert_eq!(vm(&drop).apply(&nums(&[(1, 4)])), Outcome::Rejected);
    let state = inside(5, &nums(&[(1, 3)]));
    let mut vm = vm_with(&drop, &state);
    assert_eq!(vm.apply(&nums(&[(1, 4)])), Outcome::Applied);
    assert_eq!(vm.state(), state);
    assert_eq!(vm.apply(&nums(&[(1, 3)])), Outcome::Applied);
    assert_eq!(vm.state(), []);
}

#[test]
fn protovm_018_an_index_may_be_one_behind_the_end() {
    let at = |index| [src(&[F(1)], &[dst(&[At(5, index)], &[set()])])];
    let state = nums(&[(5, 10), (5, 11)]);
    let patch = nums(&[(1, 99)]);
    let after = |index| {
        let mut vm = vm_with(&at(index), &state);
        (vm.apply(&patch), vm.state())
    };
    assert_eq!(after(1), (Outcome::Applied, nums(&[(5, 10), (5, 99)])));
    assert_eq!(
        after(2),
        (Outcome::Applied, nums(&[(5, 10), (5, 11), (5, 99)]))
    );
    assert_eq!(aborted(after(3).0), Reason::IndexBehindEnd(3));
    // Made even where nothing is to be made.
    let mut empty = vm(&at(0));
    assert_eq!(empty.apply(&patch), Outcome::Applied);
    assert_eq!(empty.state(), nums(&[(5, 99)]));
}

#[test]
fn protovm_018_an_index_in_the_patch() {
    let third = [src(&[At(1, 2)], &[make(&[F(2)], &[set()])])];
    let messages = |count| {
        msg(|out| {
            for id in 0..count {
                out.bytes(1, &nums(&[(1, id)]));
            }
        })
    };
    let mut vm = vm(&third);
    assert_eq!(vm.apply(&messages(2)), Outcome::Rejected);
    assert_eq!(vm.apply(&messages(3)), Outcome::Applied);
    assert_eq!(vm.state(), inside(2, &nums(&[(1, 2)])));
    // Upstream does not define a number there.
    assert_eq!(
        aborted(vm.apply(&nums(&[(1, 1), (1, 1), (1, 1)]))),
        Reason::NumberForMessage
    );
}

#[test]
fn protovm_040_programs_are_bounded() {
    let mut deep = src(&[], &[]);
    for _ in 1..MAX_DEPTH {
        deep = src(&[], &[deep]);
    }
    let program = |instruction: &Instruction| {
        Program::parse(&program_bytes(std::slice::from_ref(instruction)))
    };
    assert!(program(&deep).is_ok());
    assert_eq!(
        program(&src(&[], &[deep.clone()])).unwrap_err(),
        ProgramError::TooDeep
    );
    // Steps of paths are levels, too.
    let path = [F(1); MAX_DEPTH];
    assert_eq!(
        program(&src(&path, &[])).unwrap_err(),
        ProgramError::TooDeep
    );
    let many = vec![del(); MAX_INSTRUCTIONS + 1];
    assert_eq!(
        Program::parse(&program_bytes(&many)).unwrap_err(),
        ProgramError::TooManyInstructions
    );
    assert!(Program::parse(&program_bytes(&many[1..])).is_ok());
}

#[test]
fn protovm_040_the_deepest_program_runs() {
    let mut deep = make(&[F(1)], &[]);
    for _ in 0..(MAX_DEPTH - 2) / 2 {
        deep = make(&[F(1)], &[deep]);
    }
    let program = program(&[deep]);
    let mut vm = Vm::new(program, 1 << 20);
    assert_eq!(vm.apply(&[]), Outcome::Applied);
    assert!(!vm.state().is_empty());
}

#[test]
fn protovm_040_a_patch_takes_only_so_many_steps() {
    // A loop over the state for each element of the patch.
    let elements: Vec<_> = (0..2000).map(|n| (2, n)).collect();
    let program = [src(
        &[Each(1)],
        &[dst(&[Each(2)], &[load_state(0), load_state(1)])],
    )];
    let mut vm = vm_with(&program, &nums(&elements));
    let once = nums(&[(1, 1)]);
    assert_eq!(vm.apply(&once), Outcome::Applied);
    let often = nums(&[(1, 1); 500]);
    assert_eq!(aborted(vm.apply(&often)), Reason::TooManySteps);
    // The next one has steps of its own.
    assert_eq!(vm.apply(&nums(&[(1, 1)])), Outcome::Applied);
}
