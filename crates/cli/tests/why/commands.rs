//! The command on a trace of a few events.

use ferretto_text::config::{Unknown, read_message};
use serde_json::Value;

use crate::world::World;

/// Thread `a` waits for a lock of thread `b` for 3 µs, and then 1 µs for the CPU.
pub(crate) const LOCK: &str = r#"
    packet { system_info { utsname { sysname: "Linux" release: "6.1.0" machine: "x86_64" } } }
    packet { trusted_packet_sequence_id: 1 ftrace_events { cpu: 0
        event { timestamp: 1000 pid: 0 sched_switch { prev_pid: 0 prev_comm: "swapper/0"
            prev_state: 0 next_pid: 1 next_comm: "a" next_prio: 120 } }
        event { timestamp: 1900 pid: 1 sys_enter { id: 202 args: 4096 args: 128 } }
        event { timestamp: 2000 pid: 1 sched_switch { prev_pid: 1 prev_comm: "a" prev_state: 1
            next_pid: 2 next_comm: "b" next_prio: 120 } }
        event { timestamp: 5000 pid: 2 sched_waking { comm: "a" pid: 1 prio: 120 target_cpu: 0 } }
        event { timestamp: 6000 pid: 2 sched_switch { prev_pid: 2 prev_comm: "b" prev_state: 1
            next_pid: 1 next_comm: "a" next_prio: 120 } }
        event { timestamp: 6100 pid: 1 sys_exit { id: 202 ret: 0 } }
        event { timestamp: 7000 pid: 1 sched_switch { prev_pid: 1 prev_comm: "a" prev_state: 1
            next_pid: 0 next_comm: "swapper/0" next_prio: 120 } } } }"#;

/// The wake-up of thread `a` in an interrupt. Only the compact encoding tells of interrupts; it has
/// the switches of this CPU, too.
const IN_INTERRUPT: &str = r#"
    packet { trusted_packet_sequence_id: 1 ftrace_events { cpu: 0 compact_sched {
        intern_table: "a" intern_table: "b"
        switch_timestamp: 2000 switch_prev_state: 1 switch_next_pid: 2 switch_next_prio: 120
        switch_next_comm_index: 1
        waking_timestamp: 5000 waking_pid: 1 waking_target_cpu: 0 waking_prio: 120
        waking_comm_index: 0 waking_common_flags: 8 } } }"#;

pub(crate) fn write(world: &World, text: &str) {
    let trace = read_message(
        "perfetto.protos.Trace",
        "trace",
        text.as_bytes(),
        Unknown::Refuse,
    );
    let Some(Ok(trace)) = trace else {
        panic!("{:?}", trace.map(|it| it.err()));
    };
    world.write("t", trace.bytes);
}

fn why(world: &World, args: &[&str]) -> String {
    let words = [&["why", "t"], args].concat();
    let finished = world.run("ferretto", &words).returned(0);
    finished.text().to_owned()
}

fn json(world: &World, args: &[&str]) -> Value {
    let text = why(world, &[args, &["--json"]].concat());
    serde_json::from_str(&text).expect("JSON")
}

/// Checks that the causes add up, on all levels.
fn add_up(of: &Value) {
    let causes = of["causes"].as_array().expect("a list");
    if causes.is_empty() {
        return;
    }
    let sum: i64 = causes.iter().map(|it| it["dur_ns"].as_i64().unwrap()).sum();
    assert_eq!(Some(sum), of["dur_ns"].as_i64(), "{of}");
    causes.iter().for_each(add_up);
}

