//! Tests of ftrace with the running kernel, each in a private tracefs instance.

use crate::common::{Packets, TestInstance};
use ferretto_probes::ftrace::{Controller, SetupError};
use ferretto_proto::ftrace_event::Event;
use ferretto_proto::{FtraceConfig, FtraceEventBundle, FtraceStats, ftrace_config};

fn config(instance: &TestInstance, events: &[&str]) -> FtraceConfig {
    FtraceConfig {
        ftrace_events: events
            .iter()
            .map(|event| event.as_bytes().to_vec())
            .collect(),
        instance_name: Some(instance.name.clone().into_bytes()),
        buffer_size_kb: Some(256),
        ..Default::default()
    }
}

/// Makes the kernel switch between threads a number of times.
fn ping_pong(rounds: usize) {
    let (to, from) = std::sync::mpsc::channel::<()>();
    let (back, answered) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::Builder::new()
        .name("pong".into())
        .spawn(move || {
            while from.recv().is_ok() {
                if back.send(()).is_err() {
                    break;
                }
            }
        });
    for _ in 0..rounds {
        let _ = to.send(());
        let _ = answered.recv();
    }
    drop(to);
    let _ = thread.map(|thread| thread.join());
}

fn read(instance: &TestInstance, file: &str) -> String {
    instance.fs.read(file).expect("readable").trim().to_owned()
}

fn is_on(instance: &TestInstance, event: &str) -> bool {
    read(instance, &format!("events/{event}/enable")) == "1"
}

/// Sets up and starts a data source.
fn record(controller: &mut Controller, id: u64, config: &FtraceConfig) -> Packets {
    let packets = Packets::default();
    controller
        .set_up(id, config, Box::new(packets.clone()))
        .expect("set up");
    controller.start(id).expect("started");
    packets
}

fn without_compact(mut config: FtraceConfig) -> FtraceConfig {
    config.compact_sched = ftrace_config::CompactSchedConfig {
        enabled: Some(false),
        ..Default::default()
    }
    .into();
    config
}

/// Returns the thread to which the last switch of a bundle before `time` switched.
fn next_before(bundle: &FtraceEventBundle, time: u64) -> Option<i32> {
    let compact = bundle.compact_sched.as_option()?;
    let mut at = 0;
    let times = compact.switch_timestamp.iter().map(|delta| {
        at += delta;
        at
    });
    let compact = times.zip(compact.switch_next_pid.iter().copied());
    let whole = bundle.event.iter().filter_map(|event| match &event.event {
        Some(Event::SchedSwitch(switch)) => Some((event.timestamp?, switch.next_pid?)),
        _ => None,
    });
    let earlier = compact.chain(whole).filter(|(at, _)| *at < time);
    earlier.max_by_key(|(at, _)| *at).map(|(_, next)| next)
}

#[test]
fn probes_040_switches_and_wakings_are_compact_unless_refused() {
    let Some(instance) = TestInstance::new("compact") else {
        return;
    };
    let events = [
        "sched/sched_switch",
        "sched/sched_waking",
        "sched/sched_process_exit",
    ];
    let mut controller = Controller::new();
    let compact = record(&mut controller, 1, &config(&instance, &events));
    let plain = record(
        &mut controller,
        2,
        &without_compact(config(&instance, &events)),
    );
    ping_pong(200);
    controller.flush(&[1, 2]);
    drop(controller);

    let is_sched = |event: &Event| matches!(event, Event::SchedSwitch(_) | Event::SchedWaking(_));
    let mut switches = 0;
    for bundle in compact.bundles() {
        switches += bundle
            .compact_sched
            .as_option()
            .map_or(0, |s| s.switch_timestamp.len());
        assert!(bundle.error.is_empty(), "{:?}", bundle.error);
        // Whole events follow switches that the kernel left out.
        for event in &bundle.event {
            if event.event.as_ref().is_some_and(is_sched) {
                let before = next_before(&bundle, event.timestamp.unwrap_or(0));
                assert_ne!(
                    before,
                    Some(event.pid.unwrap_or(0).cast_signed()),
                    "{event:?}"
                );
            }
        }
    }
    assert!(switches >= 200, "{switches}");
    let bundles = plain.bundles();
    assert!(
        bundles
            .iter()
            .all(|bundle| bundle.compact_sched.as_option().is_none())
    );
    let events = bundles.iter().flat_map(|bundle| &bundle.event);
    assert!(
        events
            .filter(|e| e.event.as_ref().is_some_and(is_sched))
            .count()
            > switches
    );
}

