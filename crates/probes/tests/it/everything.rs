//! Test of all events of this kernel at once, under load: each is written, the numbers match the
//! kernel's counters, and no field is unknown to the schema.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use crate::common::{Packets, TestInstance};
use ferretto_probes::ftrace::Controller;
use ferretto_proto::{FtraceConfig, FtraceEventBundle};
use ferretto_text::print::message_to_text;

/// Load of processes, files, connections, memory and locks.
fn load() {
    let program = Command::new("true").status();
    assert!(program.is_ok_and(|status| status.success()));
    let folder = tempfile::tempdir().unwrap();
    for index in 0..2 {
        let path = folder.path().join(format!("{index}"));
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(&[7; 10_000]).unwrap();
        if index == 0 {
            file.sync_all().unwrap();
        }
        std::fs::remove_file(&path).unwrap();
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let echo = std::thread::spawn(move || {
        let mut buffer = [0; 1000];
        while let Ok(count @ 1..) = server.read(&mut buffer) {
            server.write_all(&buffer[..count]).unwrap();
        }
    });
    for _ in 0..5 {
        client.write_all(&[1; 1000]).unwrap();
        client.read_exact(&mut [0; 1000]).unwrap();
    }
    drop(client);
    echo.join().unwrap();
}

fn count(bundle: &FtraceEventBundle) -> u64 {
    let compact = &bundle.compact_sched;
    let events =
        bundle.event.len() + compact.switch_timestamp.len() + compact.waking_timestamp.len();
    events as u64
}

/// Returns the numbers of unnamed fields in the text of a message, except for those within such
/// fields.
fn unnamed(text: &str) -> Vec<u32> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let indent = line.len() - line.trim_start().len();
        let name = line.trim_start().split([':', ' ']).next();
        let Some(number) = name.and_then(|name| name.parse().ok()) else {
            continue;
        };
        found.push(number);
        if line.ends_with('{') {
            lines.find(|line| line.trim_start() == "}" && line.len() == indent + 1);
        }
    }
    found
}

#[test]
fn all_events_at_once_are_written_without_unknown_fields() {
    let Some(instance) = TestInstance::new("everything") else {
        return;
    };
    let groups = std::fs::read_dir(instance.fs.root().join("events")).expect("readable");
    let groups = groups.flatten().filter(|entry| entry.path().is_dir());
    let wanted = FtraceConfig {
        ftrace_events: groups
            .map(|group| format!("{}/*", group.file_name().to_str().expect("text")).into_bytes())
            .collect(),
        instance_name: Some(instance.name.clone().into_bytes()),
        // So small that some events are overwritten: only events that are read count.
        buffer_size_kb: Some(1024),
        ..Default::default()
    };
    let packets = Packets::default();
    let mut controller = Controller::new();
    controller
        .set_up(1, &wanted, Box::new(packets.clone()))
        .expect("set up");
    controller.start(1).expect("started");
    load();
    controller.read();
    load();
    controller.flush(&[1]);
    drop(controller);
    let mut counted: BTreeMap<u32, u64> = BTreeMap::new();
    let (mut described, mut unknown, mut kinds) = (BTreeSet::new(), BTreeSet::new(), 0);
    for bundle in packets.bundles() {
        assert!(bundle.error.is_empty(), "{:?}", bundle.error);
        *counted.entry(bundle.cpu.unwrap_or(0)).or_default() += count(&bundle);
        for descriptor in &bundle.generic_event_descriptors {
            described.extend(descriptor.field_id.map(|id| id as u32));
            kinds += 1;
        }
    }
    for packet in packets.raw() {
        let text = message_to_text("perfetto.protos.TracePacket", &packet).expect("a packet");
        unknown.extend(unnamed(&String::from_utf8_lossy(&text)));
    }
    // The trace itself describes events that only this kernel has.
    unknown.retain(|number| !described.contains(number));
    assert!(unknown.is_empty(), "{unknown:?}");
    assert!(kinds > 0, "{kinds} kinds");
    let stats = packets.stats();
    let last = stats.last().expect("statistics");
    for cpu in &last.cpu_stats {
        let number = cpu.cpu.unwrap_or(0) as u32;
        let counted = counted.get(&number).copied().unwrap_or(0);
        assert_eq!(Some(counted), cpu.read_events, "cpu {number}: {cpu:?}");
    }
    let all: u64 = counted.values().sum();
    println!("{all} events, {kinds} kinds that only this kernel has");
    assert!(all > 1000);
}
