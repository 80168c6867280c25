//! Writing: set, merge, del.

use ferretto_protovm::{Outcome, Reason};

use crate::support::Part::{At, Each, F, Key};
use crate::support::*;

#[test]
fn protovm_019_set_replaces_values_of_the_same_kind() {
    let set_field = [src(&[F(1)], &[make(&[F(5)], &[set()])])];
    let mut bytes = vm_with(&set_field, &inside(5, b"text"));
    assert_eq!(aborted(bytes.apply(&nums(&[(1, 1)]))), Reason::Incompatible);
    let mut number = vm_with(&set_field, &nums(&[(5, 1)]));
    assert_eq!(
        aborted(number.apply(&inside(1, b"text"))),
        Reason::Incompatible
    );
    assert_eq!(number.apply(&nums(&[(1, 2)])), Outcome::Applied);
    assert_eq!(number.state(), nums(&[(5, 2)]));

    // A message, even one that was entered, is replaced as a whole.
    let enter = make(&[F(5), F(3)], &[]);
    let mut message = vm_with(
        &[enter, src(&[F(1)], &[make(&[F(5)], &[set()])])],
        &inside(5, &nums(&[(1, 1), (3, 3)])),
    );
    assert_eq!(
        message.apply(&inside(1, &nums(&[(2, 2)]))),
        Outcome::Applied
    );
    assert_eq!(message.state(), inside(5, &nums(&[(2, 2)])));
    assert_eq!(message.apply(&inside(1, &[])), Outcome::Applied);
    assert_eq!(message.state(), inside(5, &[]));
}

#[test]
fn protovm_019_wire_types_survive() {
    let copy = |field| src(&[F(field)], &[make(&[F(field)], &[set()])]);
    let mut vm = vm(&[copy(1), copy(2), copy(3)]);
    let patch = msg(|out| {
        out.fixed32(1, 7);
        out.fixed64(2, 8);
        out.int(3, -1);
    });
    assert_eq!(vm.apply(&patch), Outcome::Applied);
    assert_eq!(vm.state(), patch);
}

#[test]
fn protovm_020_merging_nothing_changes_nothing() {
    let merge_field = [src(&[F(1)], &[make(&[F(5)], &[merge()])])];
    let mut vm = vm(&merge_field);
    assert_eq!(vm.apply(&inside(1, &[])), Outcome::Applied);
    assert_eq!(
        vm.state(),
        [],
        "the field is selected, but still has no value"
    );
    let state = inside(5, &nums(&[(1, 1)]));
    let mut vm = vm_with(&merge_field, &state);
    assert_eq!(vm.apply(&inside(1, &[])), Outcome::Applied);
    assert_eq!(vm.state(), state);
    assert_eq!(
        aborted(vm.apply(&nums(&[(1, 1)]))),
        Reason::NumberForMessage
    );
}

#[test]
fn protovm_021_merge_replaces_field_by_field() {
    let state = all(&[
        nums(&[(1, 1), (2, 2), (3, 30), (3, 31), (3, 32)]),
        inside(4, b"old"),
    ]);
    let mut vm = vm_with(&[merge()], &state);
    let patch = all(&[nums(&[(2, 20), (3, 5)]), inside(4, b"new")]);
    assert_eq!(vm.apply(&patch), Outcome::Applied);
    assert_eq!(
        vm.state(),
        all(&[nums(&[(1, 1), (2, 20), (3, 5)]), inside(4, b"new")])
    );
    // Each patch replaces the list, by as many as it has.
    for elements in [[(3, 6), (3, 7)], [(3, 8), (3, 9)]] {
        assert_eq!(vm.apply(&nums(&elements)), Outcome::Applied);
        let lists = all(&[nums(&[(1, 1), (2, 20)]), nums(&elements), inside(4, b"new")]);
        assert_eq!(vm.state(), lists);
    }
    // A number may become a string, and two of a field that was none a list.
    assert_eq!(vm.apply(&inside(1, b"now")), Outcome::Applied);
    assert_eq!(vm.apply(&nums(&[(9, 1), (9, 2), (9, 3)])), Outcome::Applied);
    assert_eq!(vm.state()[..5], inside(1, b"now"));
    assert!(vm.state().ends_with(&nums(&[(9, 1), (9, 2), (9, 3)])));
}

