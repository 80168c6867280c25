//! Frames of Android: the expected and the actual timeline of each process that draws.
//!
//! A frame of an application (surface frame) is shown in a frame of SurfaceFlinger (display frame),
//! to which a flow leads. Both have tokens, and a cookie for each of their two slices.

use ferretto_proto::fields::frame_timeline_event as frame;
use ferretto_proto::fields::frame_timeline_event::{
    actual_display_frame_start as display, actual_surface_frame_start as surface,
    expected_display_frame_start as expected_display,
    expected_surface_frame_start as expected_surface, frame_end,
};
use ferretto_wire::Fields;
use rustc_hash::{FxHashMap, FxHashSet};

use super::jank::{self, Layer};
use crate::import::context::Context;
use crate::import::message::Message;
use crate::schema::ArgValue;
use crate::stats::Stat;
use crate::store::Store;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::flow::FlowTracker;
use crate::trackers::lane::Nesting;
use crate::trackers::slice::SliceStart;
use crate::trackers::track::{Dimension, TrackSpec};

/// The types of the tracks with their names.
const EXPECTED: (&str, &str) = ("android_expected_frame_timeline", "Expected Timeline");
const ACTUAL: (&str, &str) = ("android_actual_frame_timeline", "Actual Timeline");

/// The arguments with the tokens of a frame.
const SURFACE_TOKEN: &str = "Surface frame token";
const DISPLAY_TOKEN: &str = "Display frame token";

/// The maximum number of frames that have no end yet, and of tokens.
const MAX_KEYS: usize = 1 << 16;

const PRESENT_TYPES: [&str; 6] = [
    "Unspecified Present",
    "On-time Present",
    "Late Present",
    "Early Present",
    "Dropped Frame",
    "Unknown Present",
];
const PREDICTION_TYPES: [&str; 4] = [
    "Unspecified Prediction",
    "Valid Prediction",
    "Expired Prediction",
    "Unknown Prediction",
];
const SEVERITIES: [&str; 4] = ["Unknown", "None", "Partial", "Full"];
const FENCE_STATES: [&str; 4] = [
    "Unknown",
    "Latched Signaled",
    "Latched Unsignaled",
    "Delayed Latch Fence Unsignaled",
];

/// The state of frames.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    /// The open slices by machine and cookie.
    open: FxHashMap<(u32, i64), Open>,
    /// The tokens of the expected frames of applications, by process.
    expected: FxHashSet<(u32, i64)>,
    /// The actual frames of applications that no display frame shows yet, by machine and token of
    /// the display frame.
    surfaces: FxHashMap<(u32, i64), Vec<u32>>,
}

#[derive(Debug, Clone, Copy)]
enum Open {
    Slice {
        group: u32,
        track: u32,
    },
    /// Applications announce an expected frame for each layer: only the first one is a slice.
    Repeated,
}

/// The fields that starts of frames have in common.
struct Start {
    cookie: i64,
    token: i64,
    upid: u32,
}

/// The numbers of these fields.
struct Numbers {
    cookie: u32,
    token: u32,
    pid: u32,
}

impl Frames {
    /// Parses a `FrameTimelineEvent`.
    pub(super) fn parse(&mut self, cx: &mut Context, ts: i64, bytes: &[u8]) {
        let event = Fields::new(bytes).map_while(Result::ok).last();
        let parsed = event.and_then(|event| {
            let body = event.as_bytes()?;
            match event.number {
                _ if ts < 0 => None,
                frame::EXPECTED_DISPLAY_FRAME_START => self.expected_display(cx, ts, body),
                frame::ACTUAL_DISPLAY_FRAME_START => self.actual_display(cx, ts, body),
                frame::EXPECTED_SURFACE_FRAME_START => self.expected_surface(cx, ts, body),
                frame::ACTUAL_SURFACE_FRAME_START => self.actual_surface(cx, ts, body),
                frame::FRAME_END => self.end(cx, ts, body),
                _ => None,
            }
        });
        if parsed.is_none() {
            let stat = Stat::frame_timeline_event_parser_errors;
            cx.store.stats.add(stat, 1);
        }
    }

