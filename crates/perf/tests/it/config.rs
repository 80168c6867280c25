//! Tests of the meaning of configs, and of errors in configs.

use std::path::PathBuf;
use std::time::Duration;

use crate::common::kernel::kernel;
use crate::common::{at, timebase, with_callstacks};
use ferretto_perf::config::{
    Clock, ConfigError, EventKind, Interval, Mode, Modifiers, Plan, RingSize, UserFrames,
};
use ferretto_perf::record::REGISTER_MASK;
use ferretto_proto::perf_event_config::{Scope, UnwindMode};
use ferretto_proto::perf_events::timebase::{Event, Interval as Asked};
use ferretto_proto::perf_events::{
    Counter, EventModifier, PerfClock, RawEvent, Timebase, Tracepoint,
};
use ferretto_proto::{FollowerEvent, Message, MessageField, PerfEventConfig};

fn plan(config: &PerfEventConfig) -> Result<Plan, ConfigError> {
    let (_home, kernel) = kernel();
    Plan::new(&config.encode_to_vec(), &kernel)
}

fn accepted(config: &PerfEventConfig) -> Plan {
    plan(config).expect("a plan")
}

/// Returns the error of a rejected config.
fn refused(config: &PerfEventConfig) -> String {
    plan(config).expect_err("refused").to_string()
}

fn interval(plan: &Plan) -> Interval {
    plan.sampling().expect("sampling").interval
}

fn tracepoint(name: &str) -> PerfEventConfig {
    let tracepoint = Tracepoint {
        name: Some(name.into()),
        ..Default::default()
    };
    timebase(Timebase {
        event: Some(tracepoint.into()),
        ..Default::default()
    })
}

fn raw(event: RawEvent) -> PerfEventConfig {
    timebase(Timebase {
        event: Some(event.into()),
        ..Default::default()
    })
}

fn of_unit(name: &str) -> PerfEventConfig {
    raw(RawEvent {
        pmu_name: Some(name.into()),
        ..Default::default()
    })
}

fn pages(pages: u32) -> PerfEventConfig {
    PerfEventConfig {
        ring_buffer_pages: Some(pages),
        ..Default::default()
    }
}

/// Encodes a config with an unknown enum value in a field of a nested message.
fn with_number(path: &[u32], value: u64) -> Vec<u8> {
    let (last, outer) = path.split_last().expect("a path");
    let mut bytes = Vec::new();
    ferretto_wire::Encoder::new(&mut bytes).varint(*last, value);
    for field in outer.iter().rev() {
        let inner = std::mem::take(&mut bytes);
        ferretto_wire::Encoder::new(&mut bytes).bytes(*field, &inner);
    }
    bytes
}

