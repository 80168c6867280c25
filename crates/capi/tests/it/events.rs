//! Encoding of track events from C programs.

use std::ptr;
use std::sync::atomic::Ordering;

use crate::common::events::*;
use crate::common::init;
use ferretto_c::*;
use ferretto_trace::events::{Number, Problem, Value};
use ferretto_wire::{Fields, encode};

/// Returns the packets with field 60 or 11, without the service's own fields.
fn bodies(packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let is_own = |number: u32| matches!(number, 3 | 10 | 42 | 79 | 98);
    let body = |packet: &Vec<u8>| {
        let mut fields = Fields::new(packet);
        let mut body = Vec::new();
        let mut start = 0;
        while let Some(field) = fields.next() {
            if !is_own(field.unwrap().number) {
                body.extend_from_slice(&packet[start..fields.offset()]);
            }
            start = fields.offset();
        }
        body
    };
    let is_wanted = |packet: &&Vec<u8>| {
        [11, 59, 60]
            .iter()
            .any(|&n| Fields::find(n, packet).is_some())
    };
    packets.iter().filter(is_wanted).map(body).collect()
}

#[test]
fn trackevent_053_the_first_event_of_a_thread_is_written_byte_for_byte() {
    ferretto_testing::own_process!();
    init();
    let category = Category::register("gfx");
    let other = Category::register("other gfx");
    // Other tests register categories, too.
    assert!(other.iid() > category.iid());
    let session = record("gfx");
    const START: u64 = 1_000_000_000_000;
    let run = move || {
        let at = |time| timestamp(64, START + time);
        category.emit(BEGIN, Some(c"Draw"), &[at(0)]);
        category.emit(BEGIN, Some(c"Draw"), &[at(1500), uint(Some(c"frame"), 7)]);
        category.emit(END, None, &[at(4000)]);
        let fps = fields(&[
            field(PerfettoTeHlProtoFieldVarInt {
                header: PerfettoTeHlProtoField {
                    type_: field_type::VARINT,
                    id: 5,
                },
                value: 0x77,
            }),
            text_field(2, c"fps"),
            field(PerfettoTeHlProtoFieldNested {
                header: PerfettoTeHlProtoField {
                    type_: field_type::NESTED,
                    id: 8,
                },
                fields: fields(&[]),
            }),
        ]);
        let track = PerfettoTeHlExtraProtoTrack {
            header: header(extra_type::PROTO_TRACK),
            uuid: 0x1234,
            fields: fps,
        };
        let value = PerfettoTeHlExtraCounterInt64 {
            header: header(extra_type::COUNTER_INT64),
            value: 60,
        };
        category.emit(COUNTER, None, &[at(4300), extra(track), extra(value)]);
        let flow = PerfettoTeHlExtraFlow {
            header: header(extra_type::FLOW),
            id: 0x1122_3344_5566_77a2,
        };
        category.emit(INSTANT, Some(c"Hop"), &[at(4700), extra(flow)]);
        PerfettoGetThreadIdImpl()
    };
    let thread = std::thread::Builder::new()
        .name("worker".to_owned())
        .spawn(run);
    let tid = thread.unwrap().join().unwrap();
    let pid = std::process::id();
    let process = perfetto_te_process_track_uuid.load(Ordering::Relaxed);
    let thread = process ^ tid as u64;
    let iid = category.iid();
    let command = std::fs::read("/proc/self/cmdline").unwrap();
    let command: Vec<_> = command
        .split(|b| *b == 0)
        .filter(|part| !part.is_empty())
        .collect();
    let expected = [
        encode(|m| {
            m.varint(87, 1);
            m.varint(8, 0);
            m.varint(13, 1);
            m.nested(59, |defaults| {
                defaults.varint(58, 64);
                defaults.nested(11, |defaults| defaults.varint(11, thread));
            });
            m.nested(6, |snapshot| {
                snapshot.nested(1, |clock| {
                    clock.varint(1, 6);
                    clock.varint(2, START);
                });
                snapshot.nested(1, |clock| {
                    clock.varint(1, 64);
                    clock.varint(2, START);
                    clock.varint(3, 1);
                    clock.varint(4, 1);
                });
            });
        }),
        encode(|m| {
            m.varint(8, 0);
            m.varint(13, 2);
            m.nested(60, |track| {
                track.varint(1, thread);
                track.varint(5, process);
                track.nested(4, |thread| {
                    thread.varint(1, pid.into());
                    thread.varint(2, tid as u64);
                    thread.string(5, "worker");
                });
            });
        }),
        encode(|m| {
            m.varint(8, 0);
            m.varint(13, 2);
            m.nested(60, |track| {
                track.varint(1, process);
                track.nested(3, |process| {
                    process.bytes(6, command[0]);
                    command.iter().for_each(|part| process.bytes(2, part));
                    process.varint(1, pid.into());
                });
            });
        }),
        encode(|m| {
            m.varint(8, 0);
            m.varint(13, 2);
            m.nested(11, |event| {
                event.varint(9, 1);
                event.varint(3, iid);
                event.varint(10, 1);
            });
            m.nested(12, |interned| {
                interned.nested(1, |entry| {
                    entry.varint(1, iid);
                    entry.string(2, "gfx");
                });
                interned.nested(2, |entry| {
                    entry.varint(1, 1);
                    entry.string(2, "Draw");
                });
            });
        }),
        encode(|m| {
            m.varint(8, 1500);
            m.varint(13, 2);
            m.nested(11, |event| {
                event.varint(9, 1);
                event.varint(3, iid);
                event.varint(10, 1);
                event.nested(4, |argument| {
                    argument.varint(3, 7);
                    argument.varint(1, 1);
                });
            });
            m.nested(12, |interned| {
                interned.nested(3, |entry| {
                    entry.varint(1, 1);
                    entry.string(2, "frame");
                });
            });
        }),
        vec![0x40, 0xc4, 0x13, 0x68, 0x02, 0x5a, 0x02, 0x48, 0x02],
        encode(|m| {
            m.nested(60, |track| {
                track.varint(1, 0x1234);
                track.varint(5, 0x77);
                track.string(2, "fps");
                track.nested(8, |_| {});
            });
        }),
        encode(|m| {
            m.varint(8, 300);
            m.varint(13, 2);
            m.nested(11, |event| {
                event.varint(9, 4);
                event.varint(11, 0x1234);
                event.varint(30, 60);
            });
        }),
        encode(|m| {
            m.varint(8, 400);
            m.varint(13, 2);
            m.nested(11, |event| {
                event.varint(9, 3);
                event.varint(3, iid);
                event.varint(10, 2);
                event.fixed64(47, 0x1122_3344_5566_77a2);
            });
            m.nested(12, |interned| {
                interned.nested(2, |entry| {
                    entry.varint(1, 2);
                    entry.string(2, "Hop");
                });
            });
        }),
    ];
    let written = bodies(&session.stop_and_read());
    assert_eq!(written.len(), expected.len());
    for (number, (written, expected)) in written.iter().zip(&expected).enumerate() {
        assert_eq!(written, expected, "packet {number}");
    }
}