#[test]
fn a_thread_is_explained_through_the_holder_of_a_lock() {
    let world = World::new();
    write(&world, LOCK);
    let all = json(&world, &["--thread", "a"]);
    assert_eq!(
        (&all["ts_ns"], &all["dur_ns"]),
        (&1000.into(), &6000.into())
    );
    add_up(&all);
    let lock = &all["causes"][0];
    assert_eq!(
        (&lock["cause"], &lock["kind"]),
        (&"wait".into(), &"lock".into())
    );
    assert_eq!(
        (&lock["dur_ns"], &lock["waker"]["tid"]),
        (&3000.into(), &2.into())
    );
    assert_eq!(lock["causes"][0]["thread"]["name"], "b");
    assert_eq!(lock["causes"][0]["dur_ns"], 3000);
    let causes = all["causes"].as_array().unwrap();
    let cpu = causes.iter().find(|it| it["cause"] == "cpu").unwrap();
    assert_eq!(
        (&cpu["dur_ns"], &cpu["causes"][0]["behind"]["tid"]),
        (&1000.into(), &2.into())
    );
    assert_eq!(all["waits"][0]["call"], "futex");
    assert_eq!(all["waits"][0]["address"], 4096);

    let text = why(&world, &["--thread", "a"]);
    assert!(text.starts_with("a (1), 6.0 µs from 0 s on\n"), "{text}");
    assert!(
        text.contains("waited for a lock, until woken by b (2)"),
        "{text}"
    );
    for option in ["--off-cpu", "--perf", "--irq"] {
        assert!(text.contains(option), "{option} in {text}");
    }
    assert!(!text.contains("--syscalls"), "{text}");
}

#[test]
fn missing_data_is_named_with_its_option() {
    let world = World::new();
    let text = |without: &[&str]| {
        let kept = LOCK.lines();
        let kept = kept.filter(|line| !without.iter().any(|word| line.contains(word)));
        write(&world, &kept.collect::<Vec<_>>().join("\n"));
        why(&world, &["--thread", "a"])
    };
    let all = text(&[]);
    assert!(!all.contains("wake-ups (--sched)"), "{all}");
    let without = text(&["sched_waking"]);
    assert!(
        without.contains("wake-ups (--sched): who ended a wait"),
        "{without}"
    );
    let lacks = &json(&world, &["--thread", "a"])["missing"];
    let lacks: Vec<_> = lacks
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| &it["option"])
        .collect();
    assert_eq!(lacks, ["--sched", "--off-cpu", "--perf", "--irq"]);
    let without = text(&["sys_enter", "sys_exit"]);
    assert!(without.contains("system calls (--syscalls)"), "{without}");
    for option in ["--off-cpu", "--perf", "--irq"] {
        assert!(without.contains(option), "{option} in {without}");
    }
}

#[test]
fn lost_data_in_the_interval_is_named() {
    let world = World::new();
    let after = r#"
    packet { trusted_packet_sequence_id: 1 ftrace_events { cpu: 0 lost_events: true
        event { timestamp: 8000 pid: 0 sched_switch { prev_pid: 0 prev_comm: "swapper/0"
            prev_state: 0 next_pid: 1 next_comm: "a" next_prio: 120 } }
        event { timestamp: 9000 pid: 1 sched_switch { prev_pid: 1 prev_comm: "a" prev_state: 1
            next_pid: 0 next_comm: "swapper/0" next_prio: 120 } } } }"#;
    write(&world, &format!("{LOCK}{after}"));
    let run = |args: &[&str]| {
        let words = [&["why", "t", "--thread", "a"], args].concat();
        world.run("ferretto", &words).text().to_owned()
    };
    let text = run(&[]);
    assert!(text.contains("Lost in this time"), "{text}");
    assert!(text.contains("kernel events of CPU 0"), "{text}");
    let json: Value = serde_json::from_str(&run(&["--json"])).expect("JSON");
    // The last event before the loss.
    assert_eq!(json["losses"][0]["ts_ns"], 7000);
    // The time before is not affected.
    let text = run(&["--range", "1000..6500"]);
    assert!(!text.contains("Lost in this time"), "{text}");
}

