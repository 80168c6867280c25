//! The trace points of the script, with the official SDK. `ours/script.rs` has the same with our
//! library.

use std::thread;

use perfetto_sdk::protos::trace::track_event::source_location::SourceLocationFieldNumber;
use perfetto_sdk::protos::trace::track_event::track_event::TrackEventFieldNumber;
use perfetto_sdk::track_event::{
    EventContext, TrackEventCounter, TrackEventDebugArg, TrackEventFlow, TrackEventNestedTrack,
    TrackEventNestedTracks, TrackEventProtoField, TrackEventProtoFields, TrackEventTrack,
    TrackEventType,
};
use perfetto_sdk::{
    scoped_track_event, track_event, track_event_begin, track_event_counter, track_event_end,
    track_event_instant,
};

use crate::producer::categories::interop as perfetto_te_ns;

/// Runs the threads of the script one after the other.
pub(crate) fn run() {
    let threads: [(&str, fn()); 3] = [
        ("alpha", arguments),
        ("beta", flows_and_counters),
        ("gamma", tracks),
    ];
    for (name, work) in threads {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
        thread.expect("a thread starts").join().expect("no panic");
    }
}

fn arguments() {
    scoped_track_event!("interop", "outer", |event: &mut EventContext| {
        event.add_debug_arg("yes", TrackEventDebugArg::Bool(true));
        event.add_debug_arg("most", TrackEventDebugArg::Uint64(u64::MAX));
        event.add_debug_arg("least", TrackEventDebugArg::Int64(i64::MIN));
        event.add_debug_arg("half", TrackEventDebugArg::Double(0.5));
        event.add_debug_arg("text", TrackEventDebugArg::String("tëxt"));
        event.add_debug_arg("nothing", TrackEventDebugArg::String(""));
        event.add_debug_arg("address", TrackEventDebugArg::Pointer(0xdead));
    });
    for round in 0..3 {
        scoped_track_event!("interop", "inner", |event: &mut EventContext| {
            event.add_debug_arg("round", TrackEventDebugArg::Int64(round));
        });
        track_event_instant!("interop", "tick");
        track_event_instant!("silent", "never");
    }
    track_event!(
        "interop",
        TrackEventType::Instant(c"made at run time".as_ptr()),
        |event: &mut EventContext| {
            event.set_no_intern();
        }
    );
    track_event_instant!("interop", "located", |event: &mut EventContext| {
        event.set_proto_fields(&TrackEventProtoFields {
            fields: &[TrackEventProtoField::Nested(
                TrackEventFieldNumber::SourceLocation as u32,
                &[
                    TrackEventProtoField::Cstr(
                        SourceLocationFieldNumber::FileName as u32,
                        "file.rs",
                    ),
                    TrackEventProtoField::VarInt(SourceLocationFieldNumber::LineNumber as u32, 12),
                ],
            )],
        });
    });
    track_event_instant!("interop", "hand over", |event: &mut EventContext| {
        event.set_flow(&TrackEventFlow::process_scoped_flow(42));
    });
}

fn flows_and_counters() {
    track_event_begin!("interop", "taken over", |event: &mut EventContext| {
        event.set_terminating_flow(&TrackEventFlow::process_scoped_flow(42));
    });
    track_event_end!("interop");
    let process = TrackEventTrack::process_track_uuid();
    let counter = |name| TrackEventTrack::register_counter_track(name, process).expect("a name");
    let (load, ratio) = (counter("load"), counter("ratio"));
    for value in [10, -3, 12] {
        track_event_counter!("interop", |event: &mut EventContext| {
            event.set_track(&load);
            event.set_counter(TrackEventCounter::Int64(value));
        });
    }
    track_event_counter!("interop", |event: &mut EventContext| {
        event.set_track(&ratio);
        event.set_counter(TrackEventCounter::Double(0.25));
    });
}

fn tracks() {
    let process = TrackEventTrack::process_track_uuid();
    track_event_begin!("interop", "on a lane", |event: &mut EventContext| {
        event.set_named_track("lane", 1, process);
    });
    track_event_instant!("interop", "within", |event: &mut EventContext| {
        event.set_named_track("lane", 1, process);
    });
    track_event_end!("interop", |event: &mut EventContext| {
        event.set_named_track("lane", 1, process);
    });
    track_event_instant!("interop", "deep", |event: &mut EventContext| {
        event.set_nested_tracks(&TrackEventNestedTracks {
            tracks: &[
                TrackEventNestedTrack::Process,
                TrackEventNestedTrack::Named("floor", 1),
                TrackEventNestedTrack::Named("room", 2),
            ],
        });
    });
    track_event_instant!("interop", "done");
}
