//! Buffers with the images of layers of Android: their events, and the phases between them.
//!
//! An application draws into a buffer (from dequeue to queue), the GPU completes it (to the acquire
//! fence), SurfaceFlinger shows it (from latch to present), and the display shows it until the next
//! one of its layer.

use ferretto_proto::fields::graphics_frame_event as event;
use ferretto_proto::fields::graphics_frame_event::buffer_event as buffer;
use rustc_hash::FxHashMap;

use crate::import::context::Context;
use crate::import::message::Message;
use crate::schema::ArgValue;
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::slice::SliceStart;
use crate::trackers::track::{Dimension, TrackSpec};

/// The type of all tracks.
const TYPE: &str = "graphics_frame_event";
/// The name of the layer of events that have none.
const NO_LAYER: &str = "no_layer_name";

/// The names of the events by type.
const NAMES: [&str; 14] = [
    "unspecified_event",
    "Dequeue",
    "Queue",
    "Post",
    "AcquireFenceSignaled",
    "Latch",
    "HWCCompositionQueued",
    "FallbackComposition",
    "PresentFenceSignaled",
    "ReleaseFenceSignaled",
    "Modify",
    "Detach",
    "Attach",
    "Cancel",
];
const DEQUEUE: u64 = 1;
const QUEUE: u64 = 2;
const ACQUIRE_FENCE: u64 = 4;
const LATCH: u64 = 5;
const PRESENT_FENCE: u64 = 8;

/// The maximum number of buffers, and of layers.
const MAX_KEYS: usize = 1 << 16;

/// The state of buffers.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// By machine, number and layer: layers can share a buffer.
    buffers: FxHashMap<(u32, u32, StringId), Buffer>,
    /// The tracks of displayed frames by machine and layer.
    displayed: FxHashMap<(u32, StringId), u32>,
}

#[derive(Debug, Default)]
struct Buffer {
    /// The times of its last events, or 0.
    queued: i64,
    acquired: i64,
    latched: i64,
    /// True if its last event is a dequeue.
    is_dequeued: bool,
    phase: Phase,
}

/// The current phase of a buffer with the track of its slice.
#[derive(Debug, Default, Clone, Copy)]
enum Phase {
    #[default]
    None,
    Drawing {
        track: u32,
        slice: u32,
        since: i64,
    },
    Rendering {
        track: u32,
    },
    Composing {
        track: u32,
    },
}

/// An event of a buffer.
struct Event<'a> {
    ts: i64,
    kind: u64,
    id: u32,
    layer: &'a [u8],
    /// The name of the layer, or what stands for it.
    layer_name: StringId,
    frame: i64,
}

impl Buffers {
    /// Parses a `GraphicsFrameEvent`.
    pub(super) fn parse(&mut self, cx: &mut Context, ts: i64, bytes: &[u8]) {
        let outer = Message::<2>::read(bytes);
        if !outer.has(event::BUFFER_EVENT) {
            return;
        }
        let body = Message::<6>::read(outer.bytes(event::BUFFER_EVENT));
        if !body.has(buffer::BUFFER_ID) {
            return error(cx);
        }
        let layer = body.bytes(buffer::LAYER_NAME);
        let layer_name = if body.has(buffer::LAYER_NAME) {
            cx.store.strings.intern_bytes(layer)
        } else {
            cx.store.strings.intern(NO_LAYER)
        };
        let event = Event {
            ts,
            kind: body.uint(buffer::TYPE),
            id: body.u32(buffer::BUFFER_ID),
            layer,
            layer_name,
            frame: body.u32(buffer::FRAME_NUMBER).into(),
        };
        if self.buffers.len() >= MAX_KEYS {
            self.buffers.clear();
        }
        let key = (cx.store.machine, event.id, layer_name);
        let buffer = self.buffers.entry(key).or_default();
        let acquired_before = buffer.acquired;
        let name = if body.has(buffer::TYPE) {
            NAMES.get(event.kind as usize).copied()
        } else {
            None
        };
        buffer.add(cx, &event, name, body.uint(buffer::DURATION_NS) as i64);
        buffer.advance(cx, &event, acquired_before);
        if event.kind == PRESENT_FENCE {
            self.present(cx, &event);
        }
    }

    /// Begins to display a frame, which ends the one before.
    fn present(&mut self, cx: &mut Context, event: &Event<'_>) {
        let key = (cx.store.machine, event.layer_name);
        if let Some(track) = self.displayed.get(&key) {
            end(cx, event.ts, *track);
        }
        let name = format!("Display_{}", String::from_utf8_lossy(event.layer));
        let (track, _) = event.begin(cx, &name);
        if self.displayed.len() >= MAX_KEYS {
            self.displayed.clear();
        }
        self.displayed.insert(key, track);
    }
}

