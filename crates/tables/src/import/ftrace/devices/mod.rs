//! Events of drivers of devices: virtual graphics and video, cameras, sensors, wake-up sources.

mod video;
mod virtio;

use ferretto_proto::fields::{
    cros_ec_sensorhub_data_ftrace_event as sensor, ftrace_event as event,
    suspend_resume_minimal_ftrace_event as suspend, wakeup_source_activate_ftrace_event as wake,
};
use rustc_hash::FxHashMap;

use self::video::Buffers;
use self::virtio::Virtio;
use super::{Context, Head};
use crate::import::message::Message;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::slice::SliceStart;
use crate::trackers::track::{Dimension, TrackSpec};

/// The maximum number of wake-up sources, and of other objects in use.
const MAX_KEYS: usize = 1 << 14;

/// The objects of devices that are in use.
#[derive(Debug, Default)]
pub(super) struct Devices {
    /// The activations of each wake-up source that have not ended.
    active: FxHashMap<StringId, u32>,
    virtio: Virtio,
    buffers: Buffers,
}

impl Devices {
    /// Parses an event.
    pub(super) fn parse(&mut self, cx: &mut Context, head: &Head<'_>, number: u32, body: &[u8]) {
        match number {
            event::WAKEUP_SOURCE_ACTIVATE => self.wake(cx, head.ts, body, true),
            event::WAKEUP_SOURCE_DEACTIVATE => self.wake(cx, head.ts, body, false),
            event::SUSPEND_RESUME_MINIMAL => suspend(cx, head.ts, body),
            event::CROS_EC_SENSORHUB_DATA => sensor(cx, head.ts, body),
            event::V4L2_QBUF
            | event::V4L2_DQBUF
            | event::VB2_V4L2_BUF_QUEUE
            | event::VB2_V4L2_BUF_DONE
            | event::VB2_V4L2_QBUF
            | event::VB2_V4L2_DQBUF => self.buffers.parse(cx, head, number, body),
            _ => self.virtio.parse(cx, head.ts, number, body),
        }
    }

    /// Begins or ends a wake-up source, which may be active several times.
    fn wake(&mut self, cx: &mut Context, ts: i64, body: &[u8], is_active: bool) {
        let source = cx
            .store
            .strings
            .intern_bytes(Message::<2>::read(body).bytes(wake::NAME));
        if self.active.len() >= MAX_KEYS && !self.active.contains_key(&source) {
            return;
        }
        let count = self.active.entry(source).or_default();
        let before = *count;
        *count = if is_active {
            before.saturating_add(1)
        } else {
            before.saturating_sub(1)
        };
        let is_change = before == u32::from(!is_active);
        if !is_change {
            return;
        }
        let name = format!("Wakelock({})", cx.store.strings.text(source));
        let name = cx.store.strings.intern(&name);
        let dimensions = [Dimension::Text("wakelock_event", source)];
        let spec = TrackSpec::slices("wakesource_wakelock", &dimensions).named(name);
        begin_or_end(cx, ts, spec, name, is_active);
    }
}

fn suspend(cx: &mut Context, ts: i64, body: &[u8]) {
    let label = cx.store.strings.intern("Suspend/Resume Minimal");
    let spec = TrackSpec::slices("suspend_resume_minimal", &[]).named(label);
    let name = cx.store.strings.intern("Suspended");
    let is_begin = Message::<2>::read(body).uint(suspend::START) != 0;
    begin_or_end(cx, ts, spec, name, is_begin);
}

fn begin_or_end(cx: &mut Context, ts: i64, spec: TrackSpec<'_>, name: StringId, is_begin: bool) {
    let track = cx.tracks.intern(&mut cx.store, spec);
    let mut args = ArgSet::default();
    if is_begin {
        let start = SliceStart {
            ts,
            track,
            category: StringId::NULL,
            name,
        };
        cx.slices.begin(&mut cx.store, start, &mut args);
    } else {
        let any = (StringId::NULL, StringId::NULL);
        cx.slices.end(&mut cx.store, ts, track, any, &mut args);
    }
}

/// Adds the delay of a value of a sensor of the embedded controller.
fn sensor(cx: &mut Context, ts: i64, body: &[u8]) {
    let body = Message::<7>::read(body);
    let number = body.u32(sensor::EC_SENSOR_NUM);
    let sampled = body.int(sensor::CURRENT_TIMESTAMP);
    let name = format!("cros_ec.cros_ec_sensorhub_data.{number}");
    let name = cx.store.strings.intern(&name);
    let dimensions = [Dimension::Int("ec_sensor_num", number.into())];
    let spec = TrackSpec::counter("cros_ec_sensorhub_data", &dimensions).named(name);
    let track = cx.tracks.intern(&mut cx.store, spec);
    let mut args = ArgSet::default();
    let store = &mut cx.store;
    args.int(store, "ec_num", number.into());
    let delta = body.int(sensor::FIFO_TIMESTAMP).wrapping_sub(sampled);
    args.int(store, "ec_delta", delta);
    args.int(store, "sample_ts", sampled);
    let delay = body.int(sensor::CURRENT_TIME).wrapping_sub(sampled);
    cx.counters.add(store, ts, track, delay as f64, &mut args);
}
