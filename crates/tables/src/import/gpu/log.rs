//! Messages of GPU drivers.

use ferretto_proto::fields::gpu_log as field;

use crate::import::context::Context;
use crate::import::message::Message;
use crate::schema::ArgValue;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::slice::SliceStart;
use crate::trackers::track::TrackSpec;

/// The severities, by their numbers.
const SEVERITIES: [&str; 6] = [
    "UNSPECIFIED",
    "VERBOSE",
    "DEBUG",
    "INFO",
    "WARNING",
    "ERROR",
];

/// Adds a `GpuLog` as an instant with its severity as name.
pub(super) fn parse(cx: &mut Context, ts: i64, bytes: &[u8]) {
    let event = Message::<4>::read(bytes);
    let name = cx.store.strings.intern("GPU Log");
    let spec = TrackSpec::slices("gpu_log", &[]).named(name);
    let track = cx.tracks.intern(&mut cx.store, spec);
    let severity = SEVERITIES.get(event.uint(field::SEVERITY) as usize);
    let severity = severity.copied().unwrap_or("UNKNOWN_SEVERITY");
    let mut args = ArgSet::default();
    for (number, key) in [(field::TAG, "tag"), (field::LOG_MESSAGE, "message")] {
        if event.has(number) {
            let text = cx.store.strings.intern_bytes(event.bytes(number));
            args.put(&mut cx.store, key, ArgValue::Text(text));
        }
    }
    let start = SliceStart {
        ts,
        track,
        category: StringId::NULL,
        name: cx.store.strings.intern(severity),
    };
    cx.slices.complete(&mut cx.store, start, 0, &mut args);
}
