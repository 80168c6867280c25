//! Tests of samples of this machine's events.

use std::cell::Cell;

use crate::common::{at, burn, follower, observe, opened, plan, with_callstacks};
use ferretto_perf::event::Scope;
use ferretto_perf::record::{Record, SampleRecord};
use ferretto_proto::perf_event_config::UnwindMode;
use ferretto_proto::perf_events::Counter;
use ferretto_proto::perf_events::timebase::Interval;

/// Reads samples of this process until `wanted` returns true.
fn look(opened: &mut ferretto_perf::event::Opened, wanted: impl Fn(&SampleRecord<'_>) -> bool) {
    let found = Cell::new(false);
    let own = std::process::id();
    observe(
        opened,
        |record| match record {
            Record::Sample(sample) if sample.pid == own && wanted(&sample) => found.set(true),
            Record::Malformed { bytes } => panic!("{bytes} bytes are no record"),
            _ => {}
        },
        || found.get(),
    );
}

#[test]
fn counts_of_whole_cpus_increase() {
    let Some(mut opened) = opened(&plan(&at(1000)), None) else {
        return;
    };
    assert!(!opened.readers.is_empty());
    let last = Cell::new((0, 0));
    look(&mut opened, |sample| {
        let (time, count) = (sample.time, sample.counts[0]);
        assert!(sample.registers.is_none() && sample.stack.is_empty());
        let (last_time, last_count) = last.replace((time, count));
        last_time != 0 && time > last_time && count > last_count
    });
}

#[test]
fn perf_052_followers_and_callstacks_are_there_together() {
    let mut config = with_callstacks(at(1000), UnwindMode::UNWIND_DWARF, true);
    config.followers = vec![
        follower(Counter::SW_PAGE_FAULTS),
        follower(Counter::SW_CONTEXT_SWITCHES),
        follower(Counter::SW_TASK_CLOCK),
    ];
    let Some(mut opened) = opened(&plan(&config), None) else {
        return;
    };
    let (user, kernel) = (Cell::new(false), Cell::new(false));
    look(&mut opened, |sample| {
        assert_eq!(sample.counts.len(), 4);
        let counted = sample.counts[0] > 0 && sample.counts[3] > 0;
        // A thread that exits has no registers of the program any more.
        let Some(registers) = sample.registers else {
            return false;
        };
        assert!(registers.get(8).is_some() && registers.get(12).is_none());
        // The kernel's callchain of the program, which continues where the copy of the stack
        // ends.
        let chain = sample.callchain.user.is_some_and(|chain| !chain.is_empty());
        user.set(user.get() || counted && chain && !sample.stack.is_empty());
        kernel.set(kernel.get() || counted && !sample.callchain.kernel.is_empty());
        // System calls, so that there are samples in the kernel.
        let _ = std::fs::read("/proc/self/maps");
        user.get() && kernel.get()
    });
}

#[test]
fn own_processes_are_sampled_individually() {
    let config = with_callstacks(at(1000), UnwindMode::UNWIND_DWARF, false);
    let scope = Scope::Processes {
        pids: vec![std::process::id() as i32],
        on_exec: false,
    };
    let Some(mut opened) = opened(&plan(&config), Some(&scope)) else {
        return;
    };
    let started = std::thread::spawn(|| (0..20).for_each(|_| burn()));
    let count = Cell::new(0);
    look(&mut opened, |sample| {
        assert!(sample.counts[0] > count.get() || sample.counts[0] > 0);
        count.set(sample.counts[0]);
        !sample.stack.is_empty()
    });
    started.join().expect("no panic");
}

#[test]
fn unsampled_time_is_reported() {
    let mut config = at(1);
    config.timebase.get_or_insert_default().interval = Some(Interval::Period(3_600_000_000_000));
    let scope = Scope::Processes {
        pids: vec![std::process::id() as i32],
        on_exec: false,
    };
    let Some(mut opened) = opened(&plan(&config), Some(&scope)) else {
        return;
    };
    for reader in &mut opened.readers {
        reader.enable().expect("enabled");
    }
    let counted = || -> u64 {
        let pairs = opened
            .readers
            .iter()
            .map(|reader| reader.sampled_of_tasks());
        let pairs = pairs.map(|pair| pair.expect("of tasks"));
        pairs
            .map(|(counted, sampled)| {
                assert_eq!(sampled, 0);
                counted
            })
            .sum()
    };
    while counted() < 1_000_000 {
        std::thread::spawn(burn).join().expect("no panic");
    }
}