    fn expected_display(&mut self, cx: &mut Context, ts: i64, body: &[u8]) -> Option<()> {
        let numbers = Numbers {
            cookie: expected_display::COOKIE,
            token: expected_display::TOKEN,
            pid: expected_display::PID,
        };
        let start = start(cx, &Message::<4>::read(body), &numbers)?;
        let mut args = ArgSet::default();
        args.int(&mut cx.store, DISPLAY_TOKEN, start.token);
        self.begin(cx, ts, EXPECTED, &start, &mut args);
        Some(())
    }

    fn expected_surface(&mut self, cx: &mut Context, ts: i64, body: &[u8]) -> Option<()> {
        let body = Message::<6>::read(body);
        let numbers = Numbers {
            cookie: expected_surface::COOKIE,
            token: expected_surface::TOKEN,
            pid: expected_surface::PID,
        };
        let start = start(cx, &body, &numbers)?;
        let shown_in = expected_surface::DISPLAY_FRAME_TOKEN;
        body.has(shown_in).then_some(())?;
        if self.expected.len() >= MAX_KEYS {
            self.expected.clear();
        }
        if !self.expected.insert((start.upid, start.token)) {
            self.keep(cx.store.machine, start.cookie, Open::Repeated);
            return Some(());
        }
        let mut args = ArgSet::default();
        args.int(&mut cx.store, SURFACE_TOKEN, start.token);
        args.int(&mut cx.store, DISPLAY_TOKEN, body.int(shown_in));
        put_layer(
            &mut cx.store,
            &mut args,
            &body,
            expected_surface::LAYER_NAME,
        );
        self.begin(cx, ts, EXPECTED, &start, &mut args);
        Some(())
    }

    fn actual_display(&mut self, cx: &mut Context, ts: i64, body: &[u8]) -> Option<()> {
        let body = Message::<17>::read(body);
        let numbers = Numbers {
            cookie: display::COOKIE,
            token: display::TOKEN,
            pid: display::PID,
        };
        let start = start(cx, &body, &numbers)?;
        let mut args = ArgSet::default();
        args.int(&mut cx.store, DISPLAY_TOKEN, start.token);
        let numbers = Outcome {
            present: display::PRESENT_TYPE,
            present_experimental: display::PRESENT_TYPE_EXPERIMENTAL,
            on_time: display::ON_TIME_FINISH,
            gpu: display::GPU_COMPOSITION,
            jank: display::JANK_TYPE,
            jank_experimental: display::JANK_TYPE_EXPERIMENTAL,
            severity: display::JANK_SEVERITY_TYPE,
            score: display::JANK_SEVERITY_SCORE,
            prediction: display::PREDICTION_TYPE,
        };
        put_real(
            &mut cx.store,
            &mut args,
            "Present Delay (ms)",
            &body,
            display::PRESENT_DELAY_MILLIS,
        );
        numbers.put(&mut cx.store, &mut args, &body, Layer::Display);
        let store = &mut cx.store;
        let debug = "Jank Metadata (debugging only)";
        put_real(store, &mut args, debug, &body, display::JANK_DEBUG_METADATA);
        for (key, number) in [
            (
                "Latched unsignaled count",
                display::LATCHED_UNSIGNALED_COUNT,
            ),
            (
                "Addressable unsignaled latch count",
                display::ADDRESSABLE_UNSIGNALED_LATCH_COUNT,
            ),
        ] {
            if body.has(number) {
                args.int(store, key, body.int(number));
            }
        }
        let slice = self.begin(cx, ts, ACTUAL, &start, &mut args);
        let key = (cx.store.machine, start.token);
        if let Some(slice) = slice {
            for surface in self.surfaces.remove(&key).unwrap_or_default() {
                FlowTracker::connect(&mut cx.store, surface, slice);
            }
        }
        Some(())
    }