#[test]
fn trackevent_054_categories_have_the_same_iid_in_all_sequences() {
    ferretto_testing::own_process!();
    init();
    let categories = ["numbers 1", "numbers 2", "numbers 3"].map(Category::register);
    let session = record("numbers*");
    let run = move || {
        for _ in 0..2 {
            categories
                .iter()
                .rev()
                .for_each(|category| category.instant(c"x"));
        }
    };
    run();
    std::thread::spawn(run).join().unwrap();
    let packets = session.stop_and_read();
    let mut entries = Vec::new();
    for packet in &packets {
        let Some(interned) = Fields::find(12, packet) else {
            continue;
        };
        for entry in interned
            .as_message()
            .unwrap()
            .map(Result::unwrap)
            .filter(|f| f.number == 1)
        {
            let entry = entry.as_bytes().unwrap();
            let name = Fields::find(2, entry)
                .unwrap()
                .as_str_lossy()
                .unwrap()
                .into_owned();
            entries.push((name, Fields::find(1, entry).unwrap().as_u64().unwrap()));
        }
    }
    let each: Vec<_> = [2, 1, 0]
        .map(|n| (format!("numbers {}", n + 1), categories[n].iid()))
        .into_iter()
        .collect();
    assert_eq!(entries, [each.clone(), each].concat());
    let events = events(&packets);
    assert!(events.problems.is_empty(), "{:?}", events.problems);
    assert_eq!(events.events.len(), 12);
}

fn dynamic(name: &str) -> *const PerfettoTeHlExtra {
    extra(PerfettoTeHlExtraDynamicCategory {
        header: header(extra_type::DYNAMIC_CATEGORY),
        desc: describe(name, &[]),
    })
}

