//! Tests of scheduling events in compact form.

use super::support::*;

fn switch_format(state_size: u16, comm_size: u16) -> EventFormat {
    let comm = format!("char next_comm[{comm_size}]");
    let fields = [
        ("char prev_comm[16]", 8, 16, 0),
        ("pid_t prev_pid", 24, 4, 1),
        ("int prev_prio", 28, 4, 1),
        ("long prev_state", 32, state_size, 1),
        (comm.as_str(), 40, comm_size, 0),
        ("pid_t next_pid", 72, 4, 1),
        ("int next_prio", 76, 4, 1),
    ];
    EventFormat::parse(&format("sched_switch", SWITCH, &fields)).expect("a format")
}

fn waking_format() -> EventFormat {
    let fields = [
        ("char comm[16]", 8, 16, 0),
        ("pid_t pid", 24, 4, 1),
        ("int prio", 28, 4, 1),
        ("int target_cpu", 32, 4, 1),
    ];
    EventFormat::parse(&format("sched_waking", WAKING, &fields)).expect("a format")
}

/// A switch from thread 1.
pub(super) fn switch_record(comm: &str, state: i64, pid: i32) -> Vec<u8> {
    switch_from(1, comm, state, pid)
}

fn switch_from(prev: i32, comm: &str, state: i64, pid: i32) -> Vec<u8> {
    let mut record = head(SWITCH, prev);
    record.resize(80, 0);
    record[8..12].copy_from_slice(b"prev");
    record[24..28].copy_from_slice(&prev.to_le_bytes());
    record[32..40].copy_from_slice(&state.to_le_bytes());
    record[40..40 + comm.len()].copy_from_slice(comm.as_bytes());
    record[72..76].copy_from_slice(&pid.to_le_bytes());
    record[76..80].copy_from_slice(&120i32.to_le_bytes());
    record
}

/// A wake-up of thread 22.
fn waking_record(waker: i32) -> Vec<u8> {
    let mut waking = head(WAKING, waker);
    waking[2] = 5;
    waking.extend(b"b\0garbage\0\0\0\0\0\0\0");
    for value in [22i32, 100, 1] {
        waking.extend(value.to_le_bytes());
    }
    waking
}

pub(super) fn compact_plan() -> Plan {
    let mut plan = plan();
    plan.compact = CompactFormat::new(&switch_format(8, 16), &waking_format());
    assert!(plan.compact.is_some());
    let switch = find("sched", "sched_switch").expect("a known event");
    let switch = EventDecoder::known(&switch, &switch_format(8, 16));
    plan.set_action(SWITCH, Action::CompactSwitch(Arc::new(switch)));
    plan.set_action(WAKING, Action::CompactWaking);
    plan
}

#[test]
fn probes_042_compact_arrays_match_and_times_are_deltas() {
    let page = PageBuilder::new(1000)
        .record(5, &switch_record("a", 1, 11))
        .record(5, &waking_record(11))
        .record(5, &switch_from(11, "b", -1, 22))
        .record(5, &switch_from(22, "a", 0, 11))
        .build();
    let mut state = CpuState::default();
    let outcome = parse_with(&compact_plan(), &[page], &mut state);
    let sched = outcome.bundles[0]
        .compact_sched
        .as_option()
        .expect("compact events");
    assert!(outcome.bundles[0].event.is_empty());
    assert_eq!(sched.intern_table, [b"a".to_vec(), b"b".to_vec()]);
    assert_eq!(sched.switch_timestamp, [1005, 10, 5]);
    assert_eq!(sched.switch_prev_state, [1, -1, 0]);
    assert_eq!(sched.switch_next_pid, [11, 22, 11]);
    assert_eq!(sched.switch_next_prio, [120; 3]);
    assert_eq!(sched.switch_next_comm_index, [0, 1, 0]);
    assert_eq!(
        (&sched.waking_timestamp[..], &sched.waking_pid[..]),
        (&[1010][..], &[22][..])
    );
    assert_eq!(
        (&sched.waking_prio[..], &sched.waking_target_cpu[..]),
        (&[100][..], &[1][..])
    );
    assert_eq!(
        (&sched.waking_comm_index[..], &sched.waking_common_flags[..]),
        (&[1][..], &[5][..])
    );
    assert_eq!(state.end_timestamp, 1020);
    assert_eq!(outcome.metadata.pids(), [11, 22]);
    assert_eq!(state.running, Some(11));
}