#[test]
fn perf_001_the_empty_config_counts_time_ten_times_a_second() {
    let plan = accepted(&PerfEventConfig::default());
    assert_eq!((plan.timebase.r#type, plan.timebase.config), (1, 0));
    assert_eq!(
        plan.timebase.kind,
        EventKind::Counter(Counter::SW_CPU_CLOCK)
    );
    assert!(plan.followers.is_empty() && !plan.callstacks.sampled());
    assert_eq!(plan.count_of_counters(), 1);
    let sampling = plan.sampling().expect("sampling");
    assert_eq!(sampling.interval, Interval::Frequency(10));
    assert_eq!(sampling.clock, Clock::MonotonicRaw);
    assert_eq!(sampling.ring, RingSize::Auto);
    assert_eq!(sampling.read_period, Duration::from_millis(100));
    // Two for each expected sample, which is one, as 10 Hz for 100 ms, and one more.
    assert_eq!(sampling.samples_per_read, 4);
    assert_eq!(plan.descriptor_timeout, Duration::from_millis(100));
    assert_eq!(plan.cache_clear_period, Duration::from_secs(300));
    assert_eq!(plan.max_enqueued_bytes, None);
    assert!(!plan.ignore_open_failure);
}

#[test]
fn perf_002_bytes_that_are_no_config_are_refused() {
    let (_home, kernel) = kernel();
    for bytes in [&[0x7a, 0x05][..], &[0xff; 12], &[0x78, 0x01]] {
        let refused = Plan::new(bytes, &kernel);
        assert!(
            matches!(refused, Err(ConfigError::Malformed(_))),
            "{refused:?}"
        );
    }
}

#[test]
fn perf_003_the_interval_is_period_frequency_or_the_old_field() {
    let of = |asked: Option<Asked>, old: Option<u32>| {
        let mut config = timebase(Timebase {
            interval: asked,
            ..Default::default()
        });
        config.sampling_frequency = old;
        interval(&accepted(&config))
    };
    assert_eq!(of(Some(Asked::Period(7)), Some(3)), Interval::Period(7));
    assert_eq!(
        of(Some(Asked::Frequency(99)), Some(3)),
        Interval::Frequency(99)
    );
    assert_eq!(
        of(Some(Asked::Frequency(0)), Some(3)),
        Interval::Frequency(3)
    );
    assert_eq!(of(Some(Asked::Period(0)), None), Interval::Frequency(10));
    assert_eq!(
        of(Some(Asked::PollPeriodMs(0)), Some(0)),
        Interval::Frequency(10)
    );
    assert_eq!(of(None, Some(50)), Interval::Frequency(50));
}

#[test]
fn perf_004_rings_are_powers_of_two() {
    for count in [1, 2, 256, 1024] {
        let ring = accepted(&pages(count)).sampling().expect("sampling").ring;
        assert_eq!(ring, RingSize::Pages(count));
    }
    let ring = accepted(&pages(0)).sampling().expect("sampling").ring;
    assert_eq!(ring, RingSize::Auto);
    let output = refused(&pages(7));
    assert!(
        output.contains("ring_buffer_pages: 7") && output.contains("4 and 8"),
        "{output}"
    );
    for count in [3, u32::MAX] {
        assert!(refused(&pages(count)).contains("not a power of two"));
    }
    assert!(refused(&pages(1 << 31)).contains("ring_buffer_pages: 2147483648 is more than"));
}

#[test]
fn perf_005_unknown_counters_are_refused() {
    let (_home, kernel) = kernel();
    for (path, field) in [(&[15, 4][..], "timebase"), (&[19, 1], "followers[0]")] {
        for value in [0, 21, 999, u64::MAX] {
            let bytes = with_number(path, value);
            let refused = Plan::new(&bytes, &kernel).expect_err("refused");
            let expected = ConfigError::UnknownCounter {
                field: field.to_owned(),
                value,
            };
            assert_eq!(refused, expected);
        }
    }
    let config = PerfEventConfig {
        followers: vec![FollowerEvent::default()],
        ..Default::default()
    };
    let follower = &accepted(&config).followers[0];
    assert_eq!((follower.r#type, follower.config), (1, 0));
}

#[test]
fn perf_005_counters_have_the_numbers_of_the_kernel() {
    let numbers = [
        (Counter::SW_CPU_CLOCK, 1, 0),
        (Counter::SW_TASK_CLOCK, 1, 1),
        (Counter::SW_PAGE_FAULTS, 1, 2),
        (Counter::SW_CONTEXT_SWITCHES, 1, 3),
        (Counter::SW_CPU_MIGRATIONS, 1, 4),
        (Counter::SW_PAGE_FAULTS_MIN, 1, 5),
        (Counter::SW_PAGE_FAULTS_MAJ, 1, 6),
        (Counter::SW_ALIGNMENT_FAULTS, 1, 7),
        (Counter::SW_EMULATION_FAULTS, 1, 8),
        (Counter::SW_DUMMY, 1, 9),
        (Counter::HW_CPU_CYCLES, 0, 0),
        (Counter::HW_INSTRUCTIONS, 0, 1),
        (Counter::HW_CACHE_REFERENCES, 0, 2),
        (Counter::HW_CACHE_MISSES, 0, 3),
        (Counter::HW_BRANCH_INSTRUCTIONS, 0, 4),
        (Counter::HW_BRANCH_MISSES, 0, 5),
        (Counter::HW_BUS_CYCLES, 0, 6),
        (Counter::HW_STALLED_CYCLES_FRONTEND, 0, 7),
        (Counter::HW_STALLED_CYCLES_BACKEND, 0, 8),
        (Counter::HW_REF_CPU_CYCLES, 0, 9),
    ];
    for (counter, r#type, config) in numbers {
        let event = accepted(&timebase(Timebase {
            event: Some(Event::Counter(counter)),
            ..Default::default()
        }))
        .timebase;
        assert_eq!(
            (event.r#type, event.config),
            (r#type, config),
            "{counter:?}"
        );
    }
}

#[test]
fn perf_006_tracepoints_have_a_group_and_a_name() {
    for name in ["sched:sched_switch", "sched/sched_switch"] {
        let event = accepted(&tracepoint(name)).timebase;
        assert_eq!((event.r#type, event.config), (2, 314));
    }
    for name in [
        "sched_switch",
        ":x",
        "x/",
        "",
        "sched/../x",
        "../sched",
        "sched/a/b",
    ] {
        let output = refused(&tracepoint(name));
        assert!(output.contains("is not of the form"), "{name}: {output}");
    }
    for name in ["sched:nothing", "nothing:sched_switch", "sched:broken"] {
        let output = refused(&tracepoint(name));
        assert!(output.contains("cannot find the id"), "{name}: {output}");
        assert!(
            output.contains("ls /sys/kernel/tracing/events/"),
            "{output}"
        );
    }
    let mut config = tracepoint("sched:sched_switch");
    let Some(Event::Tracepoint(asked)) = &mut config.timebase.get_or_insert_default().event else {
        panic!("a tracepoint");
    };
    asked.filter = Some(b"prev_pid > 0".to_vec());
    let filter = accepted(&config).timebase.filter().cloned();
    assert_eq!(filter.expect("a filter").as_bytes(), b"prev_pid > 0");
}

#[test]
fn perf_006_without_tracefs_the_message_says_so() {
    let (_home, mut kernel) = kernel();
    kernel.tracefs = vec![PathBuf::from("/nonexistent")];
    let bytes = tracepoint("sched:sched_switch").encode_to_vec();
    let refused = Plan::new(&bytes, &kernel).expect_err("refused");
    assert!(
        refused.to_string().contains("tracefs is not mounted"),
        "{refused}"
    );
}

#[test]
fn perf_007_raw_events_name_a_type_or_a_unit() {
    let event = accepted(&of_unit("software")).timebase;
    assert_eq!((event.r#type, event.cpus), (1, None));
    let numbers = RawEvent {
        r#type: Some(4),
        config: Some(1),
        config1: Some(2),
        config2: Some(3),
        ..Default::default()
    };
    let event = accepted(&raw(numbers.clone())).timebase;
    let found = (event.r#type, event.config, event.config1, event.config2);
    assert_eq!(found, (4, 1, 2, 3));
    let both = RawEvent {
        pmu_name: Some(b"software".to_vec()),
        ..numbers
    };
    assert!(refused(&raw(both)).contains("timebase.raw_event sets both"));
    for name in ["../x", "a/b", "", "..", ".", "unknown", "broken"] {
        let output = refused(&of_unit(name));
        assert!(
            output.contains("timebase.raw_event.pmu_name"),
            "{name}: {output}"
        );
    }
}

#[test]
fn perf_008_modifiers_say_where_to_count() {
    use EventModifier as Modifier;
    let of = |modifiers: &[EventModifier]| {
        let config = timebase(Timebase {
            modifiers: modifiers.to_vec(),
            ..Default::default()
        });
        let Modifiers {
            exclude_user,
            exclude_kernel,
            exclude_hypervisor,
        } = accepted(&config).timebase.modifiers;
        (exclude_user, exclude_kernel, exclude_hypervisor)
    };
    let user = Modifier::EVENT_MODIFIER_COUNT_USERSPACE;
    let kernel = Modifier::EVENT_MODIFIER_COUNT_KERNEL;
    let hypervisor = Modifier::EVENT_MODIFIER_COUNT_HYPERVISOR;
    assert_eq!(of(&[user]), (false, true, true));
    assert_eq!(of(&[user, kernel]), (false, false, true));
    assert_eq!(of(&[hypervisor]), (true, true, false));
    assert_eq!(of(&[]), (false, false, false));
    assert_eq!(
        of(&[Modifier::UNKNOWN_EVENT_MODIFIER]),
        (false, false, false)
    );
    let (_home, roots) = crate::common::kernel::kernel();
    let unknown = Plan::new(&with_number(&[15, 12], 77), &roots).expect("a plan");
    assert_eq!(unknown.timebase.modifiers, Modifiers::default());
}

#[test]
fn perf_009_unwinding_modes() {
    let of = |mode, kernel| accepted(&with_callstacks(at(10), mode, kernel)).callstacks;
    assert_eq!(
        of(UnwindMode::UNWIND_UNKNOWN, false).user,
        UserFrames::Dwarf
    );
    assert_eq!(of(UnwindMode::UNWIND_DWARF, false).user, UserFrames::Dwarf);
    assert_eq!(
        of(UnwindMode::UNWIND_FRAME_POINTER, false).user,
        UserFrames::FramePointer
    );
    let by_kernel = of(UnwindMode::UNWIND_KERNEL_FRAME_POINTER, false);
    assert_eq!(by_kernel.user, UserFrames::KernelFramePointer);
    assert!(!by_kernel.user.copies_stack());
    assert!(!of(UnwindMode::UNWIND_SKIP, false).sampled());
    assert!(of(UnwindMode::UNWIND_SKIP, true).sampled());
    let (_home, kernel) = kernel();
    let refused = Plan::new(&with_number(&[16, 3], 5), &kernel).expect_err("refused");
    assert_eq!(refused, ConfigError::UnknownUnwindMode { value: 5 });
}

#[test]
fn perf_010_configs_of_the_old_style() {
    let old = PerfEventConfig {
        all_cpus: Some(true),
        target_pid: vec![7],
        target_cmdline: vec![b"make".to_vec()],
        exclude_pid: vec![8],
        exclude_cmdline: vec![b"sh".to_vec()],
        additional_cmdline_count: Some(2),
        ..Default::default()
    };
    let plan = accepted(&old);
    assert_eq!(plan.callstacks.user, UserFrames::Dwarf);
    assert!(!plan.callstacks.kernel);
    assert_eq!(plan.filter.pids, [7]);
    assert_eq!(plan.filter.cmdlines, [b"make".to_vec()]);
    assert_eq!(plan.filter.exclude_pids, [8]);
    assert_eq!(plan.filter.exclude_cmdlines, [b"sh".to_vec()]);
    assert_eq!(plan.filter.additional_cmdline_count, 2);
    let with_kernel = |all_cpus, new_style: bool| {
        let mut config = PerfEventConfig {
            kernel_frames: Some(true),
            ..old.clone()
        };
        config.all_cpus = Some(all_cpus);
        if new_style {
            config = with_callstacks(config, UnwindMode::UNWIND_DWARF, false);
        }
        accepted(&config)
    };
    assert!(with_kernel(true, false).callstacks.kernel);
    assert!(with_kernel(false, true).callstacks.kernel);
    let ignored = with_kernel(false, false);
    assert!(!ignored.callstacks.sampled());
    assert_eq!(ignored.filter, Default::default());
}

#[test]
fn the_scope_replaces_the_old_filter() {
    let mut config = with_callstacks(at(10), UnwindMode::UNWIND_DWARF, false);
    config.target_pid = vec![7];
    assert_eq!(accepted(&config).filter.only_pids(), Some(&[7][..]));
    let callstacks = config.callstack_sampling.get_or_insert_default();
    callstacks.scope = MessageField::some(Scope {
        process_shard_count: Some(4),
        ..Default::default()
    });
    let filter = accepted(&config).filter;
    assert_eq!((filter.process_shard_count, filter.only_pids()), (4, None));
    assert!(filter.pids.is_empty());
}

#[test]
fn perf_011_polled_counters_have_neither_callstacks_nor_rings() {
    let polling = timebase(Timebase {
        interval: Some(Asked::PollPeriodMs(250)),
        timestamp_clock: Some(PerfClock::PERF_CLOCK_BOOTTIME),
        ..Default::default()
    });
    let period = Duration::from_millis(250);
    assert_eq!(accepted(&polling).mode, Mode::Polling { period });
    let mut rings = polling.clone();
    rings.ring_buffer_pages = Some(7);
    assert!(accepted(&rings).sampling().is_none());
    type Change = fn(&mut PerfEventConfig);
    let refusing: [(&str, Change); 3] = [
        ("callstack_sampling", |config| {
            config.callstack_sampling = MessageField::some(Default::default());
        }),
        ("ring_buffer_read_period_ms", |config| {
            config.ring_buffer_read_period_ms = Some(10);
        }),
        ("all_cpus", |config| config.all_cpus = Some(true)),
    ];
    for (field, change) in refusing {
        let mut config = polling.clone();
        change(&mut config);
        let output = refused(&config);
        assert!(output.starts_with(field), "{output}");
        assert!(output.contains("timebase.poll_period_ms"), "{output}");
    }
}

#[test]
fn perf_013_clocks() {
    let of = |clock| {
        accepted(&timebase(Timebase {
            timestamp_clock: clock,
            ..Default::default()
        }))
        .sampling()
        .expect("sampling")
        .clock
    };
    assert_eq!(of(None), Clock::MonotonicRaw);
    assert_eq!(of(Some(PerfClock::UNKNOWN_PERF_CLOCK)), Clock::MonotonicRaw);
    assert_eq!(of(Some(PerfClock::PERF_CLOCK_REALTIME)), Clock::Realtime);
    assert_eq!(of(Some(PerfClock::PERF_CLOCK_MONOTONIC)), Clock::Monotonic);
    assert_eq!(
        of(Some(PerfClock::PERF_CLOCK_MONOTONIC_RAW)),
        Clock::MonotonicRaw
    );
    assert_eq!(of(Some(PerfClock::PERF_CLOCK_BOOTTIME)), Clock::Boottime);
    let (_home, kernel) = kernel();
    let unknown = Plan::new(&with_number(&[15, 11], 9), &kernel).expect("a plan");
    assert_eq!(
        unknown.sampling().expect("sampling").clock,
        Clock::MonotonicRaw
    );
}

#[test]
fn perf_013_tracepoints_cannot_be_stamped_with_the_boot_clock() {
    let mut leader = tracepoint("sched:sched_switch");
    let mut follower = at(10);
    follower.followers = vec![FollowerEvent {
        event: Some(
            Tracepoint {
                name: Some(b"sched:sched_switch".to_vec()),
                ..Default::default()
            }
            .into(),
        ),
        ..Default::default()
    }];
    for config in [&mut leader, &mut follower] {
        assert!(plan(config).is_ok());
        let timebase = config.timebase.get_or_insert_default();
        timebase.timestamp_clock = Some(PerfClock::PERF_CLOCK_BOOTTIME);
        let output = refused(config);
        assert!(
            output.contains("tracepoint sched:sched_switch with PERF_CLOCK_BOOTTIME"),
            "{output}"
        );
        assert!(output.contains("use PERF_CLOCK_MONOTONIC_RAW"), "{output}");
    }
}

#[test]
fn perf_014_registers_and_the_size_of_the_stack() {
    let mut plan = accepted(&with_callstacks(at(10), UnwindMode::UNWIND_DWARF, false));
    assert_eq!(plan.sampling().expect("sampling").stack_bytes, 65_280);
    if cfg!(target_arch = "x86_64") {
        assert_eq!(REGISTER_MASK, 0x00ff_0fff);
    } else if cfg!(target_arch = "aarch64") {
        assert_eq!(REGISTER_MASK, 0x1_ffff_ffff);
    }
    for bytes in [8, 8192, 65_528] {
        plan.set_stack_bytes(bytes).expect("a size");
        assert_eq!(plan.sampling().expect("sampling").stack_bytes, bytes);
    }
    for bytes in [0, 4, 65_532, 65_536] {
        assert_eq!(
            plan.set_stack_bytes(bytes),
            Err(ConfigError::BadStackSize { bytes })
        );
    }
}

#[test]
fn limits_and_periods_are_taken_over() {
    let config = PerfEventConfig {
        max_enqueued_footprint_kb: Some(2),
        max_daemon_memory_kb: Some(100_000),
        remote_descriptor_timeout_ms: Some(20),
        unwind_state_clear_period_ms: Some(1000),
        ring_buffer_read_period_ms: Some(10),
        ignore_open_failure: Some(true),
        ..at(1000)
    };
    let plan = accepted(&config);
    assert_eq!(plan.max_enqueued_bytes, Some(2048));
    assert_eq!(plan.max_daemon_memory_kb, Some(100_000));
    assert_eq!(plan.descriptor_timeout, Duration::from_millis(20));
    assert_eq!(plan.cache_clear_period, Duration::from_secs(1));
    assert!(plan.ignore_open_failure);
    let sampling = plan.sampling().expect("sampling");
    assert_eq!(sampling.read_period, Duration::from_millis(10));
    assert_eq!(sampling.samples_per_read, 22);
    let absurd = PerfEventConfig {
        max_enqueued_footprint_kb: Some(u64::MAX),
        ..at(u64::MAX)
    };
    assert_eq!(accepted(&absurd).max_enqueued_bytes, Some(u64::MAX));
}

#[test]
fn groups_of_events_are_bounded() {
    let config = PerfEventConfig {
        followers: vec![FollowerEvent::default(); 65],
        ..Default::default()
    };
    assert!(refused(&config).contains("65 are more than the 64"));
}