#[test]
fn probes_007_and_009_and_011_groups_are_expanded_and_missing_events_reported() {
    let Some(instance) = TestInstance::new("groups") else {
        return;
    };
    let mut controller = Controller::new();
    let events = [
        "sched/*",
        "sched/no_such_event",
        "no_such_group/x",
        "perfetto_kprobes/x",
    ];
    let packets = record(&mut controller, 1, &config(&instance, &events));
    for event in instance.fs.events_of("sched") {
        assert!(is_on(&instance, &format!("sched/{event}")), "{event}");
    }
    controller.flush(&[1]);
    let stats = packets.stats();
    let name = |text: &str| text.as_bytes().to_vec();
    let mut unknown = stats[0].unknown_ftrace_events.clone();
    unknown.sort();
    // The reserved group is not looked at.
    assert_eq!(
        unknown,
        [name("no_such_group/x"), name("sched/no_such_event")]
    );
    assert!(stats[0].failed_ftrace_events.is_empty());
    controller.stop(1);
    for event in instance.fs.events_of("sched") {
        assert!(!is_on(&instance, &format!("sched/{event}")), "{event}");
    }
}

#[test]
fn probes_010_refused_generic_events_are_reported_and_not_enabled() {
    let Some(instance) = TestInstance::new("generic") else {
        return;
    };
    let mut controller = Controller::new();
    let mut wanted = config(
        &instance,
        &["sched/sched_stat_runtime", "sched/sched_switch"],
    );
    wanted.disable_generic_events = Some(true);
    let packets = record(&mut controller, 1, &wanted);
    assert!(!is_on(&instance, "sched/sched_stat_runtime"));
    controller.flush(&[1]);
    let failed = packets.stats()[0].failed_ftrace_events.clone();
    assert_eq!(failed, [b"sched/sched_stat_runtime".to_vec()]);
}

#[test]
fn probes_013_and_018_sessions_share_the_buffer_but_not_their_events() {
    let Some(instance) = TestInstance::new("shared") else {
        return;
    };
    let mut controller = Controller::new();
    let first = record(
        &mut controller,
        1,
        &config(&instance, &["sched/sched_switch"]),
    );
    let size = read(&instance, "buffer_size_kb");
    let mut wanted = config(&instance, &["sched/sched_process_exit"]);
    wanted.buffer_size_kb = Some(1024);
    wanted.use_monotonic_raw_clock = Some(true);
    let second = record(&mut controller, 2, &wanted);
    assert_eq!(read(&instance, "buffer_size_kb"), size);
    assert!(read(&instance, "trace_clock").contains("[boot]"));
    ping_pong(50);
    controller.flush(&[1, 2]);
    controller.stop(2);
    assert!(is_on(&instance, "sched/sched_switch"));
    assert!(!is_on(&instance, "sched/sched_process_exit"));
    assert_eq!(read(&instance, "tracing_on"), "1");
    controller.stop(1);
    // Kernels may leave out switches: the next one is written whole.
    let of_first = first.bundles();
    let mut whole = of_first.iter().flat_map(|bundle| &bundle.event);
    assert!(whole.all(|event| matches!(event.event, Some(Event::SchedSwitch(_)))));
    let of_second = second.bundles();
    assert!(
        of_second
            .iter()
            .all(|bundle| bundle.compact_sched.as_option().is_none())
    );
    let exits = of_second.iter().flat_map(|bundle| &bundle.event);
    assert!(exits.clone().count() > 0);
    assert!(
        exits
            .clone()
            .all(|e| matches!(e.event, Some(Event::SchedProcessExit(_))))
    );
}