#[test]
fn trackevent_055_dynamic_categories_are_recorded_if_selected() {
    ferretto_testing::own_process!();
    init();
    let any = Category::any();
    let session = record("wanted*");
    assert!(any.is_enabled());
    // More categories than cached filter results.
    for number in 0..50 {
        any.emit(
            INSTANT,
            Some(c"unwanted"),
            &[dynamic(&format!("other {number}"))],
        );
    }
    // Not even the first packet of a sequence.
    assert_eq!(bodies(&session.read()).len(), 0);
    for number in 0..50 {
        any.emit(
            INSTANT,
            Some(c"wanted"),
            &[dynamic(&format!("wanted {number}"))],
        );
        any.emit(INSTANT, Some(c"unwanted"), &[dynamic("other")]);
    }
    let events = events(&session.stop_and_read());
    assert!(events.problems.is_empty(), "{:?}", events.problems);
    let names = names(&events);
    assert_eq!(names, ["wanted"; 50]);
    assert_eq!(events.events[7].categories, ["wanted 7"]);
}

#[test]
fn trackevent_058_names_without_interning_are_written_inline() {
    ferretto_testing::own_process!();
    init();
    let category = Category::register("names");
    let session = record("names");
    let no_intern = || extra(header(extra_type::NO_INTERN));
    category.emit(INSTANT, Some(c"name"), &[no_intern()]);
    category.emit(INSTANT, Some(c"name"), &[]);
    category.emit(INSTANT, Some(c"name"), &[no_intern()]);
    let packets = session.stop_and_read();
    assert_eq!(names(&events(&packets)), ["name"; 3]);
    let events: Vec<_> = packets
        .iter()
        .filter_map(|packet| Fields::find(11, packet))
        .collect();
    let has =
        |event: usize, number| Fields::find(number, events[event].as_bytes().unwrap()).is_some();
    assert_eq!(
        [0, 1, 2].map(|event| (has(event, 23), has(event, 10))),
        [(true, false), (false, true), (true, false)]
    );
}

#[test]
fn trackevent_059_both_kinds_of_events_share_their_iids() {
    ferretto_testing::own_process!();
    init();
    let category = Category::register("both");
    let session = record("both");
    category.instant(c"first");
    let now = PerfettoTeGetTimestamp();
    // SAFETY: by the contract of the headers.
    unsafe {
        let mut iterator = PerfettoTeLlImplBegin(category.0, now);
        assert!(!iterator.ds.tracer.is_null());
        let intern = |field, bytes: &[u8]| {
            let mut seen = false;
            let iid = PerfettoTeLlImplIntern(
                iterator.incr,
                field,
                bytes.as_ptr().cast(),
                bytes.len(),
                &raw mut seen,
            );
            (iid, seen)
        };
        assert_eq!(intern(2, b"first"), (1, true));
        assert_eq!(intern(2, b"second"), (2, false));
        assert!(intern(1, &category.iid().to_ne_bytes()).1);
        assert!(!PerfettoTeLlImplTrackSeen(iterator.incr, 0x99));
        assert!(PerfettoTeLlImplTrackSeen(iterator.incr, 0x99));
        let dynamic = describe("both", &[]);
        assert!(PerfettoTeLlImplDynCatEnabled(
            iterator.ds.tracer,
            0,
            dynamic
        ));
        let dynamic = describe("neither", &[]);
        assert!(!PerfettoTeLlImplDynCatEnabled(
            iterator.ds.tracer,
            0,
            dynamic
        ));
        let packet = encode(|m| {
            m.varint(8, now.value);
            m.varint(58, 6);
            m.varint(13, 2);
            m.nested(12, |interned| {
                interned.nested(2, |entry| {
                    entry.varint(1, 2);
                    entry.string(2, "second");
                });
            });
            m.nested(11, |event| {
                event.varint(9, 3);
                event.varint(3, category.iid());
                event.varint(10, 2);
            });
        });
        let tracer = crate::common::Tracer {
            ds: ptr::null_mut(),
            instance: 0,
            tracer: iterator.ds.tracer,
        };
        tracer.write(&packet);
        PerfettoTeLlImplNext(category.0, now, &raw mut iterator);
        assert!(iterator.ds.tracer.is_null());
        // After leaving early, the thread can trace again.
        let mut iterator = PerfettoTeLlImplBegin(category.0, now);
        category.instant(c"never");
        PerfettoTeLlImplBreak(category.0, &raw mut iterator);
    }
    category.instant(c"second");
    let events = events(&session.stop_and_read());
    assert!(events.problems.is_empty(), "{:?}", events.problems);
    assert_eq!(names(&events), ["first", "second", "second"]);
    assert!(
        events
            .events
            .iter()
            .all(|event| event.categories == ["both"])
    );
}