#[test]
fn protovm_021_a_merge_that_was_given_up_leaves_no_trace_in_the_next() {
    // The list is replaced again, though the merge before stopped after beginning it.
    let key = [
        src(&[F(7)], &[load(0), make(&[Key(8, 1, 0)], &[])]).skip(),
        merge(),
    ];
    let mut vm = vm_with(&key, &nums(&[(3, 1), (3, 2)]));
    assert_eq!(
        aborted(vm.apply(&all(&[nums(&[(3, 5), (3, 6), (7, 1)]), inside(8, b"x")]))),
        Reason::KeyedList
    );
    assert_eq!(vm.apply(&nums(&[(3, 9)])), Outcome::Applied);
    assert!(
        vm.state().starts_with(&nums(&[(3, 9), (7, 1)])),
        "{:?}",
        vm.state()
    );
}

#[test]
fn protovm_022_empty_values_delete_where_asked_to() {
    let state = all(&[
        inside(1, b"text"),
        nums(&[(2, 1), (2, 2)]),
        inside(3, &nums(&[(1, 1)])),
        nums(&[(4, 4)]),
    ]);
    let empty = |field| inside(field, &[]);
    let patch = all(&[empty(1), empty(2), empty(3), empty(9)]);
    let mut vm = vm_with(&[merge_with(false, true)], &state);
    assert_eq!(vm.apply(&patch), Outcome::Applied);
    assert_eq!(vm.state(), all(&[nums(&[(4, 4)]), empty(9)]));
    assert_eq!(vm.apply(&all(&[empty(9)])), Outcome::Applied);
    assert_eq!(vm.state(), nums(&[(4, 4)]));

    let mut plain = vm_with(&[merge()], &inside(1, b"text"));
    assert_eq!(plain.apply(&empty(1)), Outcome::Applied);
    assert_eq!(plain.state(), empty(1));
}

#[test]
fn protovm_023_messages_that_were_entered_are_left_alone_where_asked_to() {
    // As a recursive merge is compiled: the message first, then all around it.
    let recursive = |skip| {
        [
            src(&[F(5)], &[make(&[F(5)], &[merge()])]).skip(),
            merge_with(skip, false),
        ]
    };
    let state = all(&[
        inside(5, &nums(&[(1, 1), (2, 2)])),
        inside(6, &nums(&[(1, 1), (2, 2)])),
    ]);
    let patch = all(&[inside(5, &nums(&[(2, 9)])), inside(6, &nums(&[(2, 9)]))]);
    let mut deep = vm_with(&recursive(true), &state);
    assert_eq!(deep.apply(&patch), Outcome::Applied);
    let merged = all(&[
        inside(5, &nums(&[(1, 1), (2, 9)])),
        inside(6, &nums(&[(2, 9)])),
    ]);
    assert_eq!(deep.state(), merged);
    let mut flat = vm_with(&recursive(false), &state);
    assert_eq!(flat.apply(&patch), Outcome::Applied);
    assert_eq!(flat.state(), patch);
}

#[test]
fn protovm_024_a_list_with_keys_is_not_merged() {
    let program = [
        src(&[F(1)], &[load(0)]),
        make(&[Key(5, 1, 0)], &[]),
        src(&[F(2)], &[merge()]),
    ];
    let patch = all(&[nums(&[(1, 1)]), inside(2, &inside(5, &nums(&[(1, 1)])))]);
    assert_eq!(aborted(vm(&program).apply(&patch)), Reason::KeyedList);
}

#[test]
fn protovm_025_del_takes_out_what_is_selected() {
    let elements = |ids: &[u64]| {
        all(&ids
            .iter()
            .map(|id| inside(5, &nums(&[(1, *id)])))
            .collect::<Vec<_>>())
    };
    let drop = [src(&[Each(1)], &[load(0), dst(&[Key(5, 1, 0)], &[del()])])];
    let mut vm = vm_with(&drop, &elements(&[4, 2, 3]));
    assert_eq!(vm.apply(&nums(&[(1, 2)])), Outcome::Applied);
    assert_eq!(vm.state(), elements(&[3, 4]));

    let field = [dst(&[F(5)], &[dst(&[F(1)], &[del()])])];
    let mut one = vm_with(&field, &inside(5, &nums(&[(1, 1), (2, 2)])));
    assert_eq!(one.apply(&[]), Outcome::Applied);
    assert_eq!(one.state(), inside(5, &nums(&[(2, 2)])));

    // An element of a list: those behind it keep their index.
    let second = |inner| [src(&[F(1)], &[dst(&[At(5, 1)], &[inner])])];
    let mut list = vm_with(&second(del()), &nums(&[(5, 1), (5, 2), (5, 3)]));
    assert_eq!(list.apply(&nums(&[(1, 0)])), Outcome::Applied);
    assert_eq!(list.state(), nums(&[(5, 1), (5, 3)]));
}

