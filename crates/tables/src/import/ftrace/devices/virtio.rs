//! Virtual graphics and video devices of guests.

use ferretto_proto::fields::{
    ftrace_event as event, virtio_gpu_cmd_queue_ftrace_event as gpu,
    virtio_video_cmd_ftrace_event as command, virtio_video_resource_queue_ftrace_event as resource,
};
use rustc_hash::FxHashMap;

use super::super::add_named;
use super::{Context, MAX_KEYS};
use crate::import::message::Message;
use crate::schema::ArgValue;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::lane::{LaneId, Nesting};
use crate::trackers::slice::SliceStart;
use crate::trackers::track::{Dimension, TrackSpec};

/// The names of commands to the GPU, by the first number of each group.
const GPU_COMMANDS: [(u32, &[&str]); 3] = [
    (
        0x100,
        &[
            "GET_DISPLAY_INFO",
            "RESOURCE_CREATE_2D",
            "RESOURCE_UNREF",
            "SET_SCANOUT",
            "RESOURCE_FLUSH",
            "TRANSFER_TO_HOST_2D",
            "RESOURCE_ATTACH_BACKING",
            "RESOURCE_DETACH_BACKING",
            "GET_CAPSET_INFO",
            "GET_CAPSET",
            "GET_EDID",
            "RESOURCE_ASSIGN_UUID",
            "RESOURCE_CREATE_BLOB",
            "SET_SCANOUT_BLOB",
        ],
    ),
    (
        0x200,
        &[
            "CTX_CREATE",
            "CTX_DESTROY",
            "CTX_ATTACH_RESOURCE",
            "CTX_DETACH_RESOURCE",
            "RESOURCE_CREATE_3D",
            "TRANSFER_TO_HOST_3D",
            "TRANSFER_FROM_HOST_3D",
            "SUBMIT_3D",
            "RESOURCE_MAP_BLOB",
            "RESOURCE_UNMAP_BLOB",
        ],
    ),
    (0x300, &["UPDATE_CURSOR", "MOVE_CURSOR"]),
];

/// The names of commands to the video device, from 0x100 on.
const VIDEO_COMMANDS: [&str; 15] = [
    "QUERY_CAPABILITY",
    "STREAM_CREATE",
    "STREAM_DESTROY",
    "STREAM_DRAIN",
    "RESOURCE_CREATE",
    "RESOURCE_QUEUE",
    "RESOURCE_DESTROY_ALL",
    "QUEUE_CLEAR",
    "GET_PARAMS",
    "SET_PARAMS",
    "QUERY_CONTROL",
    "GET_CONTROL",
    "SET_CONTROL",
    "GET_PARAMS_EXT",
    "SET_PARAMS_EXT",
];
const FIRST_COMMAND: u64 = 0x100;

/// The duration that a command to the video device is shown with, in nanoseconds.
const COMMAND_DURATION: i64 = 100_000;

/// The start times of commands to GPUs without a fence, by queue and sequence number.
#[derive(Debug, Default)]
pub(super) struct Virtio {
    started: FxHashMap<(&'static str, u32), i64>,
}

impl Virtio {
    /// Parses an event.
    pub(super) fn parse(&mut self, cx: &mut Context, ts: i64, number: u32, body: &[u8]) {
        match number {
            event::VIRTIO_GPU_CMD_QUEUE => self.gpu(cx, ts, body, true),
            event::VIRTIO_GPU_CMD_RESPONSE => self.gpu(cx, ts, body, false),
            event::VIRTIO_VIDEO_CMD => video_command(cx, ts, body, false),
            event::VIRTIO_VIDEO_CMD_DONE => video_command(cx, ts, body, true),
            event::VIRTIO_VIDEO_RESOURCE_QUEUE => video_resource(cx, ts, body, true),
            event::VIRTIO_VIDEO_RESOURCE_QUEUE_DONE => video_resource(cx, ts, body, false),
            _ => {}
        }
    }

    /// Begins or ends a command to the GPU.
    fn gpu(&mut self, cx: &mut Context, ts: i64, body: &[u8], is_begin: bool) {
        const TYPE: &str = "virtgpu_queue_event";
        let body = Message::<10>::read(body);
        let queue = match body.bytes(gpu::NAME) {
            b"control" => "Control",
            b"cursor" => "Cursor",
            _ => return,
        };
        let of_queue = [Dimension::Text(
            "virtgpu_name",
            cx.store.strings.intern(queue),
        )];
        let free = body.u32(gpu::NUM_FREE).into();
        let name = format!("Virtgpu {queue} Free");
        add_named(cx, ts, "virtgpu_num_free", &of_queue, &name, free);
        let number = body.u32(gpu::SEQNO);
        let group = cx.lanes.group(&cx.store, TYPE, &of_queue);
        let lane = if is_begin {
            cx.lanes.begin(group, number.into(), Nesting::Nested)
        } else {
            cx.lanes.end(group, number.into())
        };
        let track = track(cx, TYPE, lane, &of_queue, &format!("Virtgpu {queue} Queue"));
        if is_begin {
            begin(cx, ts, track, gpu_command(body.u32(gpu::TYPE)));
            // The response to a command with a fence may be late on purpose.
            if body.uint(gpu::FENCE_ID) == 0 && self.started.len() < MAX_KEYS {
                self.started.insert((queue, number), ts);
            }
            return;
        }
        end(cx, ts, track, &mut ArgSet::default());
        if let Some(start) = self.started.remove(&(queue, number)) {
            let latency = ts.wrapping_sub(start) as f64;
            let name = format!("Virtgpu {queue} Latency");
            add_named(cx, ts, "virtgpu_latency", &of_queue, &name, latency);
        }
    }
}

fn gpu_command(number: u32) -> &'static str {
    let names = GPU_COMMANDS.iter().find_map(|(first, names)| {
        let index = number.checked_sub(*first)?;
        names.get(index as usize).copied()
    });
    names.unwrap_or("")
}

