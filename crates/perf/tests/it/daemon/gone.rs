//! Tests of processes that end before their samples are read.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use ferretto_proto::perf_events::timebase::Interval;
use ferretto_proto::perf_sample::SampleSkipReason;

use crate::daemon::recording::{callstacks, record_until};
use crate::daemon::stacks::{Read, perf_samples};
use crate::daemon::target::compile;
use crate::daemon::world::{World, config, permitted, source};

/// Uses the CPU for some milliseconds, and ends.
const BRIEF: &str = r#"
#include <time.h>
__attribute__((noinline)) long burn(void) { volatile long n = 0; clock_t end = clock() + CLOCKS_PER_SEC / 150; while (clock() < end) for (int i = 0; i < 1000; i++) n += i; return n; }
__attribute__((noinline)) long outer(void) { return burn() + 1; }
int main(void) { return outer() == 0; }
"#;

#[test]
fn perf_029_callstacks_of_processes_that_are_gone_are_found_by_what_the_kernel_told_of_them() {
    if permitted(|| Some(())).is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (code, program) = (folder.path().join("brief.c"), folder.path().join("brief"));
    std::fs::write(&code, BRIEF).expect("written");
    let flags = ["-O1", "-fno-optimize-sibling-calls", "-fomit-frame-pointer"];
    if compile("cc", &code, &flags, &program).is_none() {
        return;
    }
    let world = World::new();
    let mut perf = callstacks(|_, scope| scope.target_cmdline = vec![b"brief".to_vec()]);
    perf.timebase.get_or_insert_default().interval = Some(Interval::Frequency(1000));
    let mut children = BTreeSet::new();
    let whole = |read: &&Read| read.has("burn") && read.has("outer") && read.has("main");
    let packets = record_until(&world, config(vec![source(&perf)]), "children", |packets| {
        for _ in 0..10 {
            let mut command = Command::new(&program);
            let child = command.stdin(Stdio::null()).spawn();
            let mut child = child.expect("a child");
            children.insert(child.id());
            child.wait().expect("it ends");
        }
        let reads = perf_samples(packets);
        let theirs = reads.iter().filter(|read| children.contains(&read.pid()));
        let found: BTreeSet<u32> = theirs.filter(whole).map(Read::pid).collect();
        found.len() >= 6
    });
    // Nearly all had ended when the rings were read.
    let reads = perf_samples(&packets);
    let theirs = reads.iter().filter(|read| children.contains(&read.pid()));
    let (mut found, mut missed) = (0, 0);
    for read in theirs {
        found += usize::from(read.has("main"));
        missed += usize::from(read.skipped() == Some(SampleSkipReason::PROFILER_SKIP_READ_STAGE));
    }
    assert!(missed * 4 < found, "{missed} missed, {found} found");
}