#[test]
fn protovm_025_del_of_the_root_empties_the_state() {
    let program = [
        src(&[F(1)], &[del()]).skip(),
        src(&[F(2)], &[merge()]).skip(),
    ];
    let mut vm = vm_with(&program, &nums(&[(1, 1)]));
    assert_eq!(vm.apply(&nums(&[(1, 1)])), Outcome::Applied);
    assert_eq!(vm.state(), []);
    assert_eq!(vm.memory_usage(), vm.program().as_bytes().len() as u64);
    assert_eq!(vm.apply(&inside(2, &nums(&[(7, 7)]))), Outcome::Applied);
    assert_eq!(vm.state(), nums(&[(7, 7)]));
    // In a loop each element is a root.
    let mut list = vm_with(
        &[dst(&[Each(5)], &[del().with(&[set()])])],
        &nums(&[(5, 1), (5, 2)]),
    );
    assert_eq!(list.apply(b""), Outcome::Applied);
    assert_eq!(list.state(), all(&[inside(5, b""), inside(5, b"")]));
}

#[test]
fn protovm_026_only_what_the_select_around_it_selected_is_deleted() {
    let state = inside(5, &nums(&[(1, 1)]));
    for around in [src(&[F(1)], &[del()]), dst(&[], &[del()])] {
        let mut vm = vm_with(&[dst(&[F(5)], &[around])], &state);
        assert_eq!(
            aborted(vm.apply(&nums(&[(1, 1)]))),
            Reason::DeleteNotSelected
        );
        assert_eq!(vm.state(), state);
    }
    // Other instructions in between do not matter, and the root may always be deleted.
    let merged = [dst(&[F(5)], &[merge().with(&[del()])])];
    let mut vm = vm_with(&merged, &state);
    assert_eq!(vm.apply(&nums(&[(1, 1)])), Outcome::Applied);
    assert_eq!(vm.state(), []);
    let mut root = vm_with(&[src(&[F(1)], &[del()])], &state);
    assert_eq!(root.apply(&nums(&[(1, 1)])), Outcome::Applied);
    assert_eq!(root.state(), []);
}

#[test]
fn protovm_027_what_was_deleted_is_not_used() {
    for use_it in [
        del(),
        set(),
        merge(),
        load_state(0),
        dst(&[F(1)], &[]),
        make(&[F(1)], &[]),
        make(&[Each(1)], &[]),
    ] {
        let mut vm = vm_with(&[dst(&[F(5)], &[del(), use_it])], &inside(5, &[]));
        assert_eq!(aborted(vm.apply(&nums(&[(1, 1)]))), Reason::Deleted);
        assert_eq!(vm.state(), []);
    }
    // The patch is still there, and so is its surrounding.
    let mut vm = vm_with(
        &[
            dst(&[F(5)], &[del(), src(&[F(1)], &[load(0)])]),
            make(&[Key(6, 1, 0)], &[set()]),
        ],
        &inside(5, &[]),
    );
    assert_eq!(vm.apply(&nums(&[(1, 1)])), Outcome::Applied);
}

/// Elements of field 1 by the id in their field 1: those in field 2 of the patch are deleted, in 3
/// merged, in 4 replaced.
fn elements() -> Vec<Instruction> {
    let by_id = |field, create, operation: Instruction| {
        let element = select(2, create, &[Key(1, 1, 0)], &[operation]);
        src(&[Each(field)], &[src(&[F(1)], &[load(0)]), element])
    };
    vec![
        src(&[Each(2)], &[load(0), dst(&[Key(1, 1, 0)], &[del()])]),
        by_id(3, true, merge()),
        by_id(4, true, set()),
    ]
}

fn element(field: u32, id: u64, value: Option<u64>) -> Vec<u8> {
    let value = value.map(|value| (2, value));
    inside(
        field,
        &nums(
            &[Some((1, id)), value]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>(),
        ),
    )
}

#[test]
fn protovm_028_elements_are_set_whole() {
    let mut vm = vm(&elements());
    let first = all(&[element(4, 0, Some(10)), element(4, 1, Some(11))]);
    assert_eq!(vm.apply(&first), Outcome::Applied);
    let second = all(&[element(4, 0, None), element(4, 1, Some(101))]);
    assert_eq!(vm.apply(&second), Outcome::Applied);
    assert_eq!(
        vm.state(),
        all(&[element(1, 0, None), element(1, 1, Some(101))])
    );
    let merged = all(&[
        element(3, 0, Some(7)),
        element(3, 2, Some(9)),
        nums(&[(2, 1)]),
    ]);
    assert_eq!(vm.apply(&merged), Outcome::Applied);
    assert_eq!(
        vm.state(),
        all(&[element(1, 0, Some(7)), element(1, 2, Some(9))])
    );
}
