//! Tests of opening events on this machine.

use std::cell::Cell;
use std::path::Path;
use std::time::Instant;

use crate::common::{
    PATIENCE, at, burn, counted, follower, observe, opened, plan, timebase, with_callstacks,
};
use ferretto_perf::config::{Kernel, Plan};
use ferretto_perf::event::{OpenError, Scope, open_all};
use ferretto_perf::record::Record;
use ferretto_proto::PerfEventConfig;
use ferretto_proto::perf_event_config::UnwindMode;
use ferretto_proto::perf_events::timebase::{Event, Interval};
use ferretto_proto::perf_events::{Counter, PerfClock, Timebase, Tracepoint};
use tempfile::TempDir;

/// Returns a simulated machine with these CPUs; everything else is real.
fn with_cpus(list: &str) -> (TempDir, Kernel) {
    let home = tempfile::tempdir().expect("a directory");
    set_cpus(home.path(), list);
    let kernel = Kernel {
        sysfs: home.path().to_owned(),
        ..Kernel::default()
    };
    (home, kernel)
}

fn set_cpus(home: &Path, list: &str) {
    crate::common::kernel::put(home, "devices/system/cpu/online", list);
}

/// Returns the error of opening a plan; `None` if this user may not open any event.
fn refused(plan: &Plan, kernel: &Kernel) -> Option<OpenError> {
    opened(&crate::common::plan(&at(10)), None)?;
    Some(open_all(plan, kernel, None).expect_err("refused"))
}

fn switches(filter: &str) -> PerfEventConfig {
    let tracepoint = Tracepoint {
        name: Some(b"sched:sched_switch".to_vec()),
        filter: Some(filter.into()),
        ..Default::default()
    };
    timebase(Timebase {
        interval: Some(Interval::Period(1)),
        event: Some(tracepoint.into()),
        ..Default::default()
    })
}

