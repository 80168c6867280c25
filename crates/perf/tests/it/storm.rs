//! Test of a storm of short-lived processes. Alone in its process, since it checks all descriptors.

use std::collections::BTreeSet;

use ferretto_proto::perf_events::timebase::Interval;

use crate::daemon::recording::{callstacks, of, record_until};
use crate::daemon::stacks::{Read, perf_samples};
use crate::daemon::target::{Target, compile, source as file};
use crate::daemon::world::{World, config, permitted, source, wait_until};

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

#[test]
fn every_sample_of_a_fork_storm_is_counted_and_no_descriptor_leaks() {
    ferretto_testing::own_process!();
    if permitted(|| Some(())).is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("programs");
    let flags = ["-O1", "-fno-optimize-sibling-calls", "-pthread"];
    if compile("cc", &file("programs.c"), &flags, &program).is_none() {
        return;
    }
    let targets = ["storm", "spin"].map(|kind| Target::start(&program, &[kind]));
    let [parent, other] = &targets;
    let world = World::new();
    let mut perf = callstacks(|_, scope| scope.target_cmdline = vec![b"programs".to_vec()]);
    perf.timebase.get_or_insert_default().interval = Some(Interval::Frequency(1000));
    let ours = |read: &Read| {
        let stack = read.stack.iter().flatten();
        let mut own = stack.filter(|frame| frame.mapping.ends_with("/programs"));
        own.next().is_some()
    };
    let packets = record_until(&world, config(vec![source(&perf)]), "children", |packets| {
        let reads = perf_samples(packets);
        let children = reads.iter().filter(|read| read.has("in_child"));
        let children: BTreeSet<u32> = children.map(Read::pid).collect();
        let whole = |read: &&&Read| read.has("main") && read.has("burn");
        children.len() >= 3 && of(&reads, other).iter().filter(whole).count() >= 20
    });
    let reads = perf_samples(&packets);
    for read in &reads {
        let is_reported = read.stack.is_some() || read.skipped().is_some();
        assert!(
            is_reported || read.sample.kernel_records_lost.is_some(),
            "{read:?}"
        );
    }
    let children = reads
        .iter()
        .filter(|read| ours(read) && read.pid() != other.pid());
    assert!(children.clone().any(|read| read.pid() != parent.pid()));
    // The descriptors of child processes are closed with them, while sampling continues.
    let before = descriptors();
    world.record(config(vec![source(&perf)]), |_| {
        wait_until("many more children", || {
            let next = std::process::Command::new("true")
                .spawn()
                .expect("a process");
            let pid = next.id();
            let _ = { next }.wait();
            pid.is_multiple_of(64)
        });
    });
    wait_until("descriptors are closed", || descriptors() <= before);
}
