//! Calls of probed functions as slices of their threads.

use super::{Context, Head};
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::slice::SliceStart;

/// The category of the slices.
const CATEGORY: &str = "probe";

/// Begins the slice of a function.
pub(super) fn called(cx: &mut Context, head: &Head<'_>, function: StringId) {
    let utid = cx.processes.thread(&mut cx.store, head.tid);
    let start = SliceStart {
        ts: head.ts,
        track: cx.tracks.of_thread(&mut cx.store, utid),
        category: cx.store.strings.intern(CATEGORY),
        name: function,
    };
    let mut args = ArgSet::default();
    cx.slices.begin(&mut cx.store, start, &mut args);
}

/// Ends the slice of a function.
pub(super) fn returned(cx: &mut Context, head: &Head<'_>, function: StringId) {
    let utid = cx.processes.thread(&mut cx.store, head.tid);
    let Some(track) = cx.tracks.known_of_thread(utid) else {
        return;
    };
    let which = (cx.store.strings.intern(CATEGORY), function);
    let mut args = ArgSet::default();
    cx.slices
        .end(&mut cx.store, head.ts, track, which, &mut args);
}

/// Returns true if a slice is the call of a function.
pub(super) fn is_call(cx: &Context, category: StringId) -> bool {
    cx.store.strings.text(category) == CATEGORY
}