impl Buffer {
    /// Adds the event itself.
    fn add(&mut self, cx: &mut Context, event: &Event<'_>, name: Option<&str>, dur: i64) {
        match event.kind {
            DEQUEUE => {}
            QUEUE => self.queued = event.ts,
            ACQUIRE_FENCE => self.acquired = event.ts,
            LATCH => self.latched = event.ts,
            _ => error(cx),
        }
        let was_dequeued = std::mem::replace(&mut self.is_dequeued, event.kind == DEQUEUE);
        let track = Event::track(cx, &event.track_name("Buffer: "));
        let store = &mut cx.store;
        if event.kind == QUEUE && was_dequeued {
            // Dequeued buffers have no number of a frame yet.
            let any = StringId::NULL;
            if let Some((_, args)) = cx.slices.open_args(track, any, any) {
                args.int(store, "frame_number", event.frame);
            }
        }
        let mut args = ArgSet::default();
        args.int(store, "frame_number", event.frame);
        args.put(store, "layer_name", ArgValue::Text(event.layer_name));
        for (key, value) in [
            (
                "queue_to_acquire_time",
                self.acquired.saturating_sub(self.queued).max(0),
            ),
            (
                "acquire_to_latch_time",
                self.latched.saturating_sub(self.acquired),
            ),
            (
                "latch_to_present_time",
                event.ts.saturating_sub(self.latched),
            ),
        ] {
            args.int(store, key, value);
        }
        let start = SliceStart {
            ts: event.ts,
            track,
            category: StringId::NULL,
            name: store.strings.intern(name.unwrap_or("unknown_event")),
        };
        cx.slices.complete(store, start, dur, &mut args);
    }

    /// Ends a phase, and begins the next one.
    fn advance(&mut self, cx: &mut Context, event: &Event<'_>, acquired: i64) {
        match (event.kind, self.phase) {
            (DEQUEUE, phase) => {
                phase.without_queue(cx);
                let (track, slice) = event.begin(cx, &event.track_name("APP_"));
                self.phase = slice.map_or(Phase::None, |slice| Phase::Drawing {
                    track,
                    slice,
                    since: event.ts,
                });
            }
            (QUEUE, phase) => {
                if let Phase::Drawing {
                    track,
                    slice,
                    since,
                } = phase
                {
                    let any = (StringId::NULL, StringId::NULL);
                    let mut args = ArgSet::default();
                    args.int(&mut cx.store, "frame_number", event.frame);
                    cx.slices
                        .end(&mut cx.store, event.ts, track, any, &mut args);
                    rename(cx, slice, event.frame);
                    if acquired > since {
                        // The GPU was done before.
                        self.phase = Phase::None;
                        return;
                    }
                }
                let (track, _) = event.begin(cx, &event.track_name("GPU_"));
                self.phase = Phase::Rendering { track };
            }
            (ACQUIRE_FENCE, Phase::Rendering { track })
            | (PRESENT_FENCE, Phase::Composing { track }) => {
                end(cx, event.ts, track);
                self.phase = Phase::None;
            }
            (LATCH, phase) => {
                phase.without_queue(cx);
                let (track, _) = event.begin(cx, &event.track_name("SF_"));
                self.phase = Phase::Composing { track };
            }
            _ => {}
        }
    }
}

impl Phase {
    /// Marks a slice of drawing whose end was lost.
    fn without_queue(self, cx: &mut Context) {
        if let Self::Drawing { track, slice, .. } = self {
            rename(cx, slice, 0);
            let any = StringId::NULL;
            if let Some((_, args)) = cx.slices.open_args(track, any, any) {
                args.int(&mut cx.store, "frame_number", 0);
            }
        }
    }
}

impl Event<'_> {
    /// Returns the name of a track of this buffer.
    fn track_name(&self, prefix: &str) -> String {
        let layer = String::from_utf8_lossy(self.layer);
        format!("{prefix}{} {layer}", self.id)
    }

    /// Returns the track with this name.
    fn track(cx: &mut Context, name: &str) -> u32 {
        let name = cx.store.strings.intern(name);
        let dimensions = [Dimension::Text("name", name)];
        let spec = TrackSpec::slices(TYPE, &dimensions).named(name);
        cx.tracks.intern(&mut cx.store, spec)
    }

    /// Begins a phase. Returns its track and its slice.
    fn begin(&self, cx: &mut Context, name: &str) -> (u32, Option<u32>) {
        let track = Self::track(cx, name);
        let mut args = ArgSet::default();
        let store = &mut cx.store;
        args.int(store, "frame_number", self.frame);
        args.put(store, "layer_name", ArgValue::Text(self.layer_name));
        // Dequeued buffers have no number, so their time is a name that no other has.
        let number = if self.frame == 0 { self.ts } else { self.frame };
        let start = SliceStart {
            ts: self.ts,
            track,
            category: StringId::NULL,
            name: store.strings.intern(&number.to_string()),
        };
        (track, cx.slices.begin(store, start, &mut args))
    }
}

fn end(cx: &mut Context, ts: i64, track: u32) {
    let any = (StringId::NULL, StringId::NULL);
    let mut args = ArgSet::default();
    cx.slices.end(&mut cx.store, ts, track, any, &mut args);
}

/// Names a slice after its frame.
fn rename(cx: &mut Context, slice: u32, frame: i64) {
    let name = cx.store.strings.intern(&frame.to_string());
    cx.store.tables.slice.name.set(slice, name);
}

fn error(cx: &mut Context) {
    let stat = Stat::graphics_frame_event_parser_errors;
    cx.store.stats.add(stat, 1);
}