#[test]
fn probes_014_another_tracer_keeps_us_out_unless_we_preserve() {
    let Some(instance) = TestInstance::new("tracer") else {
        return;
    };
    if let Err(error) = instance.fs.write("current_tracer", "function") {
        println!("skipped: no function tracer: {error}");
        return;
    }
    instance.fs.write("tracing_on", "0").expect("writable");
    let mut controller = Controller::new();
    let mut wanted = config(&instance, &["sched/sched_switch"]);
    let refused = controller.set_up(1, &wanted, Box::new(Packets::default()));
    let message = refused.expect_err("refused").to_string();
    assert!(message.contains("current_tracer is function"), "{message}");
    assert_eq!(read(&instance, "tracing_on"), "0");
    wanted.preserve_ftrace_buffer = Some(true);
    controller
        .set_up(1, &wanted, Box::new(Packets::default()))
        .expect("set up");
    drop(controller);
    instance
        .fs
        .write("current_tracer", "nop")
        .expect("writable");
}

#[test]
fn probes_015_a_preserved_buffer_is_read_as_it_is() {
    let Some(instance) = TestInstance::new("preserve") else {
        return;
    };
    instance.fs.write("trace_clock", "boot").expect("writable");
    instance
        .fs
        .write("buffer_size_kb", "128")
        .expect("writable");
    instance
        .fs
        .write("trace_marker", "from before")
        .expect("writable");
    let size = read(&instance, "buffer_size_kb");
    let mut controller = Controller::new();
    let mut wanted = config(&instance, &["ftrace/print"]);
    wanted.preserve_ftrace_buffer = Some(true);
    let packets = record(&mut controller, 1, &wanted);
    assert_eq!(packets.stats()[0].preserve_ftrace_buffer, Some(true));
    controller.flush(&[1]);
    assert_eq!(read(&instance, "buffer_size_kb"), size);
    let printed = packets
        .bundles()
        .iter()
        .flat_map(|bundle| bundle.event.clone())
        .any(|event| {
            matches!(&event.event, Some(Event::Print(print))
            if print.buf.as_deref() == Some(b"from before\n"))
        });
    assert!(printed);
}

#[test]
fn probes_016_and_017_the_clock_is_boot_and_everything_is_given_back() {
    let Some(instance) = TestInstance::new("restore") else {
        return;
    };
    let fs = &instance.fs;
    for (file, text) in [
        ("trace_clock", "mono"),
        ("buffer_size_kb", "512"),
        ("tracing_on", "0"),
        ("buffer_percent", "30"),
        ("events/signal/signal_generate/enable", "1"),
    ] {
        fs.write(file, text).expect("writable");
    }
    let state = || {
        let files = [
            "trace_clock",
            "buffer_size_kb",
            "tracing_on",
            "buffer_percent",
            "set_event",
        ];
        // Kernels before 6.8 cannot change the size of pages.
        let page_size = instance.fs.read("buffer_subbuf_size_kb").ok();
        (files.map(|file| read(&instance, file)), page_size)
    };
    let before = state();
    let mut controller = Controller::new();
    let mut wanted = config(&instance, &["sched/sched_switch"]);
    wanted.buffer_size_kb = Some(1024);
    record(&mut controller, 1, &wanted);
    assert!(read(&instance, "trace_clock").contains("[boot]"));
    assert_eq!(read(&instance, "tracing_on"), "1");
    assert_eq!(read(&instance, "set_event"), "sched:sched_switch");
    controller.stop(1);
    assert_eq!(state(), before);

    let mut wanted = config(&instance, &["sched/sched_switch"]);
    wanted.use_monotonic_raw_clock = Some(true);
    let packets = record(&mut controller, 2, &wanted);
    ping_pong(10);
    controller.flush(&[2]);
    assert!(read(&instance, "trace_clock").contains("[mono_raw]"));
    drop(controller);
    assert_eq!(state(), before);
    let bundle = &packets.bundles()[0];
    assert_eq!(bundle.ftrace_clock.map(|clock| clock as i32), Some(4));
    assert!(bundle.ftrace_timestamp > Some(0) && bundle.boot_timestamp > Some(0));
}

