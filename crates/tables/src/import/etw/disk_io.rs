//! Requests to disks.

use ferretto_proto::fields::disk_io_etw_event as field;

use super::Kind::{Int, Pointer, Uint};
use super::{Context, Message, Named, args_of, count_unknown, named};
use crate::trackers::slice::SliceStart;
use crate::trackers::track::{Dimension, TrackSpec};

const TRACK: &str = "etw_diskio";

/// The names of requests by their opcodes, from 10.
const NAMES: [&str; 6] = [
    "DiskRead",
    "DiskWrite",
    "DiskReadInit",
    "DiskWriteInit",
    "DiskFlush",
    "DiskFlushInit",
];

const ARGS: [Named; 8] = [
    (field::IRP_PTR, "Irp Ptr", Pointer),
    (field::DISK_NUMBER, "Disk Number", Uint),
    (field::IRP_FLAGS, "Irp Flags", Pointer),
    (field::TRANSFER_SIZE, "Transfer Size", Uint),
    (field::BYTE_OFFSET, "Byte Offset", Int),
    (field::FILE_OBJECT, "File Object", Pointer),
    (field::RESPONSE_TIME, "Response Time (microseconds)", Int),
    (field::ISSUING_THREAD_ID, "Issuing Thread ID", Uint),
];

/// Parses a `DiskIoEtwEvent`.
pub(super) fn parse(cx: &mut Context, ts: i64, tid: i64, body: &[u8]) {
    let body = Message::<10>::read(body);
    if !body.has(field::OPCODE) {
        return;
    }
    let name = named(cx, &NAMES, body.u32(field::OPCODE).wrapping_sub(10));
    if name.is_null() {
        return count_unknown(cx);
    }
    let dur = body.int(field::RESPONSE_TIME);
    let utid = cx.processes.thread(&mut cx.store, tid);
    let dimensions = [Dimension::Utid(utid)];
    let group = cx.lanes.group(&cx.store, TRACK, &dimensions);
    let lane = cx.lanes.scoped(group, ts, dur);
    let track = cx.lanes.track(&mut cx.store, lane, |_| {
        (TrackSpec::slices(TRACK, &[]), dimensions.to_vec())
    });
    let start = SliceStart {
        ts,
        track,
        category: cx.store.strings.intern("ETW Disk I/O"),
        name,
    };
    let mut args = args_of(cx, &body, &ARGS);
    cx.slices.complete(&mut cx.store, start, dur, &mut args);
}