    fn actual_surface(&mut self, cx: &mut Context, ts: i64, body: &[u8]) -> Option<()> {
        let body = Message::<21>::read(body);
        let numbers = Numbers {
            cookie: surface::COOKIE,
            token: surface::TOKEN,
            pid: surface::PID,
        };
        let start = start(cx, &body, &numbers)?;
        body.has(surface::DISPLAY_FRAME_TOKEN).then_some(())?;
        let shown_in = body.int(surface::DISPLAY_FRAME_TOKEN);
        let mut args = ArgSet::default();
        let store = &mut cx.store;
        args.int(store, SURFACE_TOKEN, start.token);
        args.int(store, DISPLAY_TOKEN, shown_in);
        if body.has(surface::ANIMATION_TIME_MILLIS) {
            let key = "Animation Time (ms)";
            put_real(store, &mut args, key, &body, surface::ANIMATION_TIME_MILLIS);
        }
        for (key, number) in [
            ("Present Delay (ms)", surface::PRESENT_DELAY_MILLIS),
            (
                "Vsync Resynced Jitter (ms)",
                surface::VSYNC_RESYNCED_JITTER_MILLIS,
            ),
        ] {
            put_real(store, &mut args, key, &body, number);
        }
        put_layer(store, &mut args, &body, surface::LAYER_NAME);
        let numbers = Outcome {
            present: surface::PRESENT_TYPE,
            present_experimental: surface::PRESENT_TYPE_EXPERIMENTAL,
            on_time: surface::ON_TIME_FINISH,
            gpu: surface::GPU_COMPOSITION,
            jank: surface::JANK_TYPE,
            jank_experimental: surface::JANK_TYPE_EXPERIMENTAL,
            severity: surface::JANK_SEVERITY_TYPE,
            score: surface::JANK_SEVERITY_SCORE,
            prediction: surface::PREDICTION_TYPE,
        };
        numbers.put(store, &mut args, &body, Layer::Surface);
        let is_buffer = if !body.has(surface::IS_BUFFER) {
            "Unspecified"
        } else if body.uint(surface::IS_BUFFER) == 0 {
            "No"
        } else {
            "Yes"
        };
        args.text(store, "Is Buffer?", is_buffer);
        let debug = "Jank Metadata (debugging only)";
        put_real(store, &mut args, debug, &body, surface::JANK_DEBUG_METADATA);
        if body.has(surface::LATCHED_FENCE_STATE) {
            let state = name_of(&FENCE_STATES, body.uint(surface::LATCHED_FENCE_STATE));
            args.text(store, "Latched fence state", state.unwrap_or("Unknown"));
        }
        if let Some(slice) = self.begin(cx, ts, ACTUAL, &start, &mut args) {
            if self.surfaces.len() >= MAX_KEYS {
                self.surfaces.clear();
            }
            let key = (cx.store.machine, shown_in);
            self.surfaces.entry(key).or_default().push(slice);
        }
        Some(())
    }

    fn end(&mut self, cx: &mut Context, ts: i64, body: &[u8]) -> Option<()> {
        let body = Message::<2>::read(body);
        body.has(frame_end::COOKIE).then_some(())?;
        let cookie = body.int(frame_end::COOKIE);
        match self.open.remove(&(cx.store.machine, cookie)) {
            Some(Open::Slice { group, track }) => {
                cx.lanes.end(group, cookie);
                let any = (StringId::NULL, StringId::NULL);
                let mut args = ArgSet::default();
                cx.slices.end(&mut cx.store, ts, track, any, &mut args);
            }
            Some(Open::Repeated) => {}
            None => {
                let stat = Stat::frame_timeline_unpaired_end_event;
                cx.store.stats.add(stat, 1);
            }
        }
        Some(())
    }

