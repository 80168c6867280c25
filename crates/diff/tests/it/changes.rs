//! Planted changes of made recordings are found and ranked first, and recordings of the same have
//! none.

use ferretto_diff::{Change, Comparison, Kind, Limits, Recording};

use crate::made::Step::{
    self, Beside, Calls, CallsOf, Clearing, Contended, Counter, Crowded, Fork, Lock, Memory,
    Packets, Ready, Run, Sleep, Slice,
};
use crate::made::{recording, recordings, trace};

/// The steps of the command before any change.
const BASE: [Step; 8] = [
    Run(20_000),
    Lock(4_000),
    Slice("request", 10_000),
    Sleep(5_000),
    Ready(1_000),
    Slice("request", 10_000),
    Calls(30),
    Run(10_000),
];

/// The usual variation between recordings.
const VARIATION: f64 = 0.02;

fn compare(before: &[Step], after: &[Step], seed: u64) -> Comparison {
    let before = [recording(before, VARIATION, seed)];
    let after = [recording(after, VARIATION, seed + 1)];
    Comparison::new(&before, &after, &Limits::default())
}

/// Returns the steps with a change.
fn with(at: usize, step: Step) -> Vec<Step> {
    let mut steps = BASE.to_vec();
    steps[at] = step;
    steps
}

fn first(comparison: &Comparison) -> &Change {
    comparison.changes.first().expect("a change")
}

#[test]
fn the_same_has_no_changes() {
    // 300 pairs.
    let all: Vec<_> = (0..25)
        .map(|seed| [recording(&BASE, VARIATION, seed)])
        .collect();
    for (at, before) in all.iter().enumerate() {
        for after in &all[at + 1..] {
            let comparison = Comparison::new(before, after, &Limits::default());
            assert!(comparison.is_empty(), "{at}: {comparison:#?}");
            assert!(comparison.tested > 4, "{comparison:#?}");
        }
    }
}

#[test]
fn sets_of_the_same_have_no_changes() {
    // More variation than is assumed has to be learnt from the sets.
    for (seed, variation) in (0..30).zip([0.02, 0.1, 0.3].into_iter().cycle()) {
        let before = recordings(&BASE, variation, seed * 10..seed * 10 + 5);
        let after = recordings(&BASE, variation, seed * 10 + 5..seed * 10 + 10);
        let comparison = Comparison::new(&before, &after, &Limits::default());
        assert!(comparison.is_empty(), "{seed} {variation}: {comparison:#?}");
    }
}

#[test]
fn planted_changes_are_first() {
    type Is = fn(&Change) -> bool;
    let planted: [(Vec<Step>, Is); 6] = [
        (with(0, Run(32_000)), |it| {
            it.feature.thread == "app" && it.feature.name == "ran its own code"
        }),
        (with(1, Lock(24_000)), |it| {
            it.feature.thread == "peer" && it.via == "app waited for a lock"
        }),
        (with(3, Sleep(25_000)), |it| {
            it.feature.name == "waited for a timer"
        }),
        (with(4, Ready(40_000)), |it| {
            it.feature.name == "waited for a CPU" && it.feature.detail == "neighbour had it"
        }),
        (with(6, Calls(8_000)), |it| {
            it.feature.name == "ran in system calls" && it.mostly == "getppid"
        }),
        (with(5, Slice("request", 40_000)), |it| {
            it.feature.thread == "app" && it.feature.name == "ran its own code"
        }),
    ];
    for (number, (steps, is)) in planted.iter().enumerate() {
        let comparison = compare(&BASE, steps, 1000 + 2 * number as u64);
        // One recording each does not tell if the machine is always so busy.
        let first = comparison.changes.first().or(comparison.possible.first());
        let first = first.expect("a change");
        assert!(is(first), "{number}: {comparison:#?}");
        assert!(first.difference() > 0.0);
        let backwards = compare(steps, &BASE, 1000 + 2 * number as u64);
        assert!(
            [&backwards.changes, &backwards.possible]
                .into_iter()
                .flatten()
                .any(|it| it.difference() < 0.0),
            "{backwards:#?}"
        );
    }
}

#[test]
fn a_busy_other_cpu_makes_longer_work_only_possible() {
    // The other thread of a core makes the same work take longer.
    let crowded = compare(&[Crowded(60_000)], &[Crowded(90_000)], 40);
    assert!(crowded.changes.is_empty(), "{crowded:#?}");
    assert!(!crowded.possible.is_empty(), "{crowded:#?}");
    let alone = compare(&[Run(60_000)], &[Run(90_000)], 40);
    assert_eq!(first(&alone).feature.thread, "app");
    // More than that is work.
    let twice = compare(&[Crowded(60_000)], &[Crowded(180_000)], 40);
    assert_eq!(first(&twice).feature.thread, "app");
}