#[test]
fn the_recorded_command_is_explained() {
    let world = World::new();
    // Process 2 is the kernel's.
    let lock = LOCK.replace("pid: 2 ", "pid: 7 ");
    let tree = r#"
    packet { process_tree { processes { pid: 1 ppid: 9 cmdline: "a" }
        processes { pid: 7 ppid: 8 cmdline: "b" } processes { pid: 8 cmdline: "ferretto" }
        processes { pid: 9 cmdline: "ferretto" } } }"#;
    let attribute = r#"
    packet { trace_attributes { attribute { key: "ferretto.command.pid" long_value: 1 } } }"#;
    write(&world, &format!("{lock}{tree}{attribute}"));
    let text = why(&world, &[]);
    assert!(text.starts_with("a (1), "), "{text}");
    assert!(text.contains("the recorded command"), "{text}");
    // A command that ends soon can keep the name that it had before it ran its program.
    let early = format!("{lock}{tree}").replace("\"a\"", "\"exe\"");
    let command = r#"
    packet { trace_attributes { attribute { key: "ferretto.command" string_value: "./app 5" } } }"#;
    write(&world, &format!("{early}{attribute}{command}"));
    let text = why(&world, &[]);
    assert!(text.starts_with("app (1), "), "{text}");
    // Without it, a child of a program that records is taken: the busiest.
    write(&world, &format!("{lock}{tree}"));
    let text = why(&world, &[]);
    assert!(text.starts_with("b (7), "), "{text}");
}

#[test]
fn a_signal_of_a_thread_that_ends_afterwards_is_no_child() {
    let world = World::new();
    // `rt_sigtimedwait` of the one, `kill` of the other, which ends then.
    let signal = LOCK.replace("id: 202 args: 4096 args: 128", "id: 128");
    let signal = signal.replace("id: 202", "id: 128").replace(
        "event { timestamp: 5000",
        "event { timestamp: 4900 pid: 2 sys_enter { id: 62 } }\n        event { timestamp: 5000",
    );
    let ends = signal.replace(
        r#"prev_comm: "b" prev_state: 1"#,
        r#"prev_comm: "b" prev_state: 16"#,
    );
    write(&world, &ends);
    let lock = &json(&world, &["--thread", "a"])["causes"][0];
    assert_eq!(
        (&lock["kind"], &lock["dur_ns"]),
        (&"signal".into(), &3000.into())
    );
    // In the call that ends it, it is one.
    write(&world, &ends.replace("id: 62", "id: 231"));
    let child = &json(&world, &["--thread", "a"])["causes"][0];
    assert_eq!(child["kind"], "child");
}

#[test]
fn a_thread_that_a_timer_interrupts_is_not_to_blame() {
    let world = World::new();
    // `nanosleep` of the one; the other is in `write` when the timer ends the wait.
    let timer = LOCK.replace("id: 202 args: 4096 args: 128", "id: 35");
    let timer = timer.replace("id: 202", "id: 35");
    let lines = timer.lines().map(|line| {
        if line.contains("sched_waking") {
            "event { timestamp: 4900 pid: 2 sys_enter { id: 1 } }"
        } else {
            line
        }
    });
    let timer = lines.collect::<Vec<_>>().join("\n") + IN_INTERRUPT;
    let interrupt = r#"
    packet { trusted_packet_sequence_id: 1 ftrace_events { cpu: 0
        event { timestamp: 6500 pid: 1 irq_handler_entry { irq: 7 name: "disk" } }
        event { timestamp: 6600 pid: 1 irq_handler_exit { irq: 7 } } } }"#;
    write(&world, &format!("{timer}{interrupt}"));
    let wait = &json(&world, &["--thread", "a"])["causes"][0];
    assert_eq!(
        (&wait["kind"], &wait["dur_ns"]),
        (&"timer".into(), &3000.into())
    );
    assert!(wait["waker"].is_null(), "{wait}");
    // A packet that the thread sends itself is delivered in an interrupt, too.
    let delivery = interrupt
        .replace("6500", "4950")
        .replace("6600", "5050")
        .replace(
            "irq_handler_entry { irq: 7 name: \"disk\" }",
            "softirq_entry { vec: 3 }",
        )
        .replace("irq_handler_exit { irq: 7 }", "softirq_exit { vec: 3 }")
        .replace("pid: 1", "pid: 2");
    write(&world, &format!("{timer}{delivery}"));
    let wait = &json(&world, &["--thread", "a"])["causes"][0];
    assert_eq!(wait["waker"]["tid"], 2, "{wait}");
}

