//! Buffers of cameras and video devices (Video4Linux).

use ferretto_proto::fields::{
    ftrace_event as event, v4l2_qbuf_ftrace_event as field, vb2_v4l2_qbuf_ftrace_event as vb2,
};
use rustc_hash::FxHashMap;

use super::{Context, Head, MAX_KEYS};
use crate::import::message::Message;
use crate::schema::ArgValue;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::flow::FlowTracker;
use crate::trackers::slice::SliceStart;

/// The names of buffer types, from 1 on.
const TYPES: [&str; 14] = [
    "VIDEO_CAPTURE",
    "VIDEO_OUTPUT",
    "VIDEO_OVERLAY",
    "VBI_CAPTURE",
    "VBI_OUTPUT",
    "SLICED_VBI_CAPTURE",
    "SLICED_VBI_OUTPUT",
    "VIDEO_OUTPUT_OVERLAY",
    "VIDEO_CAPTURE_MPLANE",
    "VIDEO_OUTPUT_MPLANE",
    "SDR_CAPTURE",
    "SDR_OUTPUT",
    "META_CAPTURE",
    "META_OUTPUT",
];

/// The identity of a buffer: device, sequence number, type, index.
type Buffer = [u32; 4];

/// The slices that queued buffers.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    queued: FxHashMap<Buffer, u32>,
}

impl Buffers {
    /// Adds an event as an instant of the thread. Buffers that return are connected with their
    /// queueing.
    pub(super) fn parse(&mut self, cx: &mut Context, head: &Head<'_>, number: u32, body: &[u8]) {
        let name = match number {
            event::V4L2_QBUF => "VIDIOC_QBUF",
            event::V4L2_DQBUF => "VIDIOC_DQBUF",
            event::VB2_V4L2_BUF_QUEUE => "vb2_v4l2_buf_queue",
            event::VB2_V4L2_BUF_DONE => "vb2_v4l2_buf_done",
            // Both directions have the same name in upstream's tables.
            _ => "vb2_v4l2_qbuf",
        };
        let body = Message::<19>::read(body);
        let mut args = ArgSet::default();
        let is_of_program = matches!(number, event::V4L2_QBUF | event::V4L2_DQBUF);
        let buffer = if is_of_program {
            [field::MINOR, field::SEQUENCE, field::TYPE, field::INDEX].map(|field| body.u32(field))
        } else {
            [body.u32(vb2::MINOR), body.u32(vb2::SEQUENCE), 0, 0]
        };
        let [minor, sequence, kind, index] = buffer;
        let store = &mut cx.store;
        args.int(store, "minor", (minor as i32).into());
        if is_of_program {
            args.int(store, "index", index.into());
            let name = TYPES.get((kind as usize).wrapping_sub(1));
            let name = name.map_or(StringId::NULL, |name| store.strings.intern(name));
            args.put(store, "type", ArgValue::Text(name));
            args.int(store, "bytesused", body.u32(field::BYTESUSED).into());
        }
        let at = if is_of_program {
            field::TIMESTAMP
        } else {
            vb2::TIMESTAMP
        };
        args.int(store, "timestamp", body.int(at));
        args.int(store, "sequence", sequence.into());
        let name = format!(
            "{name} minor={} seq={sequence} type={kind} index={index}",
            minor as i32
        );
        let utid = cx.processes.thread(&mut cx.store, head.tid);
        let start = SliceStart {
            ts: head.ts,
            track: cx.tracks.of_thread(&mut cx.store, utid),
            category: cx.store.strings.intern("Video 4 Linux 2"),
            name: cx.store.strings.intern(&name),
        };
        let slice = cx.slices.complete(&mut cx.store, start, 0, &mut args);
        match (number, slice) {
            (event::V4L2_QBUF, Some(slice)) if self.queued.len() < MAX_KEYS => {
                self.queued.entry(buffer).or_insert(slice);
            }
            (event::V4L2_DQBUF, Some(slice)) => {
                if let Some(queued) = self.queued.remove(&buffer) {
                    FlowTracker::connect(&mut cx.store, queued, slice);
                }
            }
            _ => {}
        }
    }
}
