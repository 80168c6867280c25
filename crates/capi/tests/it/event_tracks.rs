//! Tracks and additional fields of track events from C programs.

use std::ptr;

use crate::common::events::*;
use crate::common::init;
use ferretto_c::*;
use ferretto_wire::{Fields, encode};

fn interned_field(id: u32, interned_type_id: u32) -> *const PerfettoTeHlProtoField {
    field(PerfettoTeHlProtoFieldCstrInterned {
        header: PerfettoTeHlProtoField {
            type_: field_type::CSTR_INTERNED,
            id,
        },
        str: c"long text".as_ptr(),
        interned_type_id,
    })
}

#[test]
fn trackevent_056_fields_of_all_types_are_written_and_interned_ones_need_a_table() {
    ferretto_testing::own_process!();
    init();
    let category = Category::register("fields");
    let session = record("fields");
    let head = |type_, id| PerfettoTeHlProtoField { type_, id };
    let list = fields(&[
        interned_field(1000, 0),
        interned_field(1001, 4),
        text_field(1002, c"text"),
        field(PerfettoTeHlProtoFieldBytes {
            header: head(field_type::BYTES, 1003),
            buf: [1u8, 0, 2].as_ptr().cast(),
            len: 3,
        }),
        field(PerfettoTeHlProtoFieldBytes {
            header: head(field_type::BYTES, 1004),
            buf: ptr::null(),
            len: 0,
        }),
        field(PerfettoTeHlProtoFieldFixed64 {
            header: head(field_type::FIXED64, 1005),
            value: u64::MAX,
        }),
        field(PerfettoTeHlProtoFieldFixed32 {
            header: head(field_type::FIXED32, 1006),
            value: 7,
        }),
        field(PerfettoTeHlProtoFieldDouble {
            header: head(field_type::DOUBLE, 1007),
            value: 0.5,
        }),
        field(PerfettoTeHlProtoFieldFloat {
            header: head(field_type::FLOAT, 1008),
            value: 0.25,
        }),
        field(head(99, 1009)),
        field(PerfettoTeHlProtoFieldNested {
            header: head(field_type::NESTED, 1010),
            fields: fields(&[interned_field(1, 4), text_field(2, c"inner")]),
        }),
    ]);
    category.emit(
        INSTANT,
        Some(c"x"),
        &[extra(PerfettoTeHlExtraProtoFields {
            header: header(extra_type::PROTO_FIELDS),
            fields: list,
        })],
    );
    let packets = session.stop_and_read();
    let packet = packets
        .iter()
        .find(|packet| Fields::find(11, packet).is_some())
        .unwrap();
    let event = Fields::find(11, packet).unwrap().as_bytes().unwrap();
    let rest = encode(|m| {
        m.varint(1001, 1);
        m.string(1002, "text");
        m.bytes(1003, &[1, 0, 2]);
        m.bytes(1004, &[]);
        m.fixed64(1005, u64::MAX);
        m.fixed32(1006, 7);
        m.double(1007, 0.5);
        m.float(1008, 0.25);
        m.nested(1010, |m| {
            m.varint(1, 1);
            m.string(2, "inner");
        });
    });
    assert!(event.ends_with(&rest));
    let interned = Fields::find(12, packet).unwrap().as_bytes().unwrap();
    let entry = Fields::find(4, interned).unwrap().as_bytes().unwrap();
    assert_eq!(
        Fields::find(2, entry).unwrap().as_bytes().unwrap(),
        b"long text"
    );
    assert_eq!(names(&events(&packets)), ["x"]);
}

#[test]
fn trackevent_057_a_track_is_described_on_every_sequence_that_uses_it() {
    ferretto_testing::own_process!();
    init();
    let category = Category::register("tracks");
    let session = record("tracks");
    let run = move || {
        let track = || {
            extra(PerfettoTeHlExtraProtoTrack {
                header: header(extra_type::PROTO_TRACK),
                uuid: 0x5eed,
                fields: fields(&[text_field(2, c"shared")]),
            })
        };
        category.emit(INSTANT, Some(c"once"), &[track()]);
        category.emit(INSTANT, Some(c"twice"), &[track()]);
    };
    run();
    std::thread::spawn(run).join().unwrap();
    let packets = session.stop_and_read();
    let described = packets
        .iter()
        .filter_map(|packet| Fields::find(60, packet))
        .filter(|track| {
            Fields::find(1, track.as_bytes().unwrap()).unwrap().as_u64() == Some(0x5eed)
        });
    assert_eq!(described.count(), 2);
    let events = events(&packets);
    assert!(events.problems.is_empty(), "{:?}", events.problems);
    assert!(events.events.iter().all(|event| event.track == 0x5eed));
}

#[test]
fn named_tracks_have_ordering_and_merging() {
    ferretto_testing::own_process!();
    init();
    let category = Category::register("lanes");
    let session = record("lanes");
    let level = |name: &'static std::ffi::CStr, behaviour, key: Option<&'static std::ffi::CStr>| {
        field(PerfettoTeHlNestedTrackNamed {
            header: PerfettoTeHlNestedTrack {
                type_: nested_type::NAMED,
            },
            name: name.as_ptr(),
            id: 3,
            is_name_static: behaviour == 0,
            sibling_order_rank: -4,
            child_ordering: 3,
            sibling_merge_behavior: behaviour,
            sibling_merge_key_str: key.map_or(ptr::null(), |key| key.as_ptr()),
            sibling_merge_key_int: 11,
        })
        .cast::<PerfettoTeHlNestedTrack>()
    };
    let thread = field(PerfettoTeHlNestedTrack {
        type_: nested_type::THREAD,
    })
    .cast();
    let levels = [
        thread,
        level(c"outer", 0, None),
        level(c"keyed", 3, Some(c"key")),
        level(c"numbered", 3, None),
        ptr::null(),
    ];
    let tracks = PerfettoTeHlExtraNestedTracks {
        header: header(extra_type::NESTED_TRACKS),
        tracks: levels.as_ptr(),
    };
    category.emit(INSTANT, Some(c"x"), &[extra(tracks)]);
    let events = events(&session.stop_and_read());
    assert!(events.problems.is_empty(), "{:?}", events.problems);
    let of = |uuid| events.tracks.get(uuid).unwrap();
    let numbered = of(events.events[0].track);
    assert_eq!(
        (
            numbered.name.as_deref(),
            numbered.rank,
            numbered.child_ordering,
            numbered.merging
        ),
        (Some("numbered"), -4, 3, 3)
    );
    assert_eq!(
        numbered.merge_key.as_deref(),
        Some("sibling_merge_key_int:11")
    );
    let keyed = of(numbered.parent.unwrap());
    assert_eq!(
        (keyed.name.as_deref(), keyed.merge_key.as_deref()),
        (Some("keyed"), Some("key"))
    );
    let outer = of(keyed.parent.unwrap());
    assert_eq!(
        (
            outer.name.as_deref(),
            outer.merging,
            outer.merge_key.as_deref()
        ),
        (Some("outer"), 0, None)
    );
    assert!(of(outer.parent.unwrap()).thread.is_some());
}
