//! Lines of `trace_marker`, in Android's format.

use ferretto_proto::fields::{
    dpu_tracing_mark_write_ftrace_event as dpu, ftrace_event as event,
    g2d_tracing_mark_write_ftrace_event as g2d, lwis_tracing_mark_write_ftrace_event as lwis,
    mali_tracing_mark_write_ftrace_event as mali, print_ftrace_event as field,
    samsung_tracing_mark_write_ftrace_event as samsung, sde_tracing_mark_write_ftrace_event as sde,
    tracing_mark_write_ftrace_event as mdss,
};

use super::{Context, Head, add_named};
use crate::import::message::Message;
use crate::schema::ArgValue;
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::lane::{LaneId, LaneTracker, Nesting};
use crate::trackers::slice::SliceStart;
use crate::trackers::track::{Dimension, TrackSpec};

/// A parsed line.
#[derive(Debug, PartialEq)]
pub(crate) enum Line<'a> {
    /// A slice of the thread begins.
    Begin { tgid: u32, name: &'a [u8] },
    /// A slice of the thread ends.
    End { tgid: u32 },
    /// An instant of the thread.
    Instant { tgid: u32, name: &'a [u8] },
    /// A slice of the process begins or ends.
    Async {
        tgid: u32,
        name: &'a [u8],
        cookie: i64,
        is_begin: bool,
    },
    /// A slice on a track of the process begins.
    TrackBegin {
        tgid: u32,
        track: &'a [u8],
        name: &'a [u8],
        cookie: i64,
    },
    /// A slice on a track of the process ends.
    TrackEnd {
        tgid: u32,
        track: &'a [u8],
        cookie: i64,
    },
    /// An instant on a track of the process.
    TrackInstant {
        tgid: u32,
        track: &'a [u8],
        name: &'a [u8],
    },
    /// A value of a counter of the process.
    Counter {
        tgid: u32,
        name: &'a [u8],
        value: i64,
    },
    /// A line that is ignored.
    Ignored,
}

impl<'a> Line<'a> {
    /// Parses a line. Returns `None` if it has another format.
    pub(crate) fn parse(text: &'a [u8]) -> Option<Self> {
        let length = text.iter().rposition(|c| !matches!(c, b'\n' | 0));
        let text = &text[..length.map_or(0, |last| last + 1)];
        if text.starts_with(b"trace_event_clock_sync:") {
            return Some(Self::Ignored);
        }
        let is_end = |c: &u8| matches!(c, b'|' | 0);
        let mut fields = text.split(is_end);
        let phase = *fields.next()?.first()?;
        let number = fields.next().unwrap_or_default();
        let tgid = digits::<u32>(number);
        if phase == b'E' {
            return Some(Self::End {
                tgid: tgid.unwrap_or(0),
            });
        }
        if phase == b'B' {
            let begin = text.iter().position(is_end).map_or(text.len(), |at| at + 1);
            let name = text.get(begin + number.len() + 1..).unwrap_or_default();
            let name = match name {
                b"" => b"[empty slice name]",
                name => name,
            };
            return Some(Self::Begin { tgid: tgid?, name });
        }
        let tgid = match phase {
            b'S' | b'F' | b'I' | b'N' | b'C' | b'G' | b'H' => tgid?,
            _ => return None,
        };
        let mut next = || fields.next().unwrap_or_default();
        let filled = |text: &'a [u8]| (!text.is_empty()).then_some(text);
        Some(match phase {
            b'I' => Self::Instant {
                tgid,
                name: filled(next())?,
            },
            b'C' => Self::Counter {
                tgid,
                name: filled(next())?,
                value: digits(next())?,
            },
            b'N' => Self::TrackInstant {
                tgid,
                track: filled(next())?,
                name: filled(next())?,
            },
            b'G' => Self::TrackBegin {
                tgid,
                track: filled(next())?,
                name: filled(next())?,
                cookie: digits(next())?,
            },
            b'H' => {
                let track = filled(next())?;
                let (third, fourth) = (next(), next());
                Self::TrackEnd {
                    tgid,
                    track,
                    cookie: digits(if fourth.is_empty() { third } else { fourth })?,
                }
            }
            phase => Self::Async {
                tgid,
                name: filled(next())?,
                cookie: digits(next())?,
                is_begin: phase == b'S',
            },
        })
    }
}

fn digits<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.trim_start().parse().ok()
}