/// Returns a plan with a tracepoint, unless this user may not see tracepoints.
fn if_visible(config: &PerfEventConfig) -> Option<Plan> {
    use ferretto_proto::Message;
    match Plan::new(&config.encode_to_vec(), &Kernel::default()) {
        Ok(plan) => Some(plan),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

#[test]
fn perf_012_every_mode_opens_with_and_without_followers() {
    let modes = [
        UnwindMode::UNWIND_SKIP,
        UnwindMode::UNWIND_DWARF,
        UnwindMode::UNWIND_FRAME_POINTER,
        UnwindMode::UNWIND_KERNEL_FRAME_POINTER,
    ];
    for mode in modes {
        for (kernel, followers) in [(false, 0), (true, 0), (false, 3), (true, 3)] {
            let mut config = with_callstacks(at(10), mode, kernel);
            config.followers = vec![follower(Counter::SW_PAGE_FAULTS); followers];
            let own = Scope::Processes {
                pids: vec![std::process::id() as i32],
                on_exec: false,
            };
            for scope in [None, Some(&own)] {
                let Some(opened) = opened(&plan(&config), scope) else {
                    return;
                };
                assert!(!opened.readers.is_empty());
            }
        }
    }
}

#[test]
fn perf_013_software_counters_take_every_clock() {
    let clocks = [
        PerfClock::PERF_CLOCK_REALTIME,
        PerfClock::PERF_CLOCK_MONOTONIC,
        PerfClock::PERF_CLOCK_MONOTONIC_RAW,
        PerfClock::PERF_CLOCK_BOOTTIME,
    ];
    for clock in clocks {
        let mut config = at(10);
        config.timebase.get_or_insert_default().timestamp_clock = Some(clock);
        config.followers = vec![follower(Counter::SW_TASK_CLOCK)];
        if opened(&plan(&config), None).is_none() {
            return;
        }
    }
}

#[test]
fn perf_015_absent_cpus_are_skipped_and_with_none_left_nothing_starts() {
    let mut config = at(10);
    config.target_cpu = vec![0, 4000];
    let Some(opened) = opened(&plan(&config), None) else {
        return;
    };
    let cpus: Vec<_> = opened.readers.iter().map(|reader| reader.cpu()).collect();
    assert_eq!(cpus, [0]);
    config.target_cpu = vec![4000];
    let refused = refused(&plan(&config), &Kernel::default()).expect("permitted, as before");
    assert!(matches!(refused, OpenError::NoCpus { .. }), "{refused}");
}

#[test]
fn perf_016_one_cpu_that_fails_fails_all_unless_that_is_to_be_ignored() {
    // A CPU number beyond the limits of any kernel.
    let (_home, kernel) = with_cpus("0,7777\n");
    let mut config = at(10);
    let Some(refused) = refused(&plan(&config), &kernel) else {
        return;
    };
    assert!(refused.to_string().contains("CPU 7777"), "{refused}");
    config.ignore_open_failure = Some(true);
    let opened = open_all(&plan(&config), &kernel, None).expect("opened");
    assert_eq!(opened.readers.len(), 1);
    assert!(
        opened.notices[0].starts_with("CPU 7777 is left out"),
        "{:?}",
        opened.notices
    );
}

#[test]
fn perf_017_a_filter_that_the_kernel_does_not_understand_is_refused() {
    let Some(plan) = if_visible(&switches("prev_pid >< 1")) else {
        return;
    };
    let Some(refused) = refused(&plan, &Kernel::default()) else {
        return;
    };
    let output = refused.to_string();
    assert!(
        output.contains("tracepoint sched:sched_switch") && output.contains("prev_pid >< 1"),
        "{output}"
    );
}

#[test]
fn perf_017_a_filter_that_it_understands_is_applied() {
    let own = std::process::id();
    let config = with_callstacks(
        switches(&format!(
            "prev_pid == {}",
            rustix::thread::gettid().as_raw_nonzero()
        )),
        UnwindMode::UNWIND_SKIP,
        true,
    );
    let Some(mut opened) = if_visible(&config).and_then(|plan| opened(&plan, None)) else {
        return;
    };
    let seen = Cell::new(0);
    observe(
        &mut opened,
        |record| {
            if let Record::Sample(sample) = record {
                assert_eq!(sample.pid, own);
                assert!(!sample.callchain.kernel.is_empty());
                seen.set(seen.get() + 1);
            }
            std::thread::yield_now();
        },
        || {
            std::thread::yield_now();
            seen.get() >= 3
        },
    );
}

#[test]
fn perf_018_arm_ids_elsewhere_leave_no_cpu_and_no_error() {
    if cfg!(target_arch = "aarch64") {
        return;
    }
    let mut config = at(10);
    config.cpuid = vec![b"41d0c".to_vec()];
    let opened = open_all(&plan(&config), &Kernel::default(), None).expect("opened");
    assert!(opened.readers.is_empty());
}

#[test]
fn without_hardware_counters_the_error_suggests_a_software_counter() {
    let config = timebase(Timebase {
        event: counted(Counter::HW_CPU_CYCLES),
        ..Default::default()
    });
    match open_all(&plan(&config), &Kernel::default(), None) {
        Ok(_) => println!("skipped: this machine has hardware counters"),
        Err(error @ OpenError::NotPermitted { .. }) => println!("skipped: {error}"),
        Err(error) => {
            assert!(matches!(error, OpenError::NoHardware { .. }), "{error}");
            let output = error.to_string();
            assert!(
                output.contains("cpu-cycles") && output.contains("use the software counter"),
                "{output}"
            );
        }
    }
}

#[test]
fn a_rate_beyond_the_limit_is_refused_with_the_limit() {
    let Some(refused) = refused(&plan(&at(1 << 40)), &Kernel::default()) else {
        return;
    };
    assert!(
        matches!(refused, OpenError::RateTooHigh { limit, .. } if limit > 0),
        "{refused}"
    );
    assert!(
        refused
            .to_string()
            .contains("sysctl kernel.perf_event_max_sample_rate")
    );
}

#[test]
fn the_error_names_nonexistent_processes() {
    let scope = Scope::Processes {
        pids: vec![i32::MAX],
        on_exec: false,
    };
    let refused = open_all(&plan(&at(10)), &Kernel::default(), Some(&scope)).expect_err("refused");
    assert!(refused.to_string().contains("2147483647"), "{refused}");
}

#[test]
fn rings_have_the_configured_size_or_suit_rate_and_stack() {
    let size = |config: &PerfEventConfig, stack| {
        let mut plan = plan(config);
        plan.set_stack_bytes(stack).expect("a size");
        let opened = opened(&plan, None)?;
        assert!(opened.notices.is_empty() || !rustix::process::geteuid().is_root());
        Some(opened.readers[0].ring_size())
    };
    let page = rustix::param::page_size();
    let dwarf = |frequency| with_callstacks(at(frequency), UnwindMode::UNWIND_DWARF, false);
    let Some(usual) = size(&dwarf(10), 65_280) else {
        return;
    };
    assert_eq!(usual, 256 * page);
    if rustix::process::geteuid().is_root() {
        // Half a second of samples.
        assert!(size(&dwarf(1000), 65_280) >= Some(500 * 65_280));
        assert!(size(&dwarf(1000), 8192) < size(&dwarf(1000), 65_280));
    }
    let mut asked = dwarf(1000);
    asked.ring_buffer_pages = Some(64);
    assert_eq!(size(&asked, 65_280), Some(64 * page));
}

#[test]
fn perf_045_polled_counters_go_up() {
    let config = PerfEventConfig {
        followers: vec![
            follower(Counter::SW_TASK_CLOCK),
            follower(Counter::SW_PAGE_FAULTS),
        ],
        ..timebase(Timebase {
            interval: Some(Interval::PollPeriodMs(10)),
            event: Some(Event::Counter(Counter::SW_CPU_CLOCK)),
            ..Default::default()
        })
    };
    let Some(mut opened) = opened(&plan(&config), None) else {
        return;
    };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for reader in &mut opened.readers {
        assert_eq!(reader.ring_size(), 0);
        reader.counts(&mut first).expect("read");
        assert_eq!(first, [0, 0, 0]);
        reader.enable().expect("enabled");
        reader.counts(&mut first).expect("read");
        burn();
        reader.counts(&mut second).expect("read");
        assert_eq!(second.len(), 3);
        assert!(second[0] > first[0]);
        reader.disable().expect("disabled");
        reader.counts(&mut first).expect("read");
        burn();
        reader.counts(&mut second).expect("read");
        assert_eq!(first, second);
    }
}

#[test]
fn cpu_hotplug_is_followed() {
    let online = ferretto_perf::cpus::online(&Kernel::default());
    let [first, second, ..] = online[..] else {
        println!("skipped: one CPU");
        return;
    };
    let (home, kernel) = with_cpus(&format!("{first}"));
    let plan = plan(&at(1000));
    if opened(&plan, None).is_none() {
        return;
    }
    let mut opened = open_all(&plan, &kernel, None).expect("opened");
    let watch = opened.watch();
    let readers = &mut opened.readers;
    let cpus = |readers: &Vec<ferretto_perf::event::Reader>| {
        readers
            .iter()
            .map(|reader| reader.cpu())
            .collect::<Vec<_>>()
    };
    assert!(watch.follow(&plan, &kernel, readers).gone.is_empty());
    assert_eq!(cpus(readers), [first]);
    set_cpus(home.path(), &format!("{first},{second},7777"));
    let changes = watch.follow(&plan, &kernel, readers);
    assert_eq!(cpus(readers), [first, second]);
    assert_eq!(changes.failed[0].0, 7777);
    // It is counting already.
    let new = &mut readers[1];
    let seen = Cell::new(false);
    let until = Instant::now() + PATIENCE;
    while !seen.get() {
        assert!(Instant::now() < until, "waited in vain");
        burn();
        new.read(u64::MAX, &mut |record| {
            seen.set(seen.get() || matches!(record, Record::Sample(_)))
        });
    }
    set_cpus(home.path(), &format!("{second}"));
    let changes = watch.follow(&plan, &kernel, readers);
    assert_eq!(
        (cpus(readers), cpus(&changes.gone)),
        (vec![second], vec![first])
    );
}