#[test]
fn probes_019_and_020_exclusive_features_are_alone_and_undone() {
    let Some(instance) = TestInstance::new("exclusive") else {
        return;
    };
    let option = |name: &str| ftrace_config::TracefsOption {
        name: Some(name.as_bytes().to_vec()),
        state: Some(ftrace_config::tracefs_option::State::STATE_DISABLED),
        ..Default::default()
    };
    let mut controller = Controller::new();
    for bad in ["no_such_option", "../tracing_on"] {
        let mut wanted = config(&instance, &["sched/sched_switch"]);
        wanted.tracefs_options.push(option(bad));
        assert!(
            controller
                .set_up(1, &wanted, Box::new(Packets::default()))
                .is_err(),
            "{bad}"
        );
        assert_eq!(read(&instance, "set_event"), "");
    }
    let (option_before, mask) = (
        read(&instance, "options/overwrite"),
        read(&instance, "tracing_cpumask"),
    );
    let mut exclusive = config(&instance, &["sched/sched_switch"]);
    exclusive.tids_to_trace = vec![1, 2];
    exclusive.tracefs_options.push(option("overwrite"));
    exclusive.tracing_cpumask = Some(b"1".to_vec());
    record(&mut controller, 1, &exclusive);
    assert_eq!(read(&instance, "set_event_pid"), "1\n2");
    assert_eq!(read(&instance, "options/overwrite"), "0");
    let plain = config(&instance, &["sched/sched_switch"]);
    let refused = controller.set_up(2, &plain, Box::new(Packets::default()));
    assert!(matches!(refused, Err(SetupError::ExclusiveActive)));
    controller.stop(1);
    assert_eq!(read(&instance, "set_event_pid"), "");
    assert_eq!(read(&instance, "options/overwrite"), option_before);
    assert_eq!(read(&instance, "tracing_cpumask"), mask);

    record(&mut controller, 3, &plain);
    let refused = controller.set_up(4, &exclusive, Box::new(Packets::default()));
    assert!(matches!(refused, Err(SetupError::NotAlone)));
    assert_eq!(read(&instance, "set_event_pid"), "");
}

#[test]
fn probes_021_instances_have_plain_names_and_must_exist() {
    let Some(instance) = TestInstance::new("names") else {
        return;
    };
    let mut controller = Controller::new();
    for bad in ["../x", "a/b", "ferretto-no-such-instance"] {
        let mut wanted = config(&instance, &["sched/sched_switch"]);
        wanted.instance_name = Some(bad.as_bytes().to_vec());
        let refused = controller.set_up(1, &wanted, Box::new(Packets::default()));
        assert!(matches!(refused, Err(SetupError::Tracefs(_))), "{bad}");
    }
}

#[test]
fn probes_049_the_syscall_filter_is_the_union_of_the_sessions() {
    let Some(instance) = TestInstance::new("syscalls") else {
        return;
    };
    let filter = || read(&instance, "events/raw_syscalls/sys_enter/filter");
    let with = |names: &[&str]| FtraceConfig {
        syscall_events: names.iter().map(|name| name.as_bytes().to_vec()).collect(),
        ..config(&instance, &[])
    };
    let mut controller = Controller::new();
    let first = record(
        &mut controller,
        1,
        &with(&["sys_getppid", "sys_no_such_call"]),
    );
    let number = filter();
    assert!(number.starts_with("id == "), "{number}");
    record(
        &mut controller,
        2,
        &config(&instance, &["raw_syscalls/sys_enter"]),
    );
    assert_eq!(filter(), "none");
    controller.stop(2);
    assert_eq!(filter(), number);
    let _ = rustix::process::getppid();
    controller.flush(&[1]);
    controller.stop(1);
    assert_eq!(filter(), "none");
    let events = first
        .bundles()
        .iter()
        .flat_map(|bundle| bundle.event.clone())
        .collect::<Vec<_>>();
    let entered = events.iter().any(|event| {
        matches!(&event.event, Some(Event::SysEnter(enter))
            if number == format!("id == {}", enter.id.unwrap_or(-1)))
    });
    assert!(entered);

    let none = record(&mut controller, 3, &with(&["sys_no_such_call"]));
    let _ = rustix::process::getppid();
    controller.flush(&[3]);
    assert!(none.bundles().is_empty());
}

