//! Synthetic traces, and a reader of frames.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ferretto_tables::{Options, Trace};
use ferretto_view::View;
use serde_json::Value;

/// Returns a trace in the JSON format with these events.
pub(crate) fn json(events: &str) -> View {
    let text = format!("{{\"traceEvents\":[{}]}}", events.trim_end_matches(','));
    view(text.as_bytes())
}

pub(crate) fn view(bytes: &[u8]) -> View {
    let trace = Trace::read(bytes, &Options::default()).expect("trace");
    View::new(trace, "test", 2)
}

/// Returns a complete slice, with times in microseconds.
pub(crate) fn slice(tid: u32, name: &str, ts: u64, dur: u64) -> String {
    let mut text = String::new();
    let _ = write!(
        text,
        "{{\"ph\":\"X\",\"pid\":1,\"tid\":{tid},\"cat\":\"c\",\"name\":\"{name}\",\"ts\":{ts},\
         \"dur\":{dur},\"args\":{{\"at\":{ts}}}}},"
    );
    text
}

pub(crate) fn counter(name: &str, ts: u64, value: f64) -> String {
    format!(
        "{{\"ph\":\"C\",\"pid\":1,\"tid\":1,\"name\":\"{name}\",\"ts\":{ts},\
         \"args\":{{\"value\":{value}}}}},"
    )
}

/// Lines of ftrace: two threads on one CPU that wake each other, with times in seconds.
pub(crate) const SCHED: &str = "# tracer: nop\n\
<idle>-0 [000] d..2 1.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=ping next_pid=10 next_prio=120\n\
ping-10 [000] d..2 1.001000: sched_waking: comm=pong pid=20 prio=120 target_cpu=000\n\
ping-10 [000] d..2 1.002000: sched_switch: prev_comm=ping prev_pid=10 prev_prio=120 prev_state=S ==> next_comm=pong next_pid=20 next_prio=120\n\
pong-20 [000] d..2 1.003000: sched_waking: comm=ping pid=10 prio=120 target_cpu=000\n\
pong-20 [000] d..2 1.005000: sched_switch: prev_comm=pong prev_pid=20 prev_prio=120 prev_state=S ==> next_comm=ping next_pid=10 next_prio=120\n\
ping-10 [000] d..2 1.009000: sched_switch: prev_comm=ping prev_pid=10 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120\n";

/// Returns a trace of kernel events that wake a thread at these times.
pub(crate) fn wakings(times: &[u64]) -> View {
    bundle(times, false)
}

/// Returns the same with a loss between the first and the second event.
pub(crate) fn wakings_after_a_loss(times: &[u64]) -> View {
    bundle(times, true)
}

/// Returns a trace of one disk request.
pub(crate) fn disk_request(start: u64, end: u64) -> View {
    let body = [number(1, 259), number(2, 8)].concat();
    let event = |time, tag: &[u8]| {
        let event = [number(1, time), number(2, 10), message(tag, &body)].concat();
        message(&[0x12], &event)
    };
    // `block_io_start`, field 546, and `block_io_done`.
    let events = [event(start, &[0x92, 0x22]), event(end, &[0x9a, 0x22])].concat();
    let bundle = [number(1, 0), events].concat();
    view(&message(&[0x0a], &message(&[0x0a], &bundle)))
}

/// Returns a trace with the resident memory of a process at two times.
pub(crate) fn memory_of_a_process(kib: [u64; 2]) -> View {
    let sample = |(time, kib)| {
        // `vm_rss_kb`, field 3, in `process_stats`, field 9.
        let process = [number(1, 10), number(3, kib)].concat();
        let stats = message(&[0x4a], &message(&[0x0a], &process));
        message(&[0x0a], &[number(8, time), stats].concat())
    };
    view(&[(5, kib[0]), (9, kib[1])].map(sample).concat())
}

/// The control group of the process `work`.
pub(crate) const GROUP_OF_WORK: &str =
    "/docker/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Returns a trace of two processes. With `has_command`, the trace has a recorded command that
/// started the second process.
pub(crate) fn of_a_command(has_command: bool) -> View {
    in_groups(has_command, &[(b"work", GROUP_OF_WORK)])
}