    /// Begins the slice of a frame. Returns its id.
    fn begin(
        &mut self,
        cx: &mut Context,
        ts: i64,
        (type_, label): (&'static str, &str),
        start: &Start,
        args: &mut ArgSet,
    ) -> Option<u32> {
        let dimensions = [Dimension::Upid(start.upid)];
        let group = cx.lanes.group(&cx.store, type_, &dimensions);
        let lane = cx.lanes.begin(group, start.cookie, Nesting::Nested);
        let track = cx.lanes.track(&mut cx.store, lane, |store| {
            let label = store.strings.intern(label);
            (
                TrackSpec::slices(type_, &[]).named(label),
                dimensions.to_vec(),
            )
        });
        let open = Open::Slice { group, track };
        self.keep(cx.store.machine, start.cookie, open);
        let start = SliceStart {
            ts,
            track,
            category: StringId::NULL,
            name: cx.store.strings.intern(&start.token.to_string()),
        };
        cx.slices.begin(&mut cx.store, start, args)
    }

    fn keep(&mut self, machine: u32, cookie: i64, open: Open) {
        if self.open.len() >= MAX_KEYS {
            // Their ends were lost.
            self.open.clear();
        }
        self.open.insert((machine, cookie), open);
    }
}

/// Reads the common fields of a start; `None` if one is missing.
fn start<const N: usize>(
    cx: &mut Context,
    body: &Message<'_, N>,
    numbers: &Numbers,
) -> Option<Start> {
    let needed = [numbers.cookie, numbers.token, numbers.pid];
    needed
        .iter()
        .all(|number| body.has(*number))
        .then_some(())?;
    let pid = body.u32(numbers.pid).into();
    Some(Start {
        cookie: body.int(numbers.cookie),
        token: body.int(numbers.token),
        upid: cx.processes.process(&mut cx.store, pid),
    })
}

/// The numbers of the fields that tell what became of a frame.
struct Outcome {
    present: u32,
    present_experimental: u32,
    on_time: u32,
    gpu: u32,
    jank: u32,
    jank_experimental: u32,
    severity: u32,
    score: u32,
    prediction: u32,
}

impl Outcome {
    /// Adds the arguments of these fields.
    fn put<const N: usize>(
        &self,
        store: &mut Store,
        args: &mut ArgSet,
        body: &Message<'_, N>,
        layer: Layer,
    ) {
        let present = known(store, body, self.present, &PRESENT_TYPES);
        let experimental = known(store, body, self.present_experimental, &PRESENT_TYPES);
        let (jank, jank_experimental) = (body.u32(self.jank), body.u32(self.jank_experimental));
        args.text(store, "Present type", present);
        args.text(store, "Present type (experimental)", experimental);
        args.int(store, "On time finish", body.int(self.on_time));
        args.int(store, "GPU composition", body.int(self.gpu));
        args.text(store, "Jank type", &jank::types(jank));
        let types = jank::types(jank_experimental);
        args.text(store, "Jank type (experimental)", &types);
        let severity = if body.has(self.severity) {
            body.uint(self.severity)
        } else {
            // Older traces lack the field.
            (jank == jank::NONE).into()
        };
        let severity = name_of(&SEVERITIES, severity);
        args.text(store, "Jank severity type", severity.unwrap_or("Unknown"));
        put_real(store, args, "Jank Severity Score", body, self.score);
        let prediction = known(store, body, self.prediction, &PREDICTION_TYPES);
        args.text(store, "Prediction type", prediction);
        let dropped = PRESENT_TYPES[4];
        args.text(
            store,
            "Jank tag",
            jank::tag(layer, jank, present == dropped),
        );
        let tag = jank::tag(layer, jank_experimental, experimental == dropped);
        args.text(store, "Jank tag (experimental)", tag);
    }
}

/// Returns the name of the value of an enumeration. A value without a name is an error.
fn known<const N: usize>(
    store: &mut Store,
    body: &Message<'_, N>,
    number: u32,
    names: &[&'static str],
) -> &'static str {
    if !body.has(number) {
        return names[0];
    }
    let name = name_of(names, body.uint(number)).filter(|name| *name != names[0]);
    if name.is_none() {
        let stat = Stat::frame_timeline_event_parser_errors;
        store.stats.add(stat, 1);
    }
    name.unwrap_or(names[0])
}

fn name_of(names: &[&'static str], value: u64) -> Option<&'static str> {
    names.get(usize::try_from(value).ok()?).copied()
}

fn put_real<const N: usize>(
    store: &mut Store,
    args: &mut ArgSet,
    key: &str,
    body: &Message<'_, N>,
    number: u32,
) {
    let value = f32::from_bits(body.u32(number));
    args.put(store, key, ArgValue::Real(value.into()));
}

fn put_layer<const N: usize>(
    store: &mut Store,
    args: &mut ArgSet,
    body: &Message<'_, N>,
    number: u32,
) {
    let name = if body.has(number) {
        store.strings.intern_bytes(body.bytes(number))
    } else {
        StringId::NULL
    };
    args.put(store, "Layer name", ArgValue::Text(name));
}