/// Applies lines of all threads.
#[derive(Debug, Default)]
pub(crate) struct Print;

const ASYNC: &str = "atrace_async_slice";
const FOR_TRACK: &str = "atrace_async_slice_for_track";

impl Print {
    /// Parses a `print` event.
    pub(super) fn parse(&mut self, cx: &mut Context, head: &Head<'_>, body: &[u8]) {
        let body = Message::<3>::read(body);
        self.line(cx, head.ts, head.tid, body.bytes(field::BUF));
    }

    /// Applies a line of a thread.
    pub(crate) fn line(&mut self, cx: &mut Context, ts: i64, tid: i64, text: &[u8]) {
        match Line::parse(text) {
            Some(line) => take(cx, ts, tid, &line),
            None => cx.store.stats.add(Stat::systrace_parse_failure, 1),
        }
    }
}

/// The fields of an event of a driver that corresponds to a line.
#[derive(Default)]
struct DriverFields {
    tgid: u32,
    name: u32,
    /// The field with the phase as a letter.
    phase: Option<u32>,
    /// The field that is true for the begin of a slice.
    begins: Option<u32>,
    value: u32,
}

impl DriverFields {
    fn of(number: u32) -> Self {
        let with_phase = |tgid, name, phase, value| Self {
            tgid,
            name,
            phase: Some(phase),
            begins: None,
            value,
        };
        match number {
            event::SDE_TRACING_MARK_WRITE => Self {
                begins: Some(sde::TRACE_BEGIN),
                ..with_phase(sde::PID, sde::TRACE_NAME, sde::TRACE_TYPE, sde::VALUE)
            },
            event::SAMSUNG_TRACING_MARK_WRITE => with_phase(
                samsung::PID,
                samsung::TRACE_NAME,
                samsung::TRACE_TYPE,
                samsung::VALUE,
            ),
            event::DPU_TRACING_MARK_WRITE => with_phase(dpu::PID, dpu::NAME, dpu::TYPE, dpu::VALUE),
            event::G2D_TRACING_MARK_WRITE => with_phase(g2d::PID, g2d::NAME, g2d::TYPE, g2d::VALUE),
            event::MALI_TRACING_MARK_WRITE => {
                with_phase(mali::PID, mali::NAME, mali::TYPE, mali::VALUE)
            }
            event::LWIS_TRACING_MARK_WRITE => {
                with_phase(lwis::PID, lwis::FUNC_NAME, lwis::TYPE, lwis::VALUE)
            }
            _ => Self {
                tgid: mdss::PID,
                name: mdss::TRACE_NAME,
                begins: Some(mdss::TRACE_BEGIN),
                ..Self::default()
            },
        }
    }
}

/// Parses an event of a driver that corresponds to a line.
pub(super) fn of_driver(cx: &mut Context, head: &Head<'_>, number: u32, body: &[u8]) {
    let of = DriverFields::of(number);
    let body = Message::<7>::read(body);
    let has_phase = of.phase.is_some_and(|field| body.has(field));
    let phase = of.phase.map_or(0, |field| body.u32(field) as u8);
    let phase = match (phase, of.begins) {
        (0, Some(begins)) if body.has(begins) || has_phase => match body.uint(begins) {
            0 => b'E',
            _ => b'B',
        },
        (phase, _) => phase,
    };
    let tgid = match (number, phase) {
        // Some drivers name processes that do not contain the thread.
        (event::DPU_TRACING_MARK_WRITE, phase) if phase != b'C' => 0,
        _ => body.u32(of.tgid),
    };
    let name = body.bytes(of.name);
    let line = match phase {
        b'B' => Line::Begin { tgid, name },
        b'E' => Line::End { tgid },
        b'I' => Line::Instant { tgid, name },
        b'C' => Line::Counter {
            tgid,
            name,
            value: body.int(of.value),
        },
        _ => {
            cx.store.stats.add(Stat::systrace_parse_failure, 1);
            return;
        }
    };
    take(cx, head.ts, head.tid, &line);
}

