//! Printing of traces as one line per event.

use ferretto_trace::Limits;
use ferretto_trace::lines::{Printed, Resolver};
use ferretto_wire::{Encoder, encode};

fn packet(trace: &mut Vec<u8>, write: impl FnOnce(&mut Encoder<'_, Vec<u8>>)) {
    Encoder::new(trace).bytes(1, &encode(write));
}

fn packed(values: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in values {
        let mut buffer = [0; ferretto_wire::MAX_VARINT_LENGTH];
        let length = ferretto_wire::encode_varint(*value, &mut buffer);
        bytes.extend(&buffer[..length]);
    }
    bytes
}

/// Creates a trace with kernel events, and a slice whose name and thread are in other packets.
fn trace() -> Vec<u8> {
    let mut trace = Vec::new();
    packet(&mut trace, |p| {
        p.nested(1, |bundle| {
            bundle.varint(1, 1);
            bundle.nested(4, |compact| {
                compact.bytes(5, b"cc");
                compact.bytes(5, b"evil\x1b\n");
                compact.bytes(1, &packed(&[5_000, 4_000]));
                compact.bytes(2, &packed(&[1, 0]));
                compact.bytes(3, &packed(&[70, 80]));
                compact.bytes(4, &packed(&[120, 100]));
                compact.bytes(6, &packed(&[0, 1]));
                compact.bytes(7, &packed(&[6_000]));
                compact.bytes(8, &packed(&[80]));
                compact.bytes(9, &packed(&[0]));
                compact.bytes(10, &packed(&[100]));
                compact.bytes(11, &packed(&[1]));
            });
        });
    });
    packet(&mut trace, |p| {
        p.nested(1, |bundle| {
            bundle.varint(1, 0);
            bundle.nested(2, |event| {
                event.varint(1, 3_000);
                event.varint(2, 70);
                event.nested(17, |waking| {
                    waking.string(1, "idle");
                    waking.varint(2, 9);
                });
            });
        });
    });
    packet(&mut trace, |p| {
        p.varint(10, 5);
        p.varint(13, 1);
        p.nested(60, |track| {
            track.varint(1, 11);
            track.nested(4, |thread| {
                thread.varint(1, 70);
                thread.varint(2, 71);
            });
        });
    });
    packet(&mut trace, |p| {
        p.varint(8, 7_000);
        p.varint(10, 5);
        p.nested(11, |event| {
            event.varint(9, 1);
            event.varint(11, 11);
            event.string(22, "app");
            event.string(23, "parse");
            event.nested(4, |argument| {
                argument.string(10, "size");
                argument.varint(3, 42);
            });
        });
    });
    packet(&mut trace, |p| {
        p.nested(2, |tree| {
            tree.nested(2, |thread| {
                thread.varint(1, 71);
                thread.string(2, "worker");
                thread.varint(3, 70);
            });
        });
    });
    trace
}

fn print(trace: &[u8], limits: Limits) -> (String, Printed) {
    let mut out = Vec::new();
    let resolver = Resolver::read(trace, limits).unwrap();
    let printed = resolver.print(trace, &mut out).unwrap();
    (String::from_utf8(out).unwrap(), printed)
}

#[test]
fn events_are_sorted_by_time_with_names_resolved() {
    let (text, printed) = print(&trace(), Limits::default());
    let lines: Vec<&str> = text.lines().collect();
    let expected = [
        "              cc-70      [000]      0.000003000: sched_wakeup: comm=\"idle\" pid=9",
        "           <...>-?       [001]      0.000005000: sched_switch: prev_pid=? prev_state=1 ==> next_comm=\"cc\" next_pid=70 next_prio=120",
        "              cc-70      [001]      0.000006000: sched_waking: comm=\"evil??\" pid=80 prio=100 target_cpu=0",
        "          worker-71      [---]      0.000007000: begin: parse [app] size=42",
        "              cc-70      [001]      0.000009000: sched_switch: prev_pid=70 prev_state=0 ==> next_comm=\"evil??\" next_pid=80 next_prio=100",
    ];
    assert_eq!(lines, expected, "{text}");
    assert_eq!((printed.lines, printed.unordered), (5, 0));
}

#[test]
fn lines_beyond_the_sorting_window_are_counted() {
    let mut trace = Vec::new();
    let count = 60_000u64;
    for n in 0..count {
        packet(&mut trace, |p| {
            p.varint(8, (count - n) * 1000);
            p.varint(10, 5);
            p.varint(13, 1);
            p.nested(11, |event| {
                event.varint(9, 3);
                event.string(23, "backwards");
            });
        });
    }
    let (text, printed) = print(&trace, Limits::memory(Limits::MIN_MEMORY));
    assert_eq!(text.lines().count() as u64, count);
    assert!(printed.unordered > 0, "{printed:?}");
    let (_, printed) = print(&trace, Limits::default());
    assert_eq!(printed.unordered, 0);
}

#[test]
fn no_changed_byte_causes_a_panic() {
    let trace = trace();
    for at in 0..trace.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut trace = trace.clone();
            trace[at] ^= flip;
            if let Ok(resolver) = Resolver::read(&trace[..], Limits::default()) {
                resolver.print(&trace[..], &mut std::io::sink()).unwrap();
            }
        }
    }
}

