//! ftrace against the running kernel, each test in a tracefs instance of its own.

mod common;

use common::{Packets, TestInstance};
use ferretto_probes::ftrace::Controller;
use ferretto_proto::{FtraceConfig, ftrace_config};

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
    let (compact, plain) = (Packets::default(), Packets::default());
    let mut controller = Controller::new();
    let wanted = config(&instance, &events);
    controller
        .set_up(1, &wanted, Box::new(compact.clone()))
        .expect("set up");
    let mut wanted = config(&instance, &events);
    wanted.compact_sched = ftrace_config::CompactSchedConfig {
        enabled: Some(false),
        ..Default::default()
    }
    .into();
    controller
        .set_up(2, &wanted, Box::new(plain.clone()))
        .expect("set up");
    controller.start(1).expect("start");
    controller.start(2).expect("start");
    ping_pong(200);
    controller.flush(&[1, 2]);
    controller.stop(1);
    controller.stop(2);
    drop(controller);

    let mut switches = 0;
    for bundle in compact.bundles() {
        let sched = bundle.compact_sched.as_option();
        switches += sched.map_or(0, |sched| sched.switch_timestamp.len());
        assert!(bundle.error.is_empty(), "{:?}", bundle.error);
    }
    assert!(switches >= 200, "{switches}");
    let events: usize = plain
        .bundles()
        .iter()
        .map(|bundle| bundle.event.len())
        .sum();
    assert!(events > switches, "{events}");
    println!("{switches} {events} {:?}", compact.stats());
}