/// Returns the same trace with these control groups of processes by name.
pub(crate) fn in_groups(has_command: bool, groups: &[(&[u8], &str)]) -> View {
    let packet = |content: &[u8]| message(&[0x0a], content);
    let process = |pid, ppid, name: &[u8]| {
        let mut process = [number(1, pid), number(2, ppid), message(&[0x1a], name)].concat();
        for (_, group) in groups.iter().filter(|(of, _)| *of == name) {
            // `cgroup`, field 15505.
            process.extend(message(&[0x8a, 0xc9, 0x07], group.as_bytes()));
        }
        message(&[0x0a], &process)
    };
    // `process_tree`, field 2.
    let all = [
        process(10, 1, b"other"),
        process(20, 1, b"sh"),
        process(30, 20, b"work"),
    ];
    let tree = packet(&[number(8, 5), message(&[0x12], &all.concat())].concat());
    // `sched_switch`, field 4, to each of them. The first runs longest.
    let switch = |time, prev, next| {
        let switch = [number(2, prev), number(4, 1), number(6, next)].concat();
        let event = [number(1, time), number(2, prev), message(&[0x22], &switch)].concat();
        message(&[0x12], &event)
    };
    let events = [
        switch(10, 0, 10),
        switch(1000, 10, 20),
        switch(1100, 20, 30),
        switch(1300, 30, 0),
    ];
    let bundle = [number(1, 0), events.concat()].concat();
    let mut bytes = [tree, packet(&message(&[0x0a], &bundle))].concat();
    if has_command {
        let attribute = [message(&[0x0a], b"ferretto.command.pid"), number(2, 20)].concat();
        // `trace_attributes`, field 126.
        let attributes = message(&[0xf2, 0x07], &message(&[0x0a], &attribute));
        bytes.extend(packet(&attributes));
    }
    view(&bytes)
}

fn number(field: u8, mut value: u64) -> Vec<u8> {
    let mut bytes = vec![field << 3];
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn message(tag: &[u8], content: &[u8]) -> Vec<u8> {
    let length = number(0, content.len() as u64);
    [tag, &length[1..], content].concat()
}

fn bundle(times: &[u64], is_lost: bool) -> View {
    let mut bundle = number(1, 0);
    if is_lost {
        // `lost_events`, and `previous_bundle_end_timestamp` between the first two.
        bundle.extend(number(3, 1));
        bundle.extend(number(10, (times[0] + times[1]) / 2));
    }
    for time in times {
        // `sched_waking`, field 20, of the thread pong with id 20.
        let waking = [message(&[0x0a], b"pong"), number(2, 20)].concat();
        let waking = message(&[0xa2, 0x01], &waking);
        let event = [number(1, *time), number(2, 10), waking].concat();
        bundle.extend(message(&[0x12], &event));
    }
    let packet = message(&[0x0a], &bundle);
    view(&message(&[0x0a], &packet))
}

/// A decoded frame.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) header: Value,
    pub(crate) columns: BTreeMap<String, Vec<f64>>,
}

impl Frame {
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
        let header: Value = serde_json::from_slice(&bytes[4..4 + length]).expect("header");
        let data = &bytes[4 + length..];
        assert_eq!((4 + length) % 8, 0, "data is aligned");
        let mut columns = BTreeMap::new();
        for (name, column) in header["columns"].as_object().expect("columns") {
            let number = |field: &str| column[field].as_u64().unwrap() as usize;
            let (at, length) = (number("offset"), number("length"));
            assert_eq!(at % 8, 0, "{name} is aligned");
            let kind = column["type"].as_str().unwrap();
            let values = match column["code"].as_str() {
                Some(code) => decoded(&data[at..at + number("bytes")], code == "delta"),
                None => plain(&data[at..], kind, length),
            };
            assert_eq!(values.len(), length, "{name}");
            columns.insert(name.clone(), values);
        }
        Self { header, columns }
    }

    pub(crate) fn column(&self, name: &str) -> &[f64] {
        self.columns.get(name).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn texts(&self, name: &str) -> Vec<&str> {
        let texts = self.header["strings"].as_array().expect("texts");
        let column = self.column(name).iter();
        column
            .map(|number| texts[*number as usize].as_str().unwrap())
            .collect()
    }

    /// Returns the node with this name.
    pub(crate) fn node(&self, kind: u8, name: &str) -> u32 {
        let names = self.texts("name");
        let kinds = self.column("kind");
        let found = (0..names.len())
            .find(|node| kinds[*node] == f64::from(kind) && (name == "*" || names[*node] == name));
        found.unwrap_or_else(|| panic!("no {name} among {names:?}")) as u32
    }
}

fn plain(data: &[u8], kind: &str, length: usize) -> Vec<f64> {
    let size = match kind {
        "f64" => 8,
        "u32" | "i32" => 4,
        "u16" => 2,
        _ => 1,
    };
    let values = data.chunks_exact(size).take(length);
    let values = values.map(|bytes| match kind {
        "f64" => f64::from_le_bytes(bytes.try_into().unwrap()),
        "u32" => u32::from_le_bytes(bytes.try_into().unwrap()).into(),
        "i32" => i32::from_le_bytes(bytes.try_into().unwrap()).into(),
        "u16" => u16::from_le_bytes(bytes.try_into().unwrap()).into(),
        _ => bytes[0].into(),
    });
    values.collect()
}

fn decoded(data: &[u8], is_delta: bool) -> Vec<f64> {
    let (mut values, mut value, mut shift, mut last) = (Vec::new(), 0_u64, 0, 0_i64);
    for byte in data {
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            if is_delta {
                last += (value >> 1) as i64 ^ -((value & 1) as i64);
                values.push(last as f64);
            } else {
                values.push(value as f64);
            }
            (value, shift) = (0, 0);
        }
    }
    values
}