/// Creates a trace of one bundle of kernel events on an x86-64 machine.
fn kernel_events(bundle: impl FnOnce(&mut Encoder<'_, Vec<u8>>)) -> Vec<u8> {
    let mut trace = Vec::new();
    packet(&mut trace, |p| p.nested(1, bundle));
    packet(&mut trace, |p| {
        p.nested(45, |info| {
            info.nested(1, |name| name.string(4, "x86_64"));
        });
    });
    trace
}

/// Returns the printed lines without thread, CPU and time.
fn texts(trace: &[u8]) -> Vec<String> {
    let (text, _) = print(trace, Limits::default());
    let texts = text
        .lines()
        .filter_map(|line| Some(line.split_once("000: ")?.1.to_owned()));
    texts.collect()
}

#[test]
fn system_calls_have_their_names_arguments_and_errors() {
    let trace = kernel_events(|bundle| {
        bundle.varint(1, 0);
        let mut event = |time: u64, kind: u32, id: u64, values: &[u64]| {
            bundle.nested(2, |event| {
                event.varint(1, time);
                event.varint(2, 70);
                event.nested(kind, |call| {
                    call.varint(1, id);
                    values.iter().for_each(|value| call.varint(2, *value));
                });
            });
        };
        let here = u64::from((-100_i32).cast_unsigned());
        event(1_000, 329, 257, &[here, 0x7f00, 0x8_0000, 0, 5, 6]);
        event(2_000, 330, 257, &[(-2_i64).cast_unsigned()]);
        event(3_000, 330, 0, &[12]);
        event(4_000, 329, 9999, &[1]);
    });
    let expected = [
        "sys_enter: openat dfd=AT_FDCWD filename=0x7f00 flags=0x80000 mode=0o000",
        "sys_exit: openat = -2 ENOENT",
        "sys_exit: read = 12",
        "sys_enter: id=9999 args=1",
    ];
    assert_eq!(texts(&trace), expected);
}

#[test]
fn described_events_have_their_names_and_fields() {
    let trace = kernel_events(|bundle| {
        bundle.varint(1, 0);
        for number in [65_536, 65_537] {
            bundle.nested(2, |event| {
                event.varint(1, 1_000);
                event.varint(2, 70);
                event.nested(number, |body| {
                    body.varint(1, 0x40_1000);
                    body.int(2, -7);
                    body.string(3, "a\x1bb");
                });
            });
        }
        bundle.nested(11, |described| {
            described.varint(1, 65_536);
            described.nested(2, |event| {
                event.string(1, "work");
                for (number, name, kind) in [(1, "__probe_ip", 4), (2, "n", 3), (3, "text", 9)] {
                    event.nested(2, |field| {
                        field.string(1, name);
                        field.varint(3, number);
                        field.varint(5, kind);
                    });
                }
            });
        });
    });
    let expected = [
        "work: __probe_ip=0x401000 n=-7 text=\"a?b\"",
        "event 65537: 21 bytes",
    ];
    assert_eq!(texts(&trace), expected);
}
