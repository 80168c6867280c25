//! Presets: named sets of data of the machine for `ferretto record`.

use crate::world::World;

/// Returns the config for the arguments. Prints that the test is skipped and returns `None` if
/// kernel events are not available.
fn config(args: &[&str]) -> Option<String> {
    let world = World::new();
    if ferretto_probes::ftrace::kernel_events().is_empty() {
        println!("skipped: kernel events are not allowed here");
        return None;
    }
    let args = [&["record", "--print-config"], args].concat();
    Some(world.run("ferretto", &args).returned(0).text().to_owned())
}

fn refused(args: &[&str]) -> String {
    let world = World::new();
    let output = world.run("ferretto", &[&["record"], args].concat());
    assert_eq!(world.names(), [] as [&str; 0], "no files are left");
    output.returned(1).stderr
}

#[test]
fn a_preset_replaces_the_default_and_presets_add_up() {
    let Some(default) = config(&[]) else { return };
    assert!(default.contains("sched/sched_switch"), "{default}");
    assert!(!default.contains("raw_syscalls"), "{default}");
    assert_eq!(config(&["--sched"]).unwrap(), default);

    let irq = config(&["--irq"]).unwrap();
    assert!(irq.contains("irq/softirq_entry"), "{irq}");
    assert!(!irq.contains("sched/sched_switch"), "{irq}");
    // The names of new threads are in every recording.
    assert!(irq.contains("task/task_newtask"), "{irq}");

    let both = config(&["--irq", "--sched", "--memory"]).unwrap();
    for event in [
        "irq/softirq_entry",
        "sched/sched_switch",
        "meminfo_period_ms: 100",
    ] {
        assert!(both.contains(event), "{event}: {both}");
    }
}

#[test]
fn memory_is_recorded_in_steps_and_page_faults_are_counted() {
    let Some(memory) = config(&["--memory"]) else {
        return;
    };
    assert!(memory.contains("throttle_rss_stat: true"), "{memory}");
    assert!(!memory.contains("page_fault"), "{memory}");
    assert!(memory.contains("vmstat_period_ms: 100"), "{memory}");
    let each = config(&["--memory", "--event", "kmem/rss_stat"]).unwrap();
    assert!(!each.contains("throttle_rss_stat"), "{each}");
}

#[test]
fn system_calls_are_recorded_by_name() {
    let Some(config) = config(&["--syscalls=read,sys_futex"]) else {
        return;
    };
    assert!(config.contains("syscall_events: \"sys_read\""), "{config}");
    assert!(config.contains("syscall_events: \"sys_futex\""), "{config}");
    let stderr = refused(&["--syscalls=futx"]);
    assert!(stderr.contains("did you mean futex?"), "{stderr}");
}

#[test]
fn kernel_events_are_named_by_patterns() {
    let Some(config) = config(&["--event", "task/task_*", "--event", "sched_pi_setprio"]) else {
        return;
    };
    assert!(config.contains("\"task/task_rename\""), "{config}");
    assert!(config.contains("\"sched/sched_pi_setprio\""), "{config}");
    assert!(!config.contains("sched/sched_switch\""), "{config}");
    let stderr = refused(&["--event", "sched/sched_swich"]);
    assert!(
        stderr.contains("did you mean sched/sched_switch?"),
        "{stderr}"
    );
    let stderr = refused(&["--event", "shced/foo"]);
    assert!(stderr.contains("did you mean sched/*?"), "{stderr}");
    let stderr = refused(&["--event", "nothing/like_*"]);
    assert!(stderr.contains("no event \"nothing/like_*\""), "{stderr}");
}

#[test]
fn a_preset_is_recorded() {
    if config(&["--syscalls"]).is_none() {
        return;
    }
    let world = World::new();
    let args = ["record", "--syscalls=getppid", "--", "sh", "-c", "exit 3"];
    world.run("ferretto", &args).returned(3);
    let summary = world.summary("trace.pftrace");
    let source = |name: &str| summary.sources.iter().find(|source| source.name == name);
    let kinds = &source("linux.ftrace")
        .expect("kernel events are recorded")
        .kinds;
    let has = |kind: &str| kinds.iter().any(|(name, _)| name == kind);
    assert!(has("sys_enter") && has("sys_exit"), "{kinds:?}");
    assert!(!has("sched_switch"), "{kinds:?}");
}

#[test]
fn presets_and_a_config_exclude_each_other() {
    let world = World::new();
    let output = world.run("ferretto", &["record", "--io", "-c", "x.cfg"]);
    assert!(output.returned(2).stderr.contains("cannot be used with"));
}

#[test]
fn a_recording_of_requests_to_disks_has_their_names() {
    let disks = std::fs::read_dir("/sys/class/block");
    if disks.is_ok_and(|mut disks| disks.next().is_none()) {
        println!("skipped: this machine has no disks");
        return;
    }
    let Some(config) = config(&["--io"]) else {
        return;
    };
    assert!(!config.contains("ferretto.disk."), "{config}");
    let world = World::new();
    let args = ["record", "-q", "--io", "-o", "t", "--", "true"];
    world.run("ferretto", &args).returned(0);
    let text = world.run("ferretto", &["text", "t"]).returned(0);
    assert!(
        text.text().contains("key: \"ferretto.disk."),
        "{}",
        text.text()
    );
}

#[test]
fn messages_of_programs_are_recorded_when_they_are_named() {
    let marker = "/sys/kernel/tracing/trace_marker";
    let is_open = std::fs::OpenOptions::new().write(true).open(marker).is_ok();
    if !is_open || ferretto_probes::ftrace::kernel_events().is_empty() {
        println!("skipped: {marker} is not writable here");
        return;
    }
    for event in ["ftrace/print", "trace_marker"] {
        let world = World::new();
        let script = format!("echo a message of presets > {marker}");
        let record = ["record", "-q", "-o", "t", "--event", event];
        let command = ["--", "sh", "-c", script.as_str()];
        let output = world.run("ferretto", &[&record[..], &command[..]].concat());
        if output.code != 0 && output.stderr.contains("in use") {
            println!(
                "skipped: another program uses the kernel's tracing: {}",
                output.stderr
            );
            return;
        }
        output.returned(0);
        let text = world
            .run("ferretto", &["text", "--resolve", "t"])
            .returned(0);
        let text = text.text();
        assert!(text.contains("a message of presets"), "{event}: {text}");
    }
}
