//! Tests of wake-ups when the kernel's buffers fill up, each in a private tracefs instance.

use crate::common::{Packets, TestInstance, fill};
use ferretto_probes::ftrace::Controller;
use ferretto_proto::FtraceConfig;

fn wants(instance: &TestInstance, percent: Option<u32>) -> FtraceConfig {
    FtraceConfig {
        ftrace_events: vec![b"ftrace/print".to_vec()],
        instance_name: Some(instance.name.clone().into_bytes()),
        buffer_size_kb: Some(256),
        drain_buffer_percent: percent,
        ..Default::default()
    }
}

fn set_up(controller: &mut Controller, id: u64, config: &FtraceConfig) -> Packets {
    let packets = Packets::default();
    controller
        .set_up(id, config, Box::new(packets.clone()))
        .expect("set up");
    packets
}

fn record(controller: &mut Controller, id: u64, config: &FtraceConfig) {
    set_up(controller, id, config);
    controller.start(id).expect("started");
}

fn level(instance: &TestInstance) -> String {
    let text = instance.fs.read("buffer_percent").expect("readable");
    text.trim().to_owned()
}

#[test]
fn probes_023_the_lowest_fill_level_counts_and_the_former_comes_back() {
    let Some(instance) = TestInstance::new("watermark") else {
        return;
    };
    let wants = |percent| wants(&instance, percent);
    let mut controller = Controller::new();
    record(&mut controller, 1, &wants(None));
    assert_eq!(controller.drain_period_ms(), Some(100));
    assert!(controller.watched().is_empty());
    set_up(&mut controller, 2, &wants(Some(70)));
    assert_eq!(level(&instance), "50", "not started");
    if let Err(error) = controller.start(2) {
        println!("skipped: {error}");
        return;
    }
    record(&mut controller, 3, &wants(Some(0)));
    assert_eq!(level(&instance), "70");
    record(&mut controller, 4, &wants(Some(10)));
    assert_eq!(level(&instance), "10");
    assert_eq!(controller.watched().len(), instance.fs.cpus().len());
    assert_eq!(controller.drain_period_ms(), Some(1000));

    assert_eq!(controller.read_filled(), None, "nothing is there");
    fill(&instance);
    assert!(controller.read_filled().is_some());
    assert_eq!(controller.read_filled(), None, "all was read");

    controller.stop(4);
    assert_eq!(level(&instance), "70");
    controller.stop(2);
    assert_eq!(level(&instance), "50");
    assert!(controller.watched().is_empty());
    assert_eq!(controller.drain_period_ms(), Some(100));
    record(&mut controller, 5, &wants(Some(30)));
    assert_eq!(level(&instance), "30");
    drop(controller);
    assert_eq!(level(&instance), "50");
}

#[test]
fn probes_023_a_fill_level_the_kernel_refuses_is_told_and_not_waited_for() {
    let Some(instance) = TestInstance::new("refused-level") else {
        return;
    };
    let mut controller = Controller::new();
    let packets = set_up(&mut controller, 1, &wants(&instance, Some(101)));
    let error = controller.start(1).expect_err("refused").to_string();
    assert!(error.contains("buffer_percent"), "{error}");
    assert_eq!(level(&instance), "50");
    assert_eq!(controller.drain_period_ms(), Some(100));
    fill(&instance);
    controller.flush(&[1]);
    assert!(!packets.bundles().is_empty(), "it records all the same");
}
