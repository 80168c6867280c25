//! Shared memory of devices: DMA-BUF heaps, and ION before them.

use ferretto_proto::fields::{
    dma_heap_stat_ftrace_event as dma, ftrace_event as event, ion_stat_ftrace_event as ion,
};

use super::{Context, Head, add_named};
use crate::import::message::Message;
use crate::schema::ArgValue;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::lane::Nesting;
use crate::trackers::slice::SliceStart;
use crate::trackers::track::{Dimension, EventKind, TrackSpec};

/// The types of tracks of buffers.
const ION: &str = "android_ion_allocations";
const DMA: &str = "android_dma_allocations";

/// Parses an event. Returns false for other events.
pub(super) fn parse(cx: &mut Context, head: &Head<'_>, number: u32, body: &[u8]) -> bool {
    match number {
        event::ION_STAT => {
            let body = Message::<4>::read(body);
            let heap = Dimension::Text("heap_name", StringId::NULL);
            let total = body.int(ion::TOTAL_ALLOCATED) as f64;
            add_named(cx, head.ts, "ion", &[heap], "mem.ion", total);
            let utid = cx.processes.thread(&mut cx.store, head.tid);
            let of = [heap, Dimension::Utid(utid)];
            let length = body.int(ion::LEN);
            add_named(
                cx,
                head.ts,
                "ion_change",
                &of,
                "mem.ion_change",
                length as f64,
            );
            let buffer = (body.int(ion::BUFFER_ID), length);
            allocation(cx, head.ts, (ION, "mem.ion_buffer"), buffer);
        }
        event::DMA_HEAP_STAT => heap(cx, head, body),
        _ => return false,
    }
    true
}

fn heap(cx: &mut Context, head: &Head<'_>, body: &[u8]) {
    let body = Message::<4>::read(body);
    let (inode, length) = (body.uint(dma::INODE), body.int(dma::LEN));
    let total = body.int(dma::TOTAL_ALLOCATED) as f64;
    add_named(cx, head.ts, "android_dma_heap", &[], "mem.dma_heap", total);
    let utid = cx.processes.thread(&mut cx.store, head.tid);
    let of = [Dimension::Utid(utid)];
    let name = cx.store.strings.intern("mem.dma_heap_change");
    let spec = TrackSpec {
        kind: EventKind::Counter,
        ..TrackSpec::slices("android_dma_heap_change", &of).named(name)
    };
    let track = cx.tracks.intern(&mut cx.store, spec);
    let mut args = ArgSet::default();
    args.put(&mut cx.store, "inode", ArgValue::Uint(inode));
    let (store, change) = (&mut cx.store, length as f64);
    cx.counters.add(store, head.ts, track, change, &mut args);
    let buffer = (inode as i64, length);
    allocation(cx, head.ts, (DMA, "mem.dma_buffer"), buffer);
}

/// Begins or ends the slice of a buffer. `buffer` is its number and, for a new one, its length.
fn allocation(
    cx: &mut Context,
    ts: i64,
    (type_, label): (&'static str, &str),
    (buffer, length): (i64, i64),
) {
    let group = cx.lanes.group(&cx.store, type_, &[]);
    let lane = if length > 0 {
        cx.lanes.begin(group, buffer, Nesting::Nested)
    } else {
        cx.lanes.end(group, buffer)
    };
    let track = cx.lanes.track(&mut cx.store, lane, |store| {
        let label = store.strings.intern(label);
        (TrackSpec::slices(type_, &[]).named(label), Vec::new())
    });
    let mut args = ArgSet::default();
    if length <= 0 {
        let any = (StringId::NULL, StringId::NULL);
        cx.slices.end(&mut cx.store, ts, track, any, &mut args);
        return;
    }
    let start = SliceStart {
        ts,
        track,
        category: StringId::NULL,
        name: cx.store.strings.intern(&format!("{} kB", length / 1024)),
    };
    cx.slices.begin(&mut cx.store, start, &mut args);
}
