//! Tests of the CPUs that a plan counts on.

use std::fs;

use crate::common::kernel::{kernel, put};
use crate::common::timebase;
use ferretto_perf::config::Plan;
use ferretto_proto::perf_events::{RawEvent, Timebase};
use ferretto_proto::{Message, PerfEventConfig};

#[test]
fn a_machine_wide_pmu_counts_on_its_cpus() {
    ferretto_testing::own_process!();
    let (_home, kernel) = kernel();
    let event = RawEvent {
        pmu_name: Some(b"uncore".to_vec()),
        config: Some(0x1ff),
        ..Default::default()
    };
    let config = timebase(Timebase {
        event: Some(event.into()),
        ..Default::default()
    });
    let plan = Plan::new(&config.encode_to_vec(), &kernel).expect("a plan");
    assert_eq!(plan.timebase.cpus, Some(vec![0, 2, 3]));
    // 2 is offline.
    assert_eq!(plan.online_cpus(&kernel), [0, 3]);
    let [notice] = &plan.notices[..] else {
        panic!("{:?}", plan.notices);
    };
    assert!(
        notice.contains("config: the bits 0x100 mean nothing to uncore"),
        "{notice}"
    );
}

#[test]
fn perf_015_and_018_cpus_that_are_not_there_are_skipped() {
    ferretto_testing::own_process!();
    let (_home, kernel) = kernel();
    let of = |targets: &[u32], prefixes: &[&str]| {
        let config = PerfEventConfig {
            target_cpu: targets.to_vec(),
            cpuid: prefixes
                .iter()
                .map(|prefix| prefix.as_bytes().to_vec())
                .collect(),
            ..Default::default()
        };
        let plan = Plan::new(&config.encode_to_vec(), &kernel).expect("a plan");
        plan.online_cpus(&kernel)
    };
    assert_eq!(of(&[], &[]), [0, 1, 3]);
    assert_eq!(of(&[3, 2, 99, 0], &[]), [0, 3]);
    assert_eq!(of(&[2], &[]), [0; 0]);
    // Not an Arm machine: no CPU has an id.
    assert_eq!(of(&[], &["41d0", ""]), [0; 0]);
    let block =
        "CPU implementer\t: 0x41\nCPU variant\t: 0x1\nCPU part\t: 0xd0c\nCPU revision\t: 2\n";
    let text = format!("processor\t: 0\n{block}\nprocessor\t: 1\nBogoMIPS : 50\n\n");
    put(&kernel.procfs, "cpuinfo", &text);
    assert_eq!(of(&[], &["41d0c12"]), [0]);
    assert_eq!(of(&[], &["99", "41d"]), [0]);
    assert_eq!(of(&[], &["41d0d"]), [0; 0]);
}

#[test]
fn perf_015_without_the_list_each_cpu_says_whether_it_is_online() {
    ferretto_testing::own_process!();
    let (_home, kernel) = kernel();
    fs::remove_file(kernel.sysfs.join("devices/system/cpu/online")).expect("removed");
    // The first CPU cannot be switched off, so it has no such file.
    fs::create_dir_all(kernel.sysfs.join("devices/system/cpu/cpu0")).expect("a directory");
    put(&kernel.sysfs, "devices/system/cpu/cpu1/online", "0\n");
    put(&kernel.sysfs, "devices/system/cpu/cpu2/online", "1\n");
    put(&kernel.sysfs, "devices/system/cpu/cpufreq/x", "");
    assert_eq!(ferretto_perf::cpus::online(&kernel), [0, 2]);
}
