//! The states of concurrent sessions of the service.

use ferretto_proto::fields::concurrent_session_event as field;

use crate::import::context::Context;
use crate::import::message::Message;
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::track::{Dimension, EventKind, TrackSpec};

/// The states by number.
const STATES: [&str; 6] = [
    "",
    "DISABLED",
    "CONFIGURED",
    "STARTED",
    "DISABLING_WAITING_STOP_ACKS",
    "CLONED_READ_ONLY",
];

/// Reads a `ConcurrentSessionEvent`.
pub(super) fn parse(cx: &mut Context, ts: i64, bytes: &[u8]) {
    let event = Message::<8>::read(bytes);
    let number = event.u32(field::STATE);
    let state = STATES.get(number as usize).copied().unwrap_or("");
    let mut args = ArgSet::default();
    if state.is_empty() {
        let stat = Stat::concurrent_session_event_unknown_state;
        args.int(&mut cx.store, "state", number.into());
        cx.store.log(stat, Some(ts), args);
        return;
    }
    let session = event.int(field::SESSION_ID);
    let name = event.bytes(field::SESSION_NAME);
    let mut name = if name.is_empty() {
        format!("Session {session}")
    } else {
        String::from_utf8_lossy(name).into_owned()
    };
    if state == "CLONED_READ_ONLY" {
        name += " (clone)";
    }
    let name = cx.store.strings.intern(&name);
    let dimensions = [Dimension::Int("session_id", session)];
    let spec = TrackSpec {
        kind: EventKind::State,
        ..TrackSpec::slices("concurrent_tracing_sessions", &dimensions)
    };
    let track = cx.tracks.intern(&mut cx.store, spec.named(name));
    args.int(
        &mut cx.store,
        "consumer_uid",
        event.int(field::CONSUMER_UID),
    );
    let sources = event.int(field::NUM_DATA_SOURCES);
    args.int(&mut cx.store, "num_data_sources", sources);
    let value = (StringId::NULL, cx.store.strings.intern(state));
    cx.states.set(&mut cx.store, ts, track, value, &mut args);
    if state == "DISABLED" {
        let none = (StringId::NULL, StringId::NULL);
        cx.states.set(&mut cx.store, ts, track, none, &mut args);
    }
}