#[test]
fn a_packet_that_an_interrupt_delivers_names_the_interrupt_and_its_cpu() {
    let world = World::new();
    // `recvfrom` of the one; the other runs its own code when the interrupt delivers the packet.
    let receive = LOCK.replace("id: 202 args: 4096 args: 128", "id: 45");
    let receive = receive.replace("id: 202", "id: 45");
    let lines = receive
        .lines()
        .filter(|line| !line.contains("sched_waking"));
    let delivery = r#"
    packet { trusted_packet_sequence_id: 1 ftrace_events { cpu: 0
        event { timestamp: 4950 pid: 2 softirq_entry { vec: 3 } }
        event { timestamp: 5050 pid: 2 softirq_exit { vec: 3 } } } }"#;
    let events = lines.collect::<Vec<_>>().join("\n");
    write(&world, &format!("{events}{IN_INTERRUPT}{delivery}"));
    let all = json(&world, &["--thread", "a"]);
    let wait = &all["waits"][0];
    assert_eq!(
        (&wait["kind"], &wait["dur_ns"], &wait["interrupt_cpu"]),
        (&"network".into(), &3000.into(), &0.into())
    );
    assert!(wait["waker"].is_null(), "{wait}");
    let text = why(&world, &["--thread", "a"]);
    let expected = "waited for a network packet, until interrupt NET_RX on CPU 0, in recvfrom";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_thread_that_an_idle_cpu_does_not_run_may_be_limited() {
    let world = World::new();
    // Thread `a` is preempted for 20 ms, in which the CPU is idle.
    let switch = |time: u64, prev: u64, next: u64| {
        format!(
            "event {{ timestamp: {time} pid: {prev} sched_switch {{ prev_pid: {prev} prev_comm: \"a\"
             prev_state: 0 next_pid: {next} next_comm: \"a\" }} }}\n"
        )
    };
    let trace = |idle: u64, more: &str| {
        let first = LOCK.lines().take(2).collect::<Vec<_>>().join("\n");
        let end = 2000 + idle;
        let events = switch(1000, 0, 1) + &switch(2000, 1, 0) + &switch(end, 0, 1);
        let events = events + &switch(end + 500, 1, 0);
        write(
            &world,
            &format!("{first} packet {{ ftrace_events {{ cpu: 0 {events} }} }} {more}"),
        );
    };
    trace(20_000_000, "");
    let cpu = &json(&world, &["--thread", "a"])["causes"][0];
    assert_eq!(
        (&cpu["cause"], &cpu["dur_ns"]),
        (&"cpu".into(), &20_000_000.into())
    );
    assert_eq!(cpu["causes"][0]["cause"], "cpu-idle");
    // Also in a part of that time.
    let part = &json(&world, &["--thread", "a", "--range", "1ms..2ms"])["causes"][0];
    assert_eq!(part["causes"][0]["cause"], "cpu-idle");
    let text = why(&world, &["--thread", "a"]);
    let expected = "it was idle, as with a limit of CPU time (cpu.max)";
    assert!(text.contains(expected), "{text}");
    // The counters of control groups tell if a limit was used up.
    let groups = |limited: &str, throttled: [u32; 2]| {
        let sample = |time: u64, value: u32| {
            format!(
                "packet {{ timestamp: {time} sys_stats {{ cgroup {{ path: \"{limited}\"
                 value {{ key: CGROUP_CPU_THROTTLED_US value: {value} }} }} }} }}\n"
            )
        };
        let process = "packet { timestamp: 900 process_tree { processes { pid: 1 cmdline: \"a\"
             cgroup: \"/system.slice/a.service/worker\" } threads { tid: 1 tgid: 1 } } }\n";
        process.to_owned() + &sample(950, throttled[0]) + &sample(20_100_000, throttled[1])
    };
    for (limited, throttled, expected) in [
        ("/system.slice/a.service", [5, 19_000], Some("a.service")),
        ("/system.slice/a.service", [5, 5], None),
        ("/system.slice/a", [5, 19_000], None),
    ] {
        trace(20_000_000, &groups(limited, throttled));
        let cpu = &json(&world, &["--thread", "a"])["causes"][0];
        let idle = &cpu["causes"][0];
        assert_eq!(idle["cause"], "cpu-idle");
        let group = expected.map_or(Value::Null, |_| limited.into());
        assert_eq!(idle["group"], group);
        let text = why(&world, &["--thread", "a"]);
        let used_up =
            "it was idle: /system.slice/a.service had used up its limit of CPU time (cpu.max)";
        assert_eq!(text.contains(used_up), expected.is_some(), "{text}");
    }
    // A wake-up is shorter.
    trace(50_000, "");
    let cpu = &json(&world, &["--thread", "a"])["causes"][0];
    assert_eq!(cpu["causes"][0]["cause"], "cpu-wakeup");
}

