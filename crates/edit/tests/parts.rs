//! Parts of traces: each opens alone, and says of its time what the whole says of it.

use std::fmt::Write as _;
use std::io::{self, Cursor, Write};
use std::path::PathBuf;
use std::process::Command;

use ferretto_edit::{EditError, Every, Splitter, Window, cut, extent, merge};
use ferretto_proto::fields::ftrace_event_bundle::{self as bundle, compact_sched as compact};
use ferretto_proto::fields::{
    clock_snapshot, counter_descriptor, ftrace_event as event, interned_data, interned_string,
    process_tree, sys_enter_ftrace_event, sys_stats, thread_descriptor, trace_packet as packet,
    trace_packet_defaults, trace_uuid, tracing_service_event, track_descriptor, track_event,
    track_event_defaults,
};
use ferretto_tables::{Options, Trace};
use ferretto_trace::TraceReader;
use ferretto_wire::{Encoder, encode, encode_varint};

type Out<'a> = Encoder<'a, Vec<u8>>;

/// The boot time at which the recording begins.
const START: u64 = 1_000_000_000_000;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
/// The length of the recording in seconds.
const LONG: u64 = 600;

/// Writes a packet of a sequence.
fn write(trace: &mut Vec<u8>, sequence: u64, content: impl FnOnce(&mut Out<'_>)) {
    let bytes = encode(|out| {
        content(out);
        out.varint(packet::TRUSTED_PACKET_SEQUENCE_ID, sequence);
        out.varint(packet::TRUSTED_UID, 1000);
    });
    Encoder::new(trace).bytes(1, &bytes);
}

fn snapshot(out: &mut Out<'_>, clocks: &[(u64, u64, bool)]) {
    out.nested(packet::CLOCK_SNAPSHOT, |out| {
        for (id, time, is_incremental) in clocks {
            out.nested(clock_snapshot::CLOCKS, |out| {
                out.varint(clock_snapshot::clock::CLOCK_ID, *id);
                out.varint(clock_snapshot::clock::TIMESTAMP, *time);
                out.bool(clock_snapshot::clock::IS_INCREMENTAL, *is_incremental);
            });
        }
    });
}

fn packed(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut out = Vec::new();
    for number in numbers {
        let mut bytes = [0; 10];
        let length = encode_varint(number, &mut bytes);
        out.extend_from_slice(&bytes[..length]);
    }
    out
}

/// A program with one thread, whose state starts anew each half a minute.
struct Program {
    sequence: u64,
    last: u64,
}

impl Program {
    const MAIN: u64 = 77;
    const SUM: u64 = 78;

    fn begin(&mut self, trace: &mut Vec<u8>, at: u64) {
        self.last = at;
        write(trace, self.sequence, |out| {
            out.varint(packet::SEQUENCE_FLAGS, 1);
            snapshot(out, &[(6, at, false), (64, at, true)]);
            out.nested(packet::TRACE_PACKET_DEFAULTS, |out| {
                out.varint(trace_packet_defaults::TIMESTAMP_CLOCK_ID, 64);
                out.nested(trace_packet_defaults::TRACK_EVENT_DEFAULTS, |out| {
                    out.varint(track_event_defaults::TRACK_UUID, Self::MAIN);
                });
            });
        });
        for (uuid, counter) in [(Self::MAIN, false), (Self::SUM, true)] {
            write(trace, self.sequence, |out| {
                out.varint(packet::SEQUENCE_FLAGS, 2);
                out.nested(packet::TRACK_DESCRIPTOR, |out| {
                    out.varint(track_descriptor::UUID, uuid);
                    match counter {
                        false => out.nested(track_descriptor::THREAD, |out| {
                            out.varint(thread_descriptor::PID, 500);
                            out.varint(thread_descriptor::TID, 500);
                        }),
                        true => {
                            out.string(track_descriptor::NAME, "bytes");
                            out.nested(track_descriptor::COUNTER, |out| {
                                out.bool(counter_descriptor::IS_INCREMENTAL, true);
                            });
                        }
                    }
                });
            });
        }
        write(trace, self.sequence, |out| {
            out.varint(packet::SEQUENCE_FLAGS, 2);
            out.nested(packet::INTERNED_DATA, |out| {
                // A number means another name after each new start.
                let names = ["main", "request", "parse", "rare"];
                for (place, name) in names.iter().enumerate() {
                    out.nested(interned_data::EVENT_NAMES, |out| {
                        let iid = (place as u64 + at / SECOND) % names.len() as u64 + 1;
                        out.varint(interned_string::IID, iid);
                        out.string(interned_string::STR, name);
                    });
                }
            });
        });
    }

    /// Writes an event; `name` is the place in the list of names.
    fn event(&mut self, trace: &mut Vec<u8>, at: u64, kind: u64, name: u64, restarted: u64) {
        let ahead = at - std::mem::replace(&mut self.last, at);
        write(trace, self.sequence, |out| {
            out.varint(packet::TIMESTAMP, ahead);
            out.varint(packet::SEQUENCE_FLAGS, 2);
            out.nested(packet::TRACK_EVENT, |out| {
                out.varint(track_event::TYPE, kind);
                match kind {
                    1 | 3 => out.varint(track_event::NAME_IID, (name + restarted / SECOND) % 4 + 1),
                    4 => {
                        out.varint(track_event::TRACK_UUID, Self::SUM);
                        out.int(track_event::COUNTER_VALUE, 7);
                    }
                    _ => {}
                }
            });
        });
    }
}

/// Kernel events of a quarter of a second on one CPU: threads 10 and 11 take turns on CPU 0, 20 and
/// the idle one on CPU 1, which 10 wakes; 11 is in a system call now and then, and 30 for ever.
fn kernel(trace: &mut Vec<u8>, cpu: u64, from: u64) {
    let steps: Vec<u64> = (0..25)
        .map(|step| from + step * 10 * MS + cpu * MS)
        .collect();
    let deltas = |times: &[u64]| {
        let mut last = 0;
        let deltas = times
            .iter()
            .map(|time| time - std::mem::replace(&mut last, *time));
        packed(deltas.collect::<Vec<_>>())
    };
    let step = |at: u64| (at - START) / (10 * MS);
    write(trace, 3, |out| {
        out.nested(packet::FTRACE_EVENTS, |out| {
            out.varint(bundle::CPU, cpu);
            if from == START && cpu == 0 {
                out.nested(bundle::EVENT, |out| {
                    out.varint(event::TIMESTAMP, from);
                    out.varint(event::PID, 30);
                    out.nested(event::SYS_ENTER, |out| {
                        out.varint(sys_enter_ftrace_event::ID, 7)
                    });
                });
            }
            for at in &steps {
                let number = match step(*at) % 50 {
                    0 if cpu == 0 => event::SYS_ENTER,
                    40 if cpu == 0 => event::SYS_EXIT,
                    _ => continue,
                };
                out.nested(bundle::EVENT, |out| {
                    out.varint(event::TIMESTAMP, at + 1);
                    out.varint(event::PID, 11);
                    out.nested(number, |out| out.varint(sys_enter_ftrace_event::ID, 0));
                });
            }
            out.nested(bundle::COMPACT_SCHED, |out| {
                let next = |at: u64| match (cpu, step(at) % 2) {
                    (0, 0) => 10,
                    (0, _) => 11,
                    (_, 0) => 20,
                    _ => 0,
                };
                for name in ["ten", "eleven", "twenty", "swapper"] {
                    out.string(compact::INTERN_TABLE, name);
                }
                let name = |pid| [10, 11, 20, 0].iter().position(|it| *it == pid).unwrap() as u64;
                let count = steps.len();
                out.bytes(compact::SWITCH_TIMESTAMP, &deltas(&steps));
                out.bytes(compact::SWITCH_PREV_STATE, &packed(vec![1; count]));
                let pids = || steps.iter().map(|at| next(*at));
                out.bytes(compact::SWITCH_NEXT_PID, &packed(pids()));
                out.bytes(compact::SWITCH_NEXT_PRIO, &packed(vec![120; count]));
                out.bytes(compact::SWITCH_NEXT_COMM_INDEX, &packed(pids().map(name)));
                // On CPU 0, of the one that CPU 1 will run, and sometimes of one in vain.
                let wakings: Vec<u64> = match cpu {
                    0 => steps.iter().map(|at| at + 5 * MS).collect(),
                    _ => Vec::new(),
                };
                let woken = wakings
                    .iter()
                    .map(|at| if step(*at) % 2 == 1 { 20 } else { 11 });
                out.bytes(compact::WAKING_TIMESTAMP, &deltas(&wakings));
                out.bytes(compact::WAKING_PID, &packed(woken.clone()));
                out.bytes(compact::WAKING_TARGET_CPU, &packed(vec![1; wakings.len()]));
                out.bytes(compact::WAKING_PRIO, &packed(vec![120; wakings.len()]));
                out.bytes(compact::WAKING_COMM_INDEX, &packed(woken.map(name)));
            });
        });
    });
}

fn service(trace: &mut Vec<u8>, at: u64, kind: u32) {
    write(trace, 1, |out| {
        out.varint(packet::TIMESTAMP, at);
        out.nested(packet::SERVICE_EVENT, |out| out.bool(kind, true));
    });
}

/// A recording of so many seconds.
fn recording(seconds: u64) -> Vec<u8> {
    let mut trace = Vec::new();
    let out = &mut trace;
    write(out, 1, |out| {
        out.nested(packet::TRACE_UUID, |out| {
            out.varint(trace_uuid::MSB, 1);
            out.varint(trace_uuid::LSB, 2);
        });
    });
    write(out, 3, |out| {
        out.varint(packet::TIMESTAMP, START);
        out.nested(packet::PROCESS_TREE, |out| {
            for pid in [10, 11, 20, 30] {
                out.nested(process_tree::PROCESSES, |out| {
                    out.varint(process_tree::process::PID, pid);
                    out.string(process_tree::process::CMDLINE, &format!("program-{pid}"));
                });
            }
        });
    });
    let mut program = Program {
        sequence: 5,
        last: 0,
    };
    let mut restarted = 0;
    for quarter in 0..seconds * 4 {
        let from = START + quarter * SECOND / 4;
        if quarter % 40 == 0 {
            write(out, 1, |out| {
                let real = from + 1_700_000_000 * SECOND;
                snapshot(
                    out,
                    &[(6, from, false), (3, from - 5, false), (1, real, false)],
                );
            });
        }
        if quarter % 120 == 0 {
            program.begin(out, from);
            restarted = from;
        }
        if quarter == 0 {
            program.event(out, from + MS, 1, 0, restarted);
        }
        for step in 0..5 {
            let at = from + step * 50 * MS;
            program.event(out, at + 10 * MS, 1, 1, restarted);
            program.event(out, at + 20 * MS, 1, 2, restarted);
            program.event(out, at + 30 * MS, 2, 0, restarted);
            program.event(out, at + 31 * MS, 4, 0, restarted);
            program.event(out, at + 55 * MS, 2, 0, restarted);
        }
        kernel(out, 0, from);
        kernel(out, 1, from);
        if quarter % 3 == 0 {
            write(out, 3, |out| {
                out.varint(packet::TIMESTAMP, from + 100 * MS);
                out.nested(packet::SYS_STATS, |out| {
                    out.nested(sys_stats::MEMINFO, |out| {
                        out.varint(sys_stats::meminfo_value::KEY, 2);
                        out.varint(sys_stats::meminfo_value::VALUE, 1000 + quarter);
                    });
                });
            });
        }
        service(out, from, tracing_service_event::ALL_DATA_SOURCES_FLUSHED);
        service(
            out,
            from,
            tracing_service_event::READ_TRACING_BUFFERS_COMPLETED,
        );
    }
    trace
}

/// The content of a window, a line each: slices, time on CPUs, states of threads, values of
/// counters and when they change.
fn said(bytes: &[u8], window: Window) -> Vec<String> {
    let trace = Trace::read(bytes, &Options::default()).unwrap();
    let (from, to) = (window.from as i64, window.to as i64);
    let text = |id| trace.strings().text(id).to_owned();
    let tables = trace.tables();
    let clipped = |ts: i64, dur: i64| {
        let end = if dur < 0 { to } else { (ts + dur).min(to) };
        (ts < to && end > from.max(ts))
            .then(|| format!("{} to {}", ts.max(from) - from, end - from))
    };
    let track = |id| text(tables.track.name().get(id));
    let tid = |utid| tables.thread.tid().get(utid);
    let mut said = Vec::new();
    let slices = &tables.slice;
    for row in 0..slices.len() {
        let (name, depth) = (text(slices.name().get(row)), slices.depth().get(row));
        let of = track(slices.track_id().get(row));
        if let Some(when) = clipped(slices.ts().get(row), slices.dur().get(row)) {
            said.push(format!("slice {of} {name} {depth} {when}"));
        }
    }
    let sched = &tables.sched_slice;
    for row in 0..sched.len() {
        let (tid, cpu) = (tid(sched.utid().get(row)), sched.ucpu().get(row));
        if let Some(when) = clipped(sched.ts().get(row), sched.dur().get(row)) {
            said.push(format!("cpu {cpu} {tid:?} {when}"));
        }
    }
    let states = &tables.thread_state;
    for row in 0..states.len() {
        let (tid, state) = (tid(states.utid().get(row)), text(states.state().get(row)));
        if let Some(when) = clipped(states.ts().get(row), states.dur().get(row)) {
            said.push(format!("state {tid:?} {state} {when}"));
        }
    }
    let counters = &tables.counter;
    let mut before = std::collections::BTreeMap::new();
    for row in 0..counters.len() {
        let (ts, value) = (counters.ts().get(row), counters.value().get(row));
        let of = track(counters.track_id().get(row));
        match ts {
            _ if ts <= from => drop(before.insert(of, value)),
            _ if ts < to => said.push(format!("counter {of} {value} {}", ts - from)),
            _ => {}
        }
    }
    said.extend(
        before
            .iter()
            .map(|(of, value)| format!("counter {of} {value} before")),
    );
    said.sort();
    said
}

/// The errors that an import counts.
fn errors(bytes: &[u8]) -> Vec<String> {
    let trace = Trace::read(bytes, &Options::default()).unwrap();
    let stats = &trace.tables().stats;
    let text = |id| trace.strings().text(id).to_owned();
    (0..stats.len())
        .filter(|row| text(stats.severity().get(*row)) == "error" && stats.value().get(*row) > 0)
        .map(|row| text(stats.name().get(row)))
        .collect()
}

/// Asks upstream's trace processor, if there is one.
fn upstream(bytes: &[u8], query: &str) -> Option<String> {
    let folder = PathBuf::from(std::env::var_os("FERRETTO_UPSTREAM")?);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let asked = Command::new(folder.join("trace_processor_shell"))
        .arg("query")
        .arg(file.path())
        .arg(query)
        .output();
    let answer = asked.expect("FERRETTO_UPSTREAM names a folder with trace_processor_shell");
    Some(String::from_utf8(answer.stdout).unwrap())
}

/// Upstream's import has no error either.
fn check_upstream(bytes: &[u8]) {
    let query = "select name || ' ' || value from stats where severity = 'error' and value > 0";
    match upstream(bytes, query) {
        Some(answer) => assert_eq!(answer.lines().skip(1).count(), 0, "{answer}"),
        None => println!("skipped: FERRETTO_UPSTREAM does not name upstream's programs"),
    }
}

fn part(trace: &[u8], window: Window) -> Vec<u8> {
    let mut out = Vec::new();
    cut(Cursor::new(trace), window, [9; 16], &mut out).unwrap();
    out
}

/// Divides a trace, and returns the parts.
fn split(trace: &[u8], every: Every) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    let mut splitter = Splitter::new(every, |number, before| {
        parts.extend(before);
        assert_eq!(number as usize, parts.len());
        Ok(Vec::new())
    });
    TraceReader::new(trace)
        .read_all(|packet| splitter.add(packet.bytes).unwrap())
        .unwrap();
    let (last, count) = splitter.finish().unwrap().unwrap();
    parts.push(last);
    assert_eq!(parts.len(), count as usize);
    parts
}