fn take(cx: &mut Context, ts: i64, tid: i64, line: &Line<'_>) {
    let mut args = ArgSet::default();
    let text = |cx: &mut Context, text: &[u8]| cx.store.strings.intern_bytes(text);
    let start = |track, name| SliceStart {
        ts,
        track,
        category: StringId::NULL,
        name,
    };
    match *line {
        Line::Begin { tgid, name } => {
            let name = text(cx, name);
            let track = thread_track(cx, tid, tgid);
            cx.slices
                .begin(&mut cx.store, start(track, name), &mut args);
        }
        Line::End { tgid } => {
            if tgid == 0 && cx.processes.find_thread(&cx.store, tid).is_none() {
                return;
            }
            let track = thread_track(cx, tid, tgid);
            let any = (StringId::NULL, StringId::NULL);
            cx.slices.end(&mut cx.store, ts, track, any, &mut args);
        }
        Line::Instant { tgid, name } => {
            let name = text(cx, name);
            let track = thread_track(cx, tid, tgid);
            let start = start(track, name);
            cx.slices.complete(&mut cx.store, start, 0, &mut args);
        }
        Line::Async {
            tgid,
            name,
            cookie,
            is_begin,
        } => {
            let name = text(cx, name);
            let track = lane(cx, ASYNC, tgid, name, |lanes, group| {
                if is_begin {
                    lanes.begin(group, cookie, Nesting::Flat)
                } else {
                    lanes.end(group, cookie)
                }
            });
            let store = &mut cx.store;
            if is_begin {
                args.int(store, "cookie", cookie);
                cx.slices
                    .begin_unnestable(store, start(track, name), &mut args);
            } else {
                let any = (StringId::NULL, StringId::NULL);
                cx.slices.end(store, ts, track, any, &mut args);
            }
        }
        Line::TrackBegin {
            tgid,
            track,
            name,
            cookie,
        } => {
            let (track, name) = (text(cx, track), text(cx, name));
            let track = lane(cx, FOR_TRACK, tgid, track, |lanes, group| {
                lanes.begin(group, cookie, Nesting::Nested)
            });
            let utid = cx.processes.thread(&mut cx.store, tid);
            args.put(&mut cx.store, "utid", ArgValue::Uint(utid.into()));
            cx.slices
                .begin(&mut cx.store, start(track, name), &mut args);
        }
        Line::TrackEnd {
            tgid,
            track,
            cookie,
        } => {
            let track = text(cx, track);
            let track = lane(cx, FOR_TRACK, tgid, track, |lanes, group| {
                lanes.end(group, cookie)
            });
            let utid = cx.processes.thread(&mut cx.store, tid);
            args.put(&mut cx.store, "end_utid", ArgValue::Uint(utid.into()));
            let any = (StringId::NULL, StringId::NULL);
            cx.slices.end(&mut cx.store, ts, track, any, &mut args);
        }
        Line::TrackInstant { track, name, .. } if track == b"DeviceStateChanged" => {
            let state = text(cx, name);
            device_state(cx, ts, state);
        }
        Line::TrackInstant { tgid, track, name } => {
            let (track, name) = (text(cx, track), text(cx, name));
            let track = lane(cx, FOR_TRACK, tgid, track, |lanes, group| {
                lanes.scoped(group, ts, 0)
            });
            let utid = cx.processes.thread(&mut cx.store, tid);
            args.put(&mut cx.store, "utid", ArgValue::Uint(utid.into()));
            let start = start(track, name);
            cx.slices.complete(&mut cx.store, start, 0, &mut args);
        }
        Line::Counter { name, value, .. } if name == b"ScreenState" => {
            add_named(cx, ts, "screen_state", &[], "ScreenState", value as f64);
        }
        Line::Counter { name, value, .. } if name.starts_with(b"battery_stats.") => {
            let key = text(cx, name);
            let name = cx.store.strings.text(key).to_owned();
            let dimensions = [Dimension::Text("counter_key", key)];
            add_named(cx, ts, "battery_stats", &dimensions, &name, value as f64);
        }
        Line::Counter { tgid, name, value } => {
            let name = text(cx, name);
            let upid = cx.processes.process(&mut cx.store, tgid.into());
            let dimensions = [Dimension::Upid(upid), Dimension::Text("name", name)];
            let spec = TrackSpec::counter("atrace_counter", &dimensions).named(name);
            let track = cx.tracks.intern(&mut cx.store, spec);
            if let Some(utid) = cx.processes.find_thread(&cx.store, tid) {
                args.put(&mut cx.store, "utid", ArgValue::Uint(utid.into()));
            }
            cx.counters
                .add(&mut cx.store, ts, track, value as f64, &mut args);
        }
        Line::Ignored => {}
    }
}