#[test]
fn slices_and_ranges_are_explained() {
    let world = World::new();
    write(&world, LOCK);
    let slice = json(&world, &["--slice", "sys_futex"]);
    assert_eq!(
        (&slice["ts_ns"], &slice["dur_ns"]),
        (&1900.into(), &4200.into())
    );
    add_up(&slice);
    let of_id = json(&world, &["--slice", &slice["slice"].to_string()]);
    assert_eq!(of_id["causes"], slice["causes"]);
    // Nanoseconds of the clock of the trace.
    let range = json(&world, &["--thread", "a", "--range", "3500..4500"]);
    assert_eq!(
        (&range["ts_ns"], &range["dur_ns"]),
        (&3500.into(), &1000.into())
    );
    add_up(&range);
    let after = json(&world, &["--thread", "a", "--range", "2.5us..3500ns"]);
    assert_eq!(after["ts_ns"], 3500);
    assert_eq!(after["causes"], range["causes"]);
    let worst = json(&world, &["--slice", "sys_futex", "--worst", "3"]);
    assert_eq!(
        (&worst["count"], &worst["median_ns"]),
        (&1.into(), &4200.into())
    );
    add_up(&worst["worst"][0]);
    let text = why(&world, &["--slice", "sys_futex", "--worst"]);
    assert!(text.contains("sys_futex: 1 slice, median 4.2 µs"), "{text}");
}

/// 300 slices of 1 µs on thread `a`. Three of them are longer by 50 µs, in which it waits for a
/// lock of thread `b`; these come last.
fn requests() -> String {
    const NAMES: [&str; 3] = ["swapper/0", "a", "b"];
    let system = LOCK.lines().take(2).collect::<Vec<_>>().join("\n");
    let switch = |time: u64, prev: u64, state: u64, next: u64| {
        format!(
            "event {{ timestamp: {time} pid: {prev} sched_switch {{ prev_pid: {prev} prev_state: {state} prev_comm: \"{}\"
             next_pid: {next} next_comm: \"{}\" }} }}\n",
            NAMES[prev as usize], NAMES[next as usize]
        )
    };
    let mut events = switch(1000, 0, 0, 1);
    let mut time = 2000;
    for request in 0..300 {
        events +=
            &format!("event {{ timestamp: {time} pid: 1 print {{ buf: \"B|1|request\" }} }}\n");
        time += 500;
        if request >= 297 {
            events +=
                &format!("event {{ timestamp: {time} pid: 1 sys_enter {{ id: 202 args: 64 }} }}\n");
            events += &switch(time, 1, 1, 2);
            time += 50_000;
            events += &format!("event {{ timestamp: {time} pid: 2 sched_waking {{ pid: 1 }} }}\n");
            events += &switch(time, 2, 1, 1);
            events += &format!("event {{ timestamp: {time} pid: 1 sys_exit {{ id: 202 }} }}\n");
        }
        time += 500;
        events += &format!("event {{ timestamp: {time} pid: 1 print {{ buf: \"E|1\" }} }}\n");
        time += 100;
    }
    events += &switch(time, 1, 1, 0);
    format!(
        "{system}\npacket {{ trusted_packet_sequence_id: 1 ftrace_events {{ cpu: 0 {events} }} }}"
    )
}

