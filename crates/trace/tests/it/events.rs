//! Decoding of track events in valid and malformed traces.

use ferretto_trace::events::{Event, EventReader, Events, Kind, Number, Problem, Value};
use ferretto_wire::{Encoder, encode};

type Writer<'a> = Encoder<'a, Vec<u8>>;

/// A reader, and the events it returned.
#[derive(Default)]
struct Trace {
    reader: EventReader,
    events: Vec<Event>,
}

impl Trace {
    /// Creates a trace in which sequence 1 has valid state and track 7 as its default.
    fn begun() -> Self {
        let mut trace = Self::default();
        trace.packet(1, |p| {
            p.varint(13, 1);
            p.nested(59, |defaults| {
                defaults.nested(11, |event| event.varint(11, 7))
            });
        });
        trace
    }

    fn packet(&mut self, sequence: u64, write: impl FnOnce(&mut Writer<'_>)) -> &mut Self {
        self.raw(&encode(|p| {
            write(p);
            p.varint(10, sequence);
        }))
    }

    fn raw(&mut self, packet: &[u8]) -> &mut Self {
        self.events.extend(self.reader.add(packet));
        self
    }

    /// Adds an event on sequence 1 that needs incremental state.
    fn event(&mut self, time: u64, kind: u64, write: impl FnOnce(&mut Writer<'_>)) -> &mut Self {
        self.packet(1, |p| {
            p.varint(8, time);
            p.varint(13, 2);
            p.nested(11, |event| {
                event.varint(9, kind);
                write(event);
            });
        })
    }

    fn track(&mut self, uuid: u64, write: impl FnOnce(&mut Writer<'_>)) -> &mut Self {
        self.packet(1, |p| {
            p.nested(60, |track| {
                track.varint(1, uuid);
                write(track);
            });
        })
    }

    fn finish(self) -> Events {
        let (tracks, problems) = self.reader.finish();
        Events {
            events: self.events,
            tracks,
            problems,
        }
    }
}

const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

fn instant(p: &mut Writer<'_>, name: &str) {
    p.varint(8, 1);
    p.nested(11, |event| {
        event.varint(9, INSTANT);
        event.string(23, name);
    });
}

fn names(events: &Events) -> Vec<&str> {
    let names = events.events.iter().map(|event| event.name.as_deref());
    names.map(|name| name.unwrap_or("-")).collect()
}

fn problems(events: &Events) -> Vec<(Problem, u64)> {
    events.problems.iter().collect()
}

#[test]
fn names_times_and_counters_are_resolved() {
    let mut trace = Trace::default();
    trace.packet(1, |p| {
        p.varint(13, 1);
        p.nested(59, |defaults| {
            defaults.varint(58, 64);
            defaults.nested(11, |event| event.varint(11, 7));
        });
        p.nested(6, |snapshot| {
            snapshot.nested(1, |clock| {
                clock.varint(1, 6);
                clock.varint(2, 1_000_000);
            });
            snapshot.nested(1, |clock| {
                clock.varint(1, 64);
                clock.varint(2, 1_000);
                clock.bool(3, true);
                clock.varint(4, 1_000);
            });
        });
    });
    trace.track(5, |track| track.string(2, "parent"));
    trace.track(9, |track| {
        track.varint(5, 5);
        track.string(2, "load");
        track.nested(8, |counter| counter.bool(5, true));
    });
    trace.packet(1, |p| {
        p.varint(8, 3);
        p.varint(13, 2);
        p.nested(11, |event| {
            event.varint(9, BEGIN);
            event.varint(3, 1);
            event.varint(10, 1);
            event.nested(4, |argument| {
                argument.varint(1, 1);
                argument.int(4, -7);
            });
            event.fixed64(47, 99);
        });
        p.nested(12, |interned| {
            for (table, text) in [(1, "category"), (2, "name"), (3, "key")] {
                interned.nested(table, |entry| {
                    entry.varint(1, 1);
                    entry.string(2, text);
                });
            }
        });
    });
    for value in [10, -3] {
        trace.event(2, COUNTER, |event| {
            event.varint(11, 9);
            event.int(30, value);
        });
    }
    trace.event(0, END, |_| {});
    let read = trace.finish();
    assert_eq!(problems(&read), []);
    let begin = &read.events[0];
    assert_eq!((begin.kind, begin.track), (Kind::Begin, 7));
    assert_eq!(begin.categories, ["category"]);
    assert_eq!(begin.name.as_deref(), Some("name"));
    assert_eq!(begin.arguments, [("key".to_owned(), Value::Int(-7))]);
    assert_eq!(begin.flows, [99]);
    let times: Vec<_> = read.events.iter().map(|event| event.time).collect();
    let expected = [1_003_000, 1_005_000, 1_007_000, 1_007_000];
    assert_eq!(times, expected.map(Some));
    let values: Vec<_> = read.events.iter().map(|event| event.value).collect();
    let sums = [10, 7].map(|sum| Some(Number::Integer(sum)));
    assert_eq!(values[1..3], sums);
    assert_eq!(read.tracks.path(9), "parent/load");
}

#[test]
fn trackevent_043_packets_that_need_a_state_are_skipped_without_one() {
    let mut trace = Trace::default();
    trace.event(1, INSTANT, |event| event.string(23, "too early"));
    trace.packet(1, |p| p.varint(13, 1));
    trace.event(1, INSTANT, |event| event.string(23, "seen"));
    trace.packet(2, |p| {
        p.varint(13, 2);
        instant(p, "another sequence");
    });
    trace.packet(2, |p| instant(p, "needs nothing"));
    trace.packet(0, |p| {
        p.varint(13, 2);
        instant(p, "no sequence");
    });
    let read = trace.finish();
    assert_eq!(names(&read), ["seen", "needs nothing"]);
    let expected = [
        (Problem::StateInvalid, 2),
        (Problem::NoSequence, 1),
        (Problem::EventWithoutSequence, 1),
    ];
    assert_eq!(problems(&read), expected);
}

#[test]
fn trackevent_044_a_cleared_state_is_valid_despite_a_loss_in_the_same_packet() {
    let mut trace = Trace::begun();
    trace.packet(1, |p| {
        p.varint(42, 257);
        p.varint(13, 2);
        instant(p, "after a loss");
    });
    trace.event(1, INSTANT, |event| event.string(23, "still invalid"));
    trace.packet(1, |p| {
        p.varint(42, 257);
        p.varint(13, 1);
        instant(p, "new start");
    });
    trace.event(1, INSTANT, |event| event.string(23, "valid"));
    let read = trace.finish();
    assert_eq!(names(&read), ["new start", "valid"]);
    assert_eq!(problems(&read), [(Problem::StateInvalid, 2)]);
}

fn define(p: &mut Writer<'_>, iid: u64, name: &str) {
    p.nested(12, |interned| {
        interned.nested(2, |entry| {
            entry.varint(1, iid);
            entry.string(2, name);
        });
    });
}

#[test]
fn trackevent_045_the_first_definition_of_an_iid_is_kept() {
    let mut trace = Trace::begun();
    trace.packet(1, |p| define(p, 1, "first"));
    trace.packet(1, |p| define(p, 1, "second"));
    trace.packet(1, |p| define(p, 1, "first"));
    trace.event(1, INSTANT, |event| event.varint(10, 1));
    trace.packet(1, |p| {
        p.varint(13, 1);
        define(p, 1, "another generation");
    });
    trace.event(1, INSTANT, |event| event.varint(10, 1));
    let read = trace.finish();
    assert_eq!(names(&read), ["first", "another generation"]);
    assert_eq!(problems(&read), [(Problem::Redefined, 1)]);
}

#[test]
fn trackevent_046_events_with_undefined_iids_lack_only_the_text() {
    let mut trace = Trace::begun();
    trace.event(1, INSTANT, |event| {
        event.varint(10, 5);
        event.varint(3, 0);
    });
    trace.packet(1, |p| define(p, 0, "zero"));
    trace.packet(1, |p| {
        p.nested(12, |interned| {
            interned.nested(2, |entry| entry.string(2, "none"))
        });
    });
    trace.event(1, INSTANT, |event| {
        event.nested(4, |argument| argument.bool(2, true));
        event.nested(4, |argument| {
            argument.string(10, "text");
            argument.varint(17, 9);
        });
    });
    let read = trace.finish();
    assert_eq!(names(&read), ["-", "-"]);
    assert_eq!(
        read.events[1].arguments,
        [("text".to_owned(), Value::Nothing)]
    );
    let expected = [
        (Problem::EntryWithoutIid, 2),
        (Problem::NotDefined, 3),
        (Problem::BadArgument, 1),
    ];
    assert_eq!(problems(&read), expected);
}

#[test]
fn trackevent_047_unknown_fields_are_skipped_and_groups_rejected() {
    let mut trace = Trace::begun();
    trace.packet(1, |p| {
        p.varint(9_999, 1);
        p.bytes(536_870_911, b"unknown");
        p.fixed32(2_000, 5);
        p.varint(8, 1);
        p.nested(11, |event| {
            event.varint(9, INSTANT);
            event.bytes(1_900, b"extension");
            event.nested(4, |argument| {
                argument.string(10, "key");
                argument.varint(4, 1);
                argument.bytes(77, b"unknown");
            });
        });
    });
    // A group: field 11, wire types 3 and 4.
    trace.raw(&[0x50, 1, 0x5b, 0x48, 3, 0x5c]);
    // A truncated packet, an unterminated varint, field number 0.
    trace.raw(&[0x50, 1, 0x5a, 9]);
    trace.raw(&[0xff; 11]);
    trace.raw(&[0x00, 0x00]);
    let read = trace.finish();
    assert_eq!(read.events.len(), 1);
    assert_eq!(
        read.events[0].arguments,
        [("key".to_owned(), Value::Int(1))]
    );
    assert_eq!(problems(&read), [(Problem::MalformedPacket, 4)]);
}

#[test]
fn trackevent_048_arguments_nested_ten_thousand_levels_deep_are_truncated() {
    for field in [11, 12] {
        let mut nested = encode(|argument| {
            argument.string(10, "inner");
            argument.varint(4, 1);
        });
        for _ in 0..10_000 {
            let inner = nested;
            nested = encode(|argument| {
                argument.string(10, "outer");
                argument.bytes(field, &inner);
            });
        }
        let mut trace = Trace::begun();
        trace.event(1, INSTANT, |event| event.bytes(4, &nested));
        let read = trace.finish();
        assert_eq!(read.events[0].arguments[0].0, "outer");
        assert_eq!(problems(&read), [(Problem::ArgumentTooDeep, 1)]);
    }
}

#[test]
fn trackevent_049_tracks_without_a_path_to_the_root_are_counted() {
    let chain = |length: u64| {
        let mut trace = Trace::begun();
        for uuid in 1000..1000 + length {
            trace.track(uuid, |track| {
                if uuid > 1000 {
                    track.varint(5, uuid - 1);
                }
            });
        }
        trace.finish()
    };
    assert_eq!(problems(&chain(99)), []);
    assert_eq!(problems(&chain(100)), [(Problem::TrackTooDeep, 1)]);

    let mut trace = Trace::begun();
    trace.track(1, |track| track.varint(5, 1));
    trace.track(2, |track| track.varint(5, 3));
    trace.track(3, |track| track.varint(5, 2));
    trace.track(4, |track| track.varint(5, 404));
    trace.track(5, |track| track.string(2, "well"));
    trace.event(1, INSTANT, |event| event.varint(11, 5));
    let read = trace.finish();
    assert_eq!(read.events.len(), 1);
    assert_eq!(read.tracks.path(5), "well");
    let expected = [(Problem::ParentNotDescribed, 1), (Problem::TrackLoop, 3)];
    assert_eq!(problems(&read), expected);
}

#[test]
fn trackevent_050_unmatched_slices_and_counters_are_counted() {
    let mut trace = Trace::begun();
    trace.event(1, END, |_| {});
    for time in 0..513 {
        trace.event(2 + time, BEGIN, |_| {});
    }
    trace.track(20, |track| track.string(2, "slices"));
    trace.event(900, COUNTER, |event| {
        event.varint(11, 20);
        event.varint(30, 1);
    });
    trace.track(21, |track| track.nested(8, |_| {}));
    trace.event(901, COUNTER, |event| event.varint(11, 21));
    trace.event(902, INSTANT, |event| {
        for _ in 0..9 {
            event.varint(31, 21);
            event.varint(12, 1);
        }
    });
    trace.event(903, INSTANT, |event| event.varint(12, 1));
    trace.event(904, INSTANT, |event| {
        event.varint(31, 0);
        event.varint(12, 1);
    });
    let read = trace.finish();
    let expected = [
        (Problem::CounterWithoutValue, 1),
        (Problem::NotACounter, 1),
        (Problem::TooManyExtraCounters, 1),
        (Problem::ExtraCounterWithoutTrack, 2),
        (Problem::EndWithoutBegin, 1),
        (Problem::SlicesTooDeep, 1),
    ];
    assert_eq!(problems(&read), expected);
    let nine = &read.events[read.events.len() - 3];
    assert_eq!(nine.extra_values, [(21, Number::Integer(1)); 8]);
}

#[test]
fn trackevent_051_invalid_snapshots_are_counted() {
    let clock = |snapshot: &mut Writer<'_>, id: u64, at: u64| {
        snapshot.nested(1, |clock| {
            clock.varint(1, id);
            clock.varint(2, at);
            clock.varint(4, 0);
        });
    };
    let mut trace = Trace::begun();
    trace.packet(1, |p| {
        p.nested(6, |snapshot| {
            clock(snapshot, 6, 500);
            clock(snapshot, 64, 100);
            clock(snapshot, 64, 200);
        });
    });
    trace.packet(0, |p| p.nested(6, |snapshot| clock(snapshot, 64, 1)));
    trace.packet(2, |p| {
        p.nested(6, |snapshot| {
            clock(snapshot, 6, 500);
            clock(snapshot, 64, 100);
        });
    });
    let mut at = |sequence: u64, time: u64, clock: u64| {
        trace.packet(sequence, |p| {
            p.varint(8, time);
            p.varint(58, clock);
            p.nested(11, |event| event.varint(9, INSTANT));
        });
    };
    at(2, 103, 64);
    at(1, 103, 64);
    at(1, u64::MAX, 6);
    at(1, 1, 65);
    at(1, 1, 200);
    let read = trace.finish();
    let times: Vec<_> = read.events.iter().map(|event| event.time).collect();
    // A multiplier of 0 means 1. A snapshot with a clock twice relates no clocks.
    assert_eq!(times, [Some(503), None, None, None, None]);
    let expected = [
        (Problem::UnknownClock, 3),
        (Problem::InvalidTime, 1),
        (Problem::SnapshotWithoutSequence, 1),
        (Problem::SnapshotDuplicate, 1),
    ];
    assert_eq!(problems(&read), expected);
}

#[test]
fn trackevent_052_old_encodings_are_read() {
    let mut trace = Trace::default();
    // The old encodings of a cleared state, the thread and its reference time.
    trace.packet(1, |p| {
        p.bool(41, true);
        p.nested(43, |process| process.varint(1, 100));
    });
    trace.packet(1, |p| {
        p.nested(6, |snapshot| {
            for (id, at) in [(6, 5_000_000), (3, 4_000_000)] {
                snapshot.nested(1, |clock| {
                    clock.varint(1, id);
                    clock.varint(2, at);
                });
            }
        });
    });
    trace.packet(1, |p| {
        p.nested(44, |thread| {
            thread.varint(1, 100);
            thread.varint(2, 101);
            thread.varint(6, 7_000);
        });
    });
    trace.packet(1, |p| {
        p.varint(13, 2);
        p.nested(11, |event| {
            event.varint(1, 3);
            event.nested(6, |legacy| legacy.varint(2, u64::from(b'B')));
            event.string(23, "old");
            event.varint(36, 5);
            event.varint(42, 6);
            event.nested(4, |argument| {
                argument.string(10, "nested");
                argument.nested(8, |value| {
                    value.varint(1, 1);
                    value.string(2, "key");
                    value.nested(3, |inner| inner.int(5, -1));
                });
            });
        });
    });
    let read = trace.finish();
    assert_eq!(problems(&read), []);
    let event = &read.events[0];
    // 7000 µs + 3 µs on the monotonic clock; boot time is 1 ms ahead of it.
    assert_eq!(event.time, Some(8_003_000));
    assert_eq!(event.kind, Kind::Begin);
    assert_eq!(
        (&event.flows[..], &event.ending_flows[..]),
        (&[5][..], &[6][..])
    );
    let value = Value::Dict(vec![("key".to_owned(), Value::Int(-1))]);
    assert_eq!(event.arguments, [("nested".to_owned(), value)]);
}