fn differences(whole: &[String], part: &[String]) -> String {
    let mut text = String::new();
    for line in whole.iter().filter(|line| !part.contains(line)) {
        writeln!(text, "only in the whole: {line}").unwrap();
    }
    for line in part.iter().filter(|line| !whole.contains(line)) {
        writeln!(text, "only in the part: {line}").unwrap();
    }
    text
}

#[test]
fn the_middle_second_of_ten_minutes_says_what_the_whole_says_of_it() {
    let whole = recording(LONG);
    // Not at a moment at which anything happens.
    let from = START + LONG / 2 * SECOND + 123 * MS / 10;
    let window = Window {
        from,
        to: from + SECOND,
    };
    let part = part(&whole, window);
    assert!(part.len() < whole.len() / 100, "{}", part.len());
    assert_eq!(errors(&part), [] as [&str; 0]);
    let (of_whole, of_part) = (said(&whole, window), said(&part, window));
    assert!(of_whole.len() > 300, "{}", of_whole.len());
    assert_eq!(differences(&of_whole, &of_part), "");
    assert_eq!(extent(&part[..]).unwrap().from, from);
    check_upstream(&part);
    let (from, to) = (window.from, window.to);
    let query = format!(
        "select count(*), sum(e - s) from (select max(ts, {from}) s, \
         min(iif(dur < 0, {to}, ts + dur), {to}) e from sched) where e > s"
    );
    assert_eq!(upstream(&whole, &query), upstream(&part, &query));
}