/// Adds a state of the device, such as `OPENED`.
pub(crate) fn device_state(cx: &mut Context, ts: i64, name: StringId) {
    let track_name = cx.store.strings.intern("DeviceStateChanged");
    let spec = TrackSpec::slices("android_device_state", &[]).named(track_name);
    let start = SliceStart {
        ts,
        track: cx.tracks.intern(&mut cx.store, spec),
        category: StringId::NULL,
        name,
    };
    cx.slices
        .complete(&mut cx.store, start, 0, &mut ArgSet::default());
}

/// Returns the track of a thread of this process.
fn thread_track(cx: &mut Context, tid: i64, tgid: u32) -> u32 {
    let utid = match tgid {
        0 => cx.processes.thread(&mut cx.store, tid),
        tgid => cx
            .processes
            .thread_in_process(&mut cx.store, tid, tgid.into()),
    };
    cx.tracks.of_thread(&mut cx.store, utid)
}

/// Returns the track of a slice of the process, in the lane that `lane` takes in its group.
fn lane(
    cx: &mut Context,
    type_: &'static str,
    tgid: u32,
    name: StringId,
    lane: impl FnOnce(&mut LaneTracker, u32) -> LaneId,
) -> u32 {
    let upid = cx.processes.process(&mut cx.store, tgid.into());
    let dimensions = [Dimension::Upid(upid), Dimension::Text("name", name)];
    let group = cx.lanes.group(&cx.store, type_, &dimensions);
    let lane = lane(&mut cx.lanes, group);
    cx.lanes.track(&mut cx.store, lane, |_| {
        let spec = TrackSpec::slices(type_, &[]).named(name);
        (spec, dimensions.to_vec())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_forms_are_parsed() {
        let cases: [(&[u8], Option<Line<'_>>); 14] = [
            (
                b"B|1|a|b\n",
                Some(Line::Begin {
                    tgid: 1,
                    name: b"a|b",
                }),
            ),
            (
                b"B|1|",
                Some(Line::Begin {
                    tgid: 1,
                    name: b"[empty slice name]",
                }),
            ),
            (b"B|x|a", None),
            (b"E", Some(Line::End { tgid: 0 })),
            (b"E|12\0\n", Some(Line::End { tgid: 12 })),
            (
                b"I|1|now",
                Some(Line::Instant {
                    tgid: 1,
                    name: b"now",
                }),
            ),
            (
                b"C|1|x|-5|Blob",
                Some(Line::Counter {
                    tgid: 1,
                    name: b"x",
                    value: -5,
                }),
            ),
            (b"C|1|x|five", None),
            (
                b"G|1|track|name|9",
                Some(Line::TrackBegin {
                    tgid: 1,
                    track: b"track",
                    name: b"name",
                    cookie: 9,
                }),
            ),
            (
                b"H|1|track|9",
                Some(Line::TrackEnd {
                    tgid: 1,
                    track: b"track",
                    cookie: 9,
                }),
            ),
            (
                b"H|1|track|name|9",
                Some(Line::TrackEnd {
                    tgid: 1,
                    track: b"track",
                    cookie: 9,
                }),
            ),
            (b"trace_event_clock_sync: parent_ts=1", Some(Line::Ignored)),
            (b"hello", None),
            (b"\n", None),
        ];
        for (text, expected) in cases {
            assert_eq!(Line::parse(text), expected, "{}", text.escape_ascii());
        }
    }
}
