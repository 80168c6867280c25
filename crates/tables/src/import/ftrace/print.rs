//! Lines of `trace_marker`, in the form that Android's programs write.

use ferretto_proto::fields::print_ftrace_event as field;

use super::{Context, Head};
use crate::import::message::Message;
use crate::schema::ArgValue;
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::lane::{LaneId, LaneTracker, Nesting};
use crate::trackers::slice::SliceStart;
use crate::trackers::track::{Dimension, TrackSpec};

/// A line that was understood.
#[derive(Debug, PartialEq)]
pub(crate) enum Line<'a> {
    /// A slice of the thread begins.
    Begin { tgid: u32, name: &'a [u8] },
    /// A slice of the thread ends.
    End { tgid: u32 },
    /// An instant of the thread.
    Instant { tgid: u32, name: &'a [u8] },
    /// A slice of the process begins, or ends.
    Async {
        tgid: u32,
        name: &'a [u8],
        cookie: i64,
        is_begin: bool,
    },
    /// A slice of a track of the process begins.
    TrackBegin {
        tgid: u32,
        track: &'a [u8],
        name: &'a [u8],
        cookie: i64,
    },
    /// A slice of a track of the process ends.
    TrackEnd {
        tgid: u32,
        track: &'a [u8],
        cookie: i64,
    },
    /// An instant of a track of the process.
    TrackInstant {
        tgid: u32,
        track: &'a [u8],
        name: &'a [u8],
    },
    /// A counter of the process.
    Counter {
        tgid: u32,
        name: &'a [u8],
        value: i64,
    },
    /// A line that is for others.
    Ignored,
}

impl<'a> Line<'a> {
    /// Reads a line; `None` if it is of another form.
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

/// Follows lines of all threads.
#[derive(Debug, Default)]
pub(crate) struct Print;

const ASYNC: &str = "atrace_async_slice";
const FOR_TRACK: &str = "atrace_async_slice_for_track";

impl Print {
    /// Reads a `print`.
    pub(super) fn parse(&mut self, cx: &mut Context, head: &Head<'_>, body: &[u8]) {
        let body = Message::<3>::read(body);
        self.line(cx, head.ts, head.tid, body.bytes(field::BUF));
    }

    /// Takes a line that a thread wrote.
    pub(crate) fn line(&mut self, cx: &mut Context, ts: i64, tid: i64, text: &[u8]) {
        match Line::parse(text) {
            Some(line) => take(cx, ts, tid, &line),
            None => cx.store.stats.add(Stat::systrace_parse_failure, 1),
        }
    }
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
            let track = lane(cx, ASYNC, tgid, name, |lanes, group| match is_begin {
                true => lanes.begin(group, cookie, Nesting::Flat),
                false => lanes.end(group, cookie),
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

/// Returns the track of what a thread of this process executes.
fn thread_track(cx: &mut Context, tid: i64, tgid: u32) -> u32 {
    let utid = match tgid {
        0 => cx.processes.thread(&mut cx.store, tid),
        tgid => cx
            .processes
            .thread_in_process(&mut cx.store, tid, tgid.into()),
    };
    cx.tracks.of_thread(&mut cx.store, utid)
}

/// Returns the track of a slice of the process: that of the lane that `lane` takes in its group.
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
    fn lines_of_all_forms() {
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