#[test]
fn calls_that_another_process_has_less_are_only_possible() {
    let steps = |own, others| [Run(30_000), Calls(own), CallsOf(300, "cat", others)];
    let moved = compare(&steps(300, 1500), &steps(900, 900), 50);
    assert!(moved.changes.is_empty(), "{moved:#?}");
    assert!(!moved.possible.is_empty(), "{moved:#?}");
    let more = compare(&steps(300, 1500), &steps(900, 1500), 50);
    let is_calls = |it: &Change| it.feature.kind == Kind::Calls && it.feature.detail == "getppid";
    assert!(more.changes.iter().any(is_calls), "{more:#?}");
}

#[test]
fn clearing_as_many_pages_for_longer_is_only_possible() {
    const FEW: Step = Packets(
        "packet { trace_attributes {
            attribute { key: 'ferretto.command.minor_faults' long_value: 5000 } } }",
    );
    const MANY: Step = Packets(
        "packet { trace_attributes {
            attribute { key: 'ferretto.command.minor_faults' long_value: 25000 } } }",
    );
    let steps = |us, faults| [Run(30_000), Clearing(300, "cc1", us), faults];
    let is_clearing = |it: &Change| it.feature.detail == "clear_page_erms";
    // Faults are counted for the command, and not for the process that it started.
    let longer = compare(&steps(20_000, FEW), &steps(90_000, FEW), 60);
    assert!(!longer.changes.iter().any(is_clearing), "{longer:#?}");
    let more = compare(&steps(20_000, FEW), &steps(90_000, MANY), 60);
    assert!(more.changes.iter().any(is_clearing), "{more:#?}");
}

#[test]
fn durations_of_slices_are_compared_by_name() {
    let steps = |us| [Slice("request", us); 40];
    let comparison = compare(&steps(1_000), &steps(1_500), 7);
    let median = comparison
        .effects
        .iter()
        .find(|it| it.feature.kind == Kind::Median);
    let median = median.expect("a change");
    assert_eq!(median.feature.name, "request");
    assert!(
        (450_000.0..550_000.0).contains(&median.difference()),
        "{median:?}"
    );
}

/// Returns the steps of a command whose counter and memory grow from 10 and 4 MiB on.
fn growing(values: u64, kib: u64) -> Vec<Step> {
    let steps = |at: u64| {
        [
            Run(5_000),
            Counter(10 + values * at),
            Memory(4096 + kib * at),
        ]
    };
    (0..16).flat_map(steps).collect()
}

#[test]
fn time_that_the_host_took_is_not_claimed() {
    const NONE: Step = Packets(
        "packet { timestamp: TIME sys_stats { cpu_stat { cpu_id: 0 steal_ns: 70000000 } } }",
    );
    const SOME: Step = Packets(
        "packet { timestamp: TIME sys_stats { cpu_stat { cpu_id: 0 steal_ns: 90000000 } } }",
    );
    let around = |steps: &[Step], last: Step| [&[NONE], steps, &[last, Run(10), last]].concat();
    let before = around(&BASE, NONE);
    let longer = with(0, Run(32_000));
    let own = compare(&before, &around(&longer, NONE), 70);
    assert_eq!(first(&own).feature.name, "ran its own code");
    // The host had the CPU for 20 ms: it may have been this thread's.
    let stolen = compare(&before, &around(&longer, SOME), 70);
    assert!(stolen.changes.is_empty(), "{stolen:#?}");
    assert!(!stolen.possible.is_empty(), "{stolen:#?}");
    // So it may if the host's time is only known after the end of a chosen range.
    let until_last = |steps: &[Step], seed| {
        let trace = trace(steps, VARIATION, seed);
        let times = trace.tables().counter.ts();
        let (first, last) = (times.get(0), times.get(times.len() as u32 - 1));
        [Recording::new(&trace, Some(first..last))]
    };
    const MUCH: Step = Packets(
        "packet { timestamp: TIME sys_stats { cpu_stat { cpu_id: 0 steal_ns: 470000000 } } }",
    );
    let mut idle = with(3, Sleep(400_000));
    let before = until_last(&[&[NONE], &idle[..], &[NONE]].concat(), 70);
    idle[0] = Run(150_000);
    let after = |last| until_last(&[&[NONE], &idle[..], &[SOME, Run(10), last]].concat(), 71);
    let compare = |after: &[Recording]| Comparison::new(&before, after, &Limits::default());
    let own = compare(&after(SOME));
    assert!(!own.changes.is_empty(), "{own:#?}");
    let stolen = compare(&after(MUCH));
    assert!(stolen.changes.is_empty(), "{stolen:#?}");
    assert!(!stolen.possible.is_empty(), "{stolen:#?}");
}

