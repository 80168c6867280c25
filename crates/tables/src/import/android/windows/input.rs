//! Events of input devices, and their dispatch to windows: `AndroidInputEvent`.

use ferretto_format::clock;
use ferretto_proto::fields::android::{
    android_input_event as of, android_key_event as key, android_motion_event as motion,
    android_window_input_dispatch_event as dispatch,
};

use super::super::super::context::Context;
use super::part::Part;
use super::{Windows, encoded};
use crate::schema::{
    AndroidInputEventDispatchRow, AndroidKeyEventsRow, AndroidMotionEventsRow, TableId,
};
use crate::trackers::args::ArgSet;
use crate::trackers::clock::ClockId;

impl Windows {
    /// Reads an `AndroidInputEvent`.
    pub(super) fn input_event(&mut self, cx: &mut Context, ts: i64, part: Part<'_>) {
        let kinds = [
            of::DISPATCHER_MOTION_EVENT,
            of::DISPATCHER_MOTION_EVENT_REDACTED,
            of::DISPATCHER_KEY_EVENT,
            of::DISPATCHER_KEY_EVENT_REDACTED,
            of::DISPATCHER_WINDOW_DISPATCH_EVENT,
            of::DISPATCHER_WINDOW_DISPATCH_EVENT_REDACTED,
        ];
        let mut events = kinds
            .iter()
            .filter_map(|kind| Some((*kind, part.part(*kind)?)));
        match events.next() {
            Some((of::DISPATCHER_MOTION_EVENT | of::DISPATCHER_MOTION_EVENT_REDACTED, event)) => {
                self.motion(cx, ts, event);
            }
            Some((of::DISPATCHER_KEY_EVENT | of::DISPATCHER_KEY_EVENT_REDACTED, event)) => {
                self.key(cx, ts, event);
            }
            Some((_, event)) => self.dispatch(cx, event),
            None => {}
        }
    }

    fn motion(&mut self, cx: &mut Context, ts: i64, part: Part<'_>) {
        if !cx.store.wants(TableId::android_motion_events) {
            return;
        }
        let times = (motion::EVENT_TIME_NANOS, motion::DOWN_TIME_NANOS);
        let arg_set_id = self.event_args(cx, "AndroidMotionEvent", part, times);
        let row = AndroidMotionEventsRow {
            event_id: part.uint(motion::EVENT_ID).unwrap_or(0),
            ts,
            arg_set_id,
            base64_proto_id: encoded(cx, part),
            source: Some(part.uint(motion::SOURCE).unwrap_or(0)),
            action: Some(part.int(motion::ACTION).unwrap_or(0).into()),
            device_id: Some(part.int(motion::DEVICE_ID).unwrap_or(0).into()),
            display_id: Some(part.sint(motion::DISPLAY_ID)),
        };
        cx.store.tables.android_motion_events.push(row);
    }

    fn key(&mut self, cx: &mut Context, ts: i64, part: Part<'_>) {
        if !cx.store.wants(TableId::android_key_events) {
            return;
        }
        let times = (key::EVENT_TIME_NANOS, key::DOWN_TIME_NANOS);
        let arg_set_id = self.event_args(cx, "AndroidKeyEvent", part, times);
        let row = AndroidKeyEventsRow {
            event_id: part.uint(key::EVENT_ID).unwrap_or(0),
            ts,
            arg_set_id,
            base64_proto_id: encoded(cx, part),
            source: Some(part.uint(key::SOURCE).unwrap_or(0)),
            action: Some(part.int(key::ACTION).unwrap_or(0).into()),
            device_id: Some(part.int(key::DEVICE_ID).unwrap_or(0).into()),
            display_id: Some(part.sint(key::DISPLAY_ID)),
            key_code: Some(part.int(key::KEY_CODE).unwrap_or(0).into()),
        };
        cx.store.tables.android_key_events.push(row);
    }

    fn dispatch(&mut self, cx: &mut Context, part: Part<'_>) {
        if !cx.store.wants(TableId::android_input_event_dispatch) {
            return;
        }
        let row = AndroidInputEventDispatchRow {
            event_id: part.uint(dispatch::EVENT_ID).unwrap_or(0),
            arg_set_id: self
                .messages
                .args(cx, "AndroidWindowInputDispatchEvent", part),
            vsync_id: part.long(dispatch::VSYNC_ID).unwrap_or(0),
            window_id: part.int(dispatch::WINDOW_ID).unwrap_or(0),
            base64_proto_id: encoded(cx, part),
        };
        cx.store.tables.android_input_event_dispatch.push(row);
    }

    /// Returns the arguments of an event: its fields, and its times on the clock of the trace.
    fn event_args(
        &mut self,
        cx: &mut Context,
        name: &str,
        part: Part<'_>,
        (event, down): (u32, u32),
    ) -> Option<u32> {
        let mut args = ArgSet::default();
        self.messages.add(cx, name, part, &|_| true, &mut args);
        for (key, number) in [("kernel_time", event), ("down_time", down)] {
            let clock = ClockId::of_machine(cx.store.machine, clock::MONOTONIC);
            let time = part.long(number).unwrap_or(0);
            if let Ok(time) = cx.clocks.trace_time(clock, time) {
                args.int(&mut cx.store, key, time);
            }
        }
        args.finish(&mut cx.store)
    }
}