#[test]
fn events_whose_thread_readers_could_not_know_are_written_whole() {
    // The switch from the idle task to thread 7 is missing.
    let page = PageBuilder::new(1000)
        .record(5, &switch_from(5, "swapper/1", 1, 0))
        .record(5, &waking_record(0))
        .record(5, &waking_record(7))
        .record(5, &switch_from(7, "b", 2, 22))
        .record(5, &waking_record(22))
        .record(5, &switch_from(22, "c", 0, 33))
        .build();
    let outcome = parse_with(&compact_plan(), &[page], &mut CpuState::default());
    let bundle = &outcome.bundles[0];
    assert_eq!(times(bundle), [1015, 1020]);
    assert_eq!([bundle.event[0].pid, bundle.event[1].pid], [Some(7); 2]);
    assert_eq!(bundle.event[0].common_flags, Some(5));
    let Some(Event::SchedWaking(waking)) = &bundle.event[0].event else {
        panic!("a wake-up");
    };
    assert_eq!(waking.comm.as_deref(), Some(&b"b"[..]));
    assert_eq!((waking.pid, waking.prio), (Some(22), Some(100)));
    assert_eq!((waking.success, waking.target_cpu), (Some(1), Some(1)));
    let Some(Event::SchedSwitch(switch)) = &bundle.event[1].event else {
        panic!("a switch");
    };
    assert_eq!((switch.prev_pid, switch.next_pid), (Some(7), Some(22)));
    assert_eq!(switch.prev_comm.as_deref(), Some(&b"prev"[..]));
    assert_eq!((switch.prev_state, switch.next_prio), (Some(2), Some(120)));
    let sched = bundle.compact_sched.as_option().expect("compact events");
    assert_eq!(sched.switch_timestamp, [1005, 25]);
    assert_eq!(sched.waking_timestamp, [1010, 15]);
}

#[test]
fn the_first_switch_after_a_loss_names_its_thread() {
    let before = PageBuilder::new(1000).record(5, &switch_from(1, "a", 1, 11));
    let after = PageBuilder::new(2000).record(5, &switch_from(7, "b", 1, 22));
    let mut state = CpuState::default();
    let pages = [before.build(), after.flags(1 << 31).build()];
    let outcome = parse_with(&compact_plan(), &pages, &mut state);
    assert_eq!(outcome.bundles[1].lost_events, Some(true));
    assert_eq!(times(&outcome.bundles[1]), [2005]);
}

#[test]
fn probes_043_many_names_begin_a_new_bundle_at_the_next_page() {
    let page = |first: usize| {
        let names = (first..first + 40).map(|n| format!("task {n}"));
        names
            .fold(PageBuilder::new(1000), |page, name| {
                page.record(1, &switch_record(&name, 0, 1))
            })
            .build()
    };
    let outcome = parse_with(
        &compact_plan(),
        &[page(0), page(40), page(80)],
        &mut CpuState::default(),
    );
    let tables = outcome
        .bundles
        .iter()
        .map(|b| b.compact_sched.intern_table.len());
    assert_eq!(tables.collect::<Vec<_>>(), [80, 40]);
    assert_eq!(outcome.bundles[1].compact_sched.switch_timestamp[0], 1001);
}

#[test]
fn probes_044_compact_layouts_are_checked() {
    let waking = waking_format();
    assert!(CompactFormat::new(&switch_format(4, 16), &waking).is_some());
    assert!(CompactFormat::new(&switch_format(2, 16), &waking).is_none());
    assert!(CompactFormat::new(&switch_format(8, 32), &waking).is_none());
    let short = PageBuilder::new(1)
        .record(1, &switch_record("a", 0, 1)[..76])
        .build();
    let outcome = parse_with(&compact_plan(), &[short], &mut CpuState::default());
    assert_eq!(
        outcome.errors,
        BTreeSet::from([ParseStatus::ShortCompactEvent])
    );
}