#[test]
fn copying_page_tables_for_longer_is_only_possible() {
    let forks = |us: [u64; 2]| us.map(|us| [&BASE[..], &[Fork(us)]].concat());
    let [before, after] = forks([6_000, 20_000]);
    let longer = compare(&before, &after, 90);
    assert!(longer.changes.is_empty(), "{longer:#?}");
    let possible = longer.possible.first().expect("a possible change");
    assert_eq!(possible.feature.text(), "app: ran in system calls: clone");
}

#[test]
fn memory_that_comes_and_goes_did_not_grow() {
    let samples = |kib: [u64; 6]| -> Vec<Step> {
        let steps = kib.into_iter().flat_map(|kib| [Memory(kib), Run(5_000)]);
        steps.collect()
    };
    let [low, high] = [
        [10_000, 14_000, 9_000, 18_000, 10_000, 12_000],
        [10_000, 70_000, 15_000, 82_000, 9_000, 60_000],
    ];
    let changed = compare(&samples(low), &samples(high), 95);
    assert!(changed.changes.is_empty(), "{changed:#?}");
    let steady = [10_000, 25_000, 40_000, 54_000, 68_000, 82_000];
    let grown = compare(&samples(low.map(|_| 10_000)), &samples(steady), 95);
    assert_eq!(first(&grown).feature.text(), "app: memory, growth");
}

#[test]
fn waits_of_others_and_of_idle_threads_are_no_changes_of_ranges() {
    let steps = [
        Run(50_000),
        Beside(102, "helper", 20),
        Run(50_000),
        Ready(10_000),
        Run(50_000),
        Sleep(40_000),
        Run(10_000),
    ];
    let trace = trace(&steps, 0.0, 1);
    let of = |from_us: i64, to_us: i64| Recording::new(&trace, Some(from_us * 1000..to_us * 1000));
    // After that, `neighbour` waits for a CPU, and `helper` for work, all of the time.
    let (before, after) = (of(1, 100_000), of(112_000, 205_000));
    let comparison = Comparison::new(&[before], &[after], &Limits::default());
    let all = comparison.changes.iter().chain(&comparison.possible);
    let waits: Vec<String> = all
        .filter(|change| change.feature.kind == Kind::Wait)
        .map(|change| change.feature.text())
        .collect();
    assert_eq!(waits, ["app: waited for a timer"]);
}

#[test]
fn counters_and_memory_are_compared() {
    let usual = growing(1, 256);
    assert!(compare(&usual, &usual, 30).is_empty());
    let of = |comparison: &Comparison, kind| {
        let is = |it: &&Change| it.feature.kind == kind;
        comparison.changes.iter().find(is).cloned()
    };
    let leak = compare(&usual, &growing(1, 2048), 40);
    let memory = of(&leak, Kind::Growth).expect("a change");
    assert_eq!(memory.feature.text(), "app: memory, growth");
    // From the first sample to the last of sixteen.
    assert_eq!(memory.before, f64::from(15 * 256 * 1024));
    assert_eq!(memory.after, f64::from(15 * 2048 * 1024));
    assert!(of(&leak, Kind::Counter).is_none(), "{leak:#?}");
    let longer = compare(&usual, &growing(6, 256), 50);
    let queue = of(&longer, Kind::Counter).expect("a change");
    assert_eq!(queue.feature.text(), "app: queue, mean");
    assert!((15.0..20.0).contains(&queue.before), "{queue:?}");
    assert!((50.0..60.0).contains(&queue.after), "{queue:?}");
    // Memory that one recording does not tell is no change.
    assert!(of(&compare(&BASE, &usual, 60), Kind::Growth).is_none());
}

#[test]
fn sets_tell_small_changes() {
    let before = recordings(&BASE, 0.01, 0..5);
    let after = recordings(&with(0, Run(23_000)), 0.01, 5..10);
    let comparison = Comparison::new(&before, &after, &Limits::default());
    assert_eq!(first(&comparison).feature.name, "ran its own code");
}

#[test]
fn calls_of_contended_locks_depend_on_the_machine() {
    let before = with(6, Contended(22));
    let after = with(6, Contended(90));
    let futex = |changes: &[Change]| {
        let mut calls = changes.iter().filter(|it| it.feature.kind == Kind::Calls);
        calls.any(|it| it.feature.detail == "futex")
    };
    let single = compare(&before, &after, 500);
    assert!(!futex(&single.changes), "{single:#?}");
    let many = compare(&before, &with(6, Contended(3000)), 500);
    assert!(futex(&many.changes), "{many:#?}");
    // Several recordings of each tell.
    let sets = [before, after].map(|steps| recordings(&steps, VARIATION, 600..605));
    let sets = Comparison::new(&sets[0], &sets[1], &Limits::default());
    assert!(futex(&sets.changes), "{sets:#?}");
}