/// Adds a command to the video device, or its response.
fn video_command(cx: &mut Context, ts: i64, body: &[u8], is_response: bool) {
    const TYPE: &str = "virtio_video_command";
    let body = Message::<3>::read(body);
    let stream = body.u32(command::STREAM_ID);
    let number = body.uint(command::TYPE).checked_sub(FIRST_COMMAND);
    let name = number.and_then(|number| VIDEO_COMMANDS.get(number as usize));
    let of_stream = [
        Dimension::Int("virtio_stream_id", stream.into()),
        Dimension::Int("is_response", is_response.into()),
    ];
    let group = cx.lanes.group(&cx.store, TYPE, &of_stream);
    let lane = cx.lanes.scoped(group, ts, COMMAND_DURATION);
    let what = if is_response { "Responses" } else { "Requests" };
    let label = format!("virtio_video stream #{stream} {what}");
    let start = SliceStart {
        ts,
        track: track(cx, TYPE, lane, &of_stream, &label),
        category: StringId::NULL,
        name: cx.store.strings.intern(name.unwrap_or(&"Unknown")),
    };
    let args = &mut ArgSet::default();
    cx.slices
        .complete(&mut cx.store, start, COMMAND_DURATION, args);
}

/// Begins or ends the use of a resource by the video device.
fn video_resource(cx: &mut Context, ts: i64, body: &[u8], is_begin: bool) {
    const TYPE: &str = "virtio_video_queue_event";
    let body = Message::<9>::read(body);
    let stream = body.u32(resource::STREAM_ID);
    let queue = body.u32(resource::QUEUE_TYPE);
    let number = body.u32(resource::RESOURCE_ID);
    let queue_name = match queue {
        0x100 => "INPUT",
        0x101 => "OUTPUT",
        _ => "Unknown",
    };
    let of_queue = [
        Dimension::Int("virtio_stream_id", stream.into()),
        Dimension::Int("virtio_queue_type", queue.into()),
    ];
    let group = cx.lanes.group(&cx.store, TYPE, &of_queue);
    let lane = if is_begin {
        cx.lanes.begin(group, number.into(), Nesting::Nested)
    } else {
        cx.lanes.end(group, number.into())
    };
    let label = format!("virtio_video stream #{stream} {queue_name}");
    let track = track(cx, TYPE, lane, &of_queue, &label);
    if is_begin {
        begin(cx, ts, track, &format!("Resource #{}", number as i32));
        return;
    }
    let mut args = ArgSet::default();
    let store = &mut cx.store;
    args.int(store, "stream_id", stream.into());
    args.int(store, "resource_id", number.into());
    args.text(store, "queue_type", queue_name);
    for (key, field) in [
        ("data_size0", resource::DATA_SIZE0),
        ("data_size1", resource::DATA_SIZE1),
        ("data_size2", resource::DATA_SIZE2),
        ("data_size3", resource::DATA_SIZE3),
    ] {
        args.int(store, key, body.u32(field).into());
    }
    let at = ArgValue::Uint(body.uint(resource::TIMESTAMP));
    args.put(store, "timestamp", at);
    end(cx, ts, track, &mut args);
}

fn track(
    cx: &mut Context,
    type_: &'static str,
    lane: LaneId,
    dimensions: &[Dimension],
    label: &str,
) -> u32 {
    cx.lanes.track(&mut cx.store, lane, |store| {
        let label = store.strings.intern(label);
        let spec = TrackSpec::slices(type_, &[]).named(label);
        (spec, dimensions.to_vec())
    })
}

fn begin(cx: &mut Context, ts: i64, track: u32, name: &str) {
    let start = SliceStart {
        ts,
        track,
        category: StringId::NULL,
        name: cx.store.strings.intern(name),
    };
    cx.slices
        .begin(&mut cx.store, start, &mut ArgSet::default());
}

fn end(cx: &mut Context, ts: i64, track: u32, args: &mut ArgSet) {
    let any = (StringId::NULL, StringId::NULL);
    cx.slices.end(&mut cx.store, ts, track, any, args);
}
