//! Tests of the events of a previous boot.

use std::fs;
use std::path::Path;

use crate::common::page::{PageBuilder, common, format};
use crate::common::{Packets, TestInstance};
use ferretto_probes::ftrace::{ParseStatus, Tracefs};
use ferretto_probes::{DataSource as _, FrozenFtrace};
use ferretto_proto::FtraceEventBundle;
use ferretto_proto::ftrace_event::Event;

const FREE: u16 = 100;

/// Creates an instance with these pages of one CPU, as the kernel shows it after a reboot.
fn instance(root: &Path, pages: &[Vec<u8>]) -> Tracefs {
    let fields = [
        ("char comm[16]", 8, 16, 0),
        ("pid_t pid", 24, 4, 1),
        ("int prio", 28, 4, 1),
    ];
    let write = |path: &str, content: &[u8]| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("created");
        fs::write(path, content).expect("written");
    };
    let text = format("sched_process_free", FREE, &fields);
    write("events/sched/sched_process_free/format", text.as_bytes());
    write("buffer_size_kb", b"64\n");
    write("buffer_subbuf_size_kb", b"4\n");
    write("tracing_on", b"0\n");
    write("trace", b"old\n");
    write("per_cpu/cpu2/trace_pipe_raw", &pages.concat());
    write("per_cpu/cpu2/stats", b"entries: 3\noverrun: 5\n");
    Tracefs::at(root)
}

fn page(time: u64, pid: i32) -> PageBuilder {
    let mut record = common(FREE, 7);
    record.extend(b"a name\0\0\0\0\0\0\0\0\0\0");
    record.extend(pid.to_le_bytes());
    record.extend(120i32.to_le_bytes());
    PageBuilder::new(time).record(1, &record)
}

fn events(bundles: &[FtraceEventBundle]) -> Vec<(u32, u64, i32)> {
    let mut found = Vec::new();
    for bundle in bundles {
        for event in &bundle.event {
            if let Some(Event::SchedProcessFree(free)) = &event.event {
                let time = event.timestamp.unwrap_or_default();
                found.push((
                    bundle.cpu.unwrap_or_default(),
                    time,
                    free.pid.unwrap_or_default(),
                ));
            }
        }
    }
    found
}

/// Polls until everything is read.
fn read(fs: Tracefs) -> Packets {
    let packets = Packets::default();
    let mut source = FrozenFtrace::new(fs, Box::new(packets.clone())).expect("a source");
    source.start();
    for _ in 0..1000 {
        if source.poll_period_ms().is_none() {
            return packets;
        }
        source.poll();
    }
    panic!("it does not end");
}

#[test]
fn all_pages_of_the_previous_boot_are_read_whatever_their_fill() {
    let folder = tempfile::tempdir().expect("a folder");
    // The end of each boot of a series leaves a page with few events.
    let pages: Vec<_> = (0..5)
        .map(|at| page(1000 * (at + 1), 40 + at as i32).build())
        .collect();
    let packets = read(instance(folder.path(), &pages));
    let expected: Vec<_> = (0..5)
        .map(|at| (2, 1000 * (at + 1) + 1, 40 + at as i32))
        .collect();
    assert_eq!(events(&packets.bundles()), expected);
    let stats = packets.stats();
    assert_eq!(stats[0].preserve_ftrace_buffer, Some(true));
    assert_eq!(stats[1].cpu_stats[0].overrun, Some(5));
    // They are not found again.
    let trace = fs::read(folder.path().join("trace")).expect("readable");
    assert_eq!(trace, b"");
}

#[test]
fn damaged_pages_of_a_previous_boot_are_reported_and_the_others_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let pages = [
        page(1000, 1).build(),
        page(2000, 2).build_sized(1 << 26),
        PageBuilder::new(3000).words(&[0x0300_0000]).build(),
        page(4000, 4).build(),
    ];
    let packets = read(instance(folder.path(), &pages));
    assert_eq!(events(&packets.bundles()), [(2, 1001, 1), (2, 4001, 4)]);
    let errors = &packets.stats()[1].ftrace_parse_errors;
    assert!(
        errors
            .iter()
            .any(|error| *error as i32 == ParseStatus::InvalidPageHeader as i32)
    );
    assert!(errors.len() > 1, "{errors:?}");
}

#[test]
fn a_buffer_without_end_is_read_up_to_its_size() {
    let folder = tempfile::tempdir().expect("a folder");
    // 64 KiB are 16 pages.
    let pages: Vec<_> = (0..40).map(|at| page(1000 * (at + 1), 1).build()).collect();
    let packets = read(instance(folder.path(), &pages));
    assert_eq!(events(&packets.bundles()).len(), 16);
}

#[test]
fn the_end_of_a_recording_reads_the_rest() {
    let folder = tempfile::tempdir().expect("a folder");
    let fs = instance(folder.path(), &[page(1000, 1).build()]);
    let packets = Packets::default();
    let mut source = FrozenFtrace::new(fs, Box::new(packets.clone())).expect("a source");
    source.start();
    source.poll_last();
    source.poll_last();
    assert_eq!(events(&packets.bundles()).len(), 1);
    assert_eq!(packets.stats().len(), 2);
}

#[test]
fn a_source_that_never_starts_leaves_the_buffer_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let fs = instance(folder.path(), &[]);
    drop(FrozenFtrace::new(fs, Box::new(Packets::default())).expect("a source"));
    let trace = fs::read(folder.path().join("trace")).expect("readable");
    assert_eq!(trace, b"old\n");
}

#[test]
fn an_instance_that_stopped_recording_is_read_and_cleared() {
    let Some(instance) = TestInstance::new("frozen") else {
        return;
    };
    let fs = &instance.fs;
    for (file, text) in [
        ("events/sched/sched_switch/enable", "1"),
        ("tracing_on", "1"),
    ] {
        fs.write(file, text).expect("written");
    }
    std::thread::spawn(|| {}).join().expect("it ends");
    std::thread::yield_now();
    std::process::Command::new("true")
        .status()
        .expect("it runs");
    for (file, text) in [
        ("tracing_on", "0"),
        ("events/sched/sched_switch/enable", "0"),
    ] {
        fs.write(file, text).expect("written");
    }
    let switches = |packets: &Packets| {
        let bundles = packets.bundles();
        let events = bundles.iter().flat_map(|bundle| &bundle.event);
        events
            .filter(|it| matches!(it.event, Some(Event::SchedSwitch(_))))
            .count()
    };
    assert!(switches(&read(fs.clone())) > 0);
    assert_eq!(switches(&read(fs.clone())), 0);
}