#[test]
fn the_causes_that_make_the_slow_slices_longer_are_named() {
    let world = World::new();
    write(&world, &requests());
    let all = json(&world, &["--slice", "request", "--worst", "4"]);
    assert_eq!(
        (&all["count"], &all["median_ns"], &all["p99_ns"]),
        (&300.into(), &1000.into(), &51_000.into())
    );
    let first = &all["causes"][0];
    assert_eq!(first["cause"], "waited for a lock, until woken by b");
    assert_eq!(
        (&first["typical_ns"], &first["slow_ns"]),
        (&0.into(), &50_000.into())
    );
    // The means of the causes are those of the durations.
    let sum = |field: &str| {
        let causes = all["causes"].as_array().expect("a list").iter();
        causes
            .map(|it| it[field].as_i64().expect("a number"))
            .sum::<i64>()
    };
    assert_eq!((sum("typical_ns"), sum("slow_ns")), (1000, 51_000));
    let worst = all["worst"].as_array().expect("a list");
    let durations: Vec<_> = worst.iter().map(|it| it["dur_ns"].as_i64()).collect();
    assert_eq!(
        durations,
        [Some(51_000), Some(51_000), Some(51_000), Some(1000)]
    );
    worst.iter().for_each(add_up);
    // Those of a range are compared with one another.
    let early = json(
        &world,
        &["--slice", "request", "--worst", "1", "--range", "..100us"],
    );
    assert_eq!(early["p99_ns"], 1000);
    assert_eq!(early["count"], 90);
    let text = why(&world, &["--slice", "request", "--worst"]);
    for part in [
        "request: 300 slices, median 1.0 µs, 99th percentile 51.0 µs\n",
        "The longest 3 compared with 30 around the median (means)\n",
        "0 s     50.0 µs    +50.0 µs  waited for a lock, until woken by b\n",
        "callstacks of waits (--off-cpu): where a thread waited\n",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn what_cannot_be_explained_is_an_error() {
    let world = World::new();
    write(&world, LOCK);
    let error = |args: &[&str], expected: &str| {
        let words = [&["why", "t"], args].concat();
        world
            .run("ferretto", &words)
            .returned(1)
            .complained(expected);
    };
    error(&["--slice", "nothing"], "the trace has no slice nothing");
    error(
        &["--thread", "nobody"],
        "no scheduling events of such a thread",
    );
    error(
        &["--thread", "a", "--range", "1s..2s"],
        "a (1) has no events in this range: it lasts from 0 s to 6.0 µs after the first event",
    );
    // Ranges have no longest time, unlike recordings.
    error(
        &["--slice", "sys_futex", "--range", "8d.."],
        "the trace has 1 slice sys_futex, but not in this range",
    );
    let none = ["why", "t", "--slice", "sys_futex", "--worst", "0"];
    let none = world.run("ferretto", &none).returned(2);
    assert!(none.stderr.contains("'0' for '--worst"), "{none:?}");
    let kernel = r#"packet { system_info { utsname { sysname: "Linux" } } }"#;
    write(&world, kernel);
    error(&[], "record it with ferretto record --why");
}