#[test]
fn trackevent_060_invalid_types_are_not_written() {
    ferretto_testing::own_process!();
    init();
    let category = Category::register("types");
    let session = record("types");
    category.instant(c"before");
    category.emit(0, Some(c"zero"), &[]);
    category.emit(99, Some(c"many"), &[]);
    category.emit(-1, Some(c"less"), &[]);
    category.instant(c"after");
    let packets = session.stop_and_read();
    let types = packets.iter().filter_map(|packet| Fields::find(11, packet));
    let types = types.map(|event| Fields::find(9, event.as_bytes().unwrap()).is_some());
    assert_eq!(types.collect::<Vec<_>>(), [true, false, false, false, true]);
    let events = events(&packets);
    assert_eq!(names(&events), ["before", "after"]);
    assert_eq!(
        events.problems.iter().map(|(_, count)| count).sum::<u64>(),
        3
    );
    assert_eq!(events.problems.count(Problem::EventWithoutType), 3);
}

#[test]
fn trackevent_061_a_counter_with_two_values_has_both() {
    ferretto_testing::own_process!();
    init();
    let category = Category::register("counters");
    let session = record("counters");
    let integer = || {
        extra(PerfettoTeHlExtraCounterInt64 {
            header: header(extra_type::COUNTER_INT64),
            value: -3,
        })
    };
    let double = || {
        extra(PerfettoTeHlExtraCounterDouble {
            header: header(extra_type::COUNTER_DOUBLE),
            value: 1.5,
        })
    };
    let track = || {
        let counter = PerfettoTeHlProtoFieldNested {
            header: PerfettoTeHlProtoField {
                type_: field_type::NESTED,
                id: 8,
            },
            fields: fields(&[]),
        };
        let fields = fields(&[text_field(2, c"count"), field(counter)]);
        extra(PerfettoTeHlExtraProtoTrack {
            header: header(extra_type::PROTO_TRACK),
            uuid: 0xc0,
            fields,
        })
    };
    category.emit(COUNTER, None, &[track(), integer(), double()]);
    category.emit(COUNTER, None, &[track(), double()]);
    // Integers are only read for counters, floating-point numbers for all events.
    category.emit(INSTANT, Some(c"x"), &[integer(), double()]);
    let packets = session.stop_and_read();
    let values: Vec<_> = packets
        .iter()
        .filter_map(|packet| Fields::find(11, packet))
        .map(|event| {
            [30, 44].map(|number| Fields::find(number, event.as_bytes().unwrap()).is_some())
        })
        .collect();
    assert_eq!(values, [[true, true], [false, true], [false, true]]);
    let events = events(&packets);
    assert_eq!(events.events[0].value, Some(Number::Integer(-3)));
    assert_eq!(events.events[1].value, Some(Number::Double(1.5)));
}

#[test]
fn trackevent_062_arguments_without_names_do_not_invalidate_events() {
    ferretto_testing::own_process!();
    init();
    let category = Category::register("nameless");
    let session = record("nameless");
    category.emit(
        INSTANT,
        Some(c"x"),
        &[uint(None, 7), uint(Some(c"named"), 8)],
    );
    category.emit(INSTANT, None, &[]);
    let text = PerfettoTeHlExtraDebugArgString {
        header: header(extra_type::DEBUG_ARG_STRING),
        name: c"text".as_ptr(),
        value: ptr::null(),
    };
    let id = PerfettoTeHlExtraCorrelationId {
        header: header(extra_type::CORRELATION_ID),
        id: 5,
    };
    category.emit(
        INSTANT,
        Some(c"y"),
        &[extra(text), extra(header(77)), extra(id)],
    );
    let events = events(&session.stop_and_read());
    assert_eq!(names(&events), ["x", "", "y"]);
    let named = ("named".to_owned(), Value::Uint(8));
    assert_eq!(events.events[0].arguments, [named]);
    assert_eq!(
        events.events[2].arguments,
        [("text".to_owned(), Value::Text(String::new()))]
    );
}