#[test]
fn a_part_of_a_part_is_a_part() {
    let whole = recording(70);
    let from = START + 20 * SECOND;
    let longer = part(
        &whole,
        Window {
            from,
            to: from + 45 * SECOND,
        },
    );
    let window = Window {
        from: from + 35 * SECOND,
        to: from + 36 * SECOND,
    };
    let (once, twice) = (part(&whole, window), part(&longer, window));
    assert_eq!(differences(&said(&once, window), &said(&twice, window)), "");
    assert_eq!(errors(&twice), [] as [&str; 0]);
}

#[test]
fn packets_of_parts_are_those_of_the_whole_and_each_part_opens_alone() {
    let whole = recording(70);
    let count = |bytes: &[u8], query: &dyn Fn(&Trace) -> usize| {
        query(&Trace::read(bytes, &Options::default()).unwrap())
    };
    // Slices that begin in a part, without those begun before.
    let new_slices = |trace: &Trace| {
        let slices = &trace.tables().slice;
        let names = (0..slices.len()).map(|row| trace.strings().text(slices.name().get(row)));
        names
            .filter(|name| matches!(*name, "request" | "parse"))
            .count()
    };
    let measured = |trace: &Trace| {
        let counters = &trace.tables().counter;
        let name = |row| {
            let track = counters.track_id().get(row);
            trace.strings().text(trace.tables().track.name().get(track))
        };
        (0..counters.len())
            .filter(|row| name(*row) == "bytes")
            .count()
    };
    for every in [
        Every::Nanoseconds(20 * SECOND),
        Every::Bytes(whole.len() as u64 / 3),
    ] {
        let parts = split(&whole, every);
        assert!((3..=4).contains(&parts.len()), "{}", parts.len());
        for part in &parts {
            assert_eq!(errors(part), [] as [&str; 0]);
            check_upstream(part);
        }
        let of = |query: &dyn Fn(&Trace) -> usize| -> usize {
            parts.iter().map(|part| count(part, query)).sum()
        };
        let at_starts = parts.len() - 1;
        assert!(of(&new_slices) - count(&whole, &new_slices) <= 2 * at_starts);
        assert_eq!(of(&measured), count(&whole, &measured) + at_starts);
        // In the middle of the second part all is as in the whole.
        let bounds = extent(&parts[1][..]).unwrap();
        let from = bounds.from.midpoint(bounds.to);
        let window = Window {
            from,
            to: from + SECOND,
        };
        assert_eq!(
            differences(&said(&whole, window), &said(&parts[1], window)),
            ""
        );
    }
}