#[test]
fn probes_070_each_flush_writes_start_and_end_of_the_same_cpus() {
    let Some(instance) = TestInstance::new("stats") else {
        return;
    };
    let mut controller = Controller::new();
    let packets = record(
        &mut controller,
        1,
        &config(&instance, &["sched/sched_switch"]),
    );
    controller.flush(&[1]);
    controller.flush(&[1]);
    let cpus = |stats: &FtraceStats| {
        stats
            .cpu_stats
            .iter()
            .map(|cpu| cpu.cpu)
            .collect::<Vec<_>>()
    };
    let stats = packets.stats();
    let phases: Vec<_> = stats
        .iter()
        .map(|stats| stats.phase.map(|phase| phase as i32))
        .collect();
    assert_eq!(phases, [Some(1), Some(2), Some(1), Some(2)]);
    assert!(
        stats
            .iter()
            .all(|one| cpus(one) == cpus(&stats[0]) && !one.cpu_stats.is_empty())
    );
}

#[test]
fn overwritten_events_are_flagged_as_lost() {
    let Some(instance) = TestInstance::new("lost") else {
        return;
    };
    let mut controller = Controller::new();
    let mut wanted = config(&instance, &["ftrace/print"]);
    wanted.buffer_size_kb = Some(8);
    let packets = record(&mut controller, 1, &wanted);
    for round in 0..2 {
        for line in 0..2000 {
            let text = format!("line {line} of round {round}, long enough to fill the buffer");
            instance.fs.write("trace_marker", &text).expect("writable");
        }
        controller.flush(&[1]);
    }
    let bundles = packets.bundles();
    assert!(
        bundles
            .iter()
            .any(|bundle| bundle.lost_events == Some(true))
    );
    let overrun = |stats: &FtraceStats| {
        stats
            .cpu_stats
            .iter()
            .filter_map(|c| c.overrun)
            .sum::<u64>()
    };
    assert!(packets.stats().last().map(overrun) > Some(0));
}

#[test]
fn every_event_of_this_kernel_can_be_set_up() {
    let Some(instance) = TestInstance::new("all") else {
        return;
    };
    let groups = std::fs::read_dir(instance.fs.root().join("events")).expect("readable");
    let mut wanted = config(&instance, &[]);
    for group in groups.flatten().filter(|entry| entry.path().is_dir()) {
        let name = group.file_name().into_string().expect("text");
        wanted.ftrace_events.push(format!("{name}/*").into_bytes());
    }
    let mut controller = Controller::new();
    let packets = record(&mut controller, 1, &wanted);
    ping_pong(20);
    controller.flush(&[1]);
    drop(controller);
    for bundle in packets.bundles() {
        assert!(bundle.error.is_empty(), "{:?}", bundle.error);
    }
    assert!(
        packets
            .bundles()
            .iter()
            .any(|bundle| !bundle.generic_event_descriptors.is_empty())
    );
}

#[test]
fn probes_048_kernel_probes_that_cannot_be_created_are_reported() {
    use ferretto_proto::ftrace_config::KprobeEvent;
    use ferretto_proto::ftrace_config::kprobe_event::KprobeType;
    let Some(instance) = TestInstance::new("kprobes") else {
        return;
    };
    let mut wanted = config(&instance, &["sched/sched_switch"]);
    for name in ["a b", "no_such_kernel_function"] {
        wanted.kprobe_events.push(KprobeEvent {
            probe: Some(name.into()),
            r#type: Some(KprobeType::KPROBE_TYPE_BOTH),
            ..Default::default()
        });
    }
    let mut controller = Controller::new();
    let packets = record(&mut controller, 1, &wanted);
    controller.flush(&[1]);
    let failed = packets.stats()[0].failed_ftrace_events.clone();
    assert_eq!(failed.len(), 4, "{failed:?}");
    assert!(failed.contains(&b"perfetto_kprobes/a b".to_vec()));
    assert!(failed.contains(&b"perfetto_kretprobes/no_such_kernel_function".to_vec()));
}