#[test]
fn parts_merged_again_say_what_the_whole_says() {
    let whole = recording(20);
    let mut parts: Vec<_> = split(&whole, Every::Nanoseconds(5 * SECOND))
        .into_iter()
        .map(Cursor::new)
        .collect();
    let names = vec!["part"; parts.len()];
    let mut merged = Vec::new();
    let taken = merge(&mut parts, &names, [3; 16], &mut merged).unwrap();
    assert!(taken.len() >= 3, "{taken:?}");
    let window = Window {
        from: START + 7 * SECOND,
        to: START + 8 * SECOND,
    };
    let slices = |bytes: &[u8]| -> Vec<String> {
        let all = said(bytes, window).into_iter();
        let parsed = all.filter(|line| line.starts_with("slice") && line.contains("parse"));
        // Slices that crossed the boundary were begun again, so there is more around it.
        parsed
            .map(|line| line.splitn(5, ' ').last().unwrap().to_owned())
            .collect()
    };
    assert_eq!(slices(&merged), slices(&whole));
}

#[test]
fn traces_of_other_machines_are_related_by_the_time_of_day() {
    let ours = recording(3);
    // Another machine, started an hour earlier: at the same time of day its clock shows more.
    let mut theirs = Vec::new();
    let at = START + 3600 * SECOND;
    write(&mut theirs, 1, |out| {
        let real = START + 1_700_000_000 * SECOND;
        snapshot(out, &[(6, at, false), (1, real, false)]);
    });
    write(&mut theirs, 5, |out| {
        out.varint(packet::TIMESTAMP, at + SECOND);
        out.varint(packet::SEQUENCE_FLAGS, 1);
        out.nested(packet::TRACK_EVENT, |out| {
            out.varint(track_event::TYPE, 3);
            out.string(track_event::NAME, "theirs");
        });
    });
    let mut merged = Vec::new();
    let mut both = [Cursor::new(ours), Cursor::new(theirs)];
    merge(&mut both, &["ours", "theirs"], [3; 16], &mut merged).unwrap();
    let trace = Trace::read(&merged[..], &Options::default()).unwrap();
    let slices = &trace.tables().slice;
    let name = |row: &u32| trace.strings().text(slices.name().get(*row)) == "theirs";
    let row = (0..slices.len()).find(name).unwrap();
    assert!(
        slices
            .ts()
            .get(row)
            .abs_diff((START + SECOND).cast_signed())
            < 1000
    );
    assert_eq!(errors(&merged), [] as [&str; 0]);
}

#[test]
fn a_window_without_anything_is_told_with_the_extent_of_the_trace() {
    let whole = recording(2);
    let window = Window { from: 5, to: 10 };
    let cut = cut(Cursor::new(&whole), window, [9; 16], io::sink());
    let text = cut.unwrap_err().to_string();
    assert!(
        text.contains("the trace is 2.0") && text.contains("from 1000"),
        "{text}"
    );
}

#[test]
fn a_full_disk_is_told() {
    let whole = recording(2);
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let window = Window {
        from: START + SECOND,
        to: START + 2 * SECOND,
    };
    let cut = cut(Cursor::new(&whole), window, [9; 16], &full);
    let Err(EditError::Write(error)) = cut else {
        panic!("it is told as what could not be written");
    };
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}
