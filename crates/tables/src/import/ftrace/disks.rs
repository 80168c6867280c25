//! Requests to disks: a slice for each, on the tracks of its disk.
//!
//! Requests overlap, so each takes a free track of its disk. It is identified by its sector.

use ferretto_format::disk::{DISK_ATTRIBUTE, RequestEvents, disk_numbers, request_direction};
use ferretto_proto::fields::{
    block_io_start_ftrace_event as start, block_rq_issue_ftrace_event as issue,
    ftrace_event as event,
};
use rustc_hash::FxHashMap;

use super::{Context, Head};
use crate::import::message::Message;
use crate::options::Options;
use crate::schema::ArgValue;
use crate::store::DiskRequest;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::lane::Nesting;
use crate::trackers::metadata::Fact;
use crate::trackers::slice::SliceStart;
use crate::trackers::track::{Dimension, TrackSpec};

/// The type of the tracks of disks.
const BLOCK_IO: &str = "block_io";

/// The maximum number of open requests. For more, the oldest are ended without a duration: the ends
/// of merged requests and of lost events never come.
const MAX_OPEN: usize = 1 << 10;

/// The maximum number of requests that are kept beside the slices.
const MAX_REQUESTS: usize = 1 << 20;

/// The requests to disks.
#[derive(Debug, Default)]
pub(super) struct Disks {
    /// The events that count. Those of drivers do if the trace has them.
    events: Option<RequestEvents>,
    /// True if the trace continues, so that ends may follow.
    continues: bool,
    /// The names of disks by machine and device.
    names: FxHashMap<(u32, u64), StringId>,
    /// The open requests by machine, device and sector.
    open: FxHashMap<(u32, u64, u64), Open>,
}

/// An open request.
#[derive(Debug, Clone, Copy)]
struct Open {
    request: DiskRequest,
    track: u32,
    group: u32,
}

impl Disks {
    /// Sets what is known of the whole trace if this is a part of it.
    pub(super) fn begin_part(&mut self, options: &Options) {
        self.events = options.request_events;
        self.continues = options.is_part;
    }

    fn events(&self) -> RequestEvents {
        self.events.unwrap_or(RequestEvents::Accounting)
    }

    /// Notes a kind of event that is parsed later.
    #[inline]
    pub(super) fn announce(&mut self, kind: u32) {
        if kind == event::BLOCK_RQ_ISSUE && self.events.is_none() {
            self.events = Some(RequestEvents::Driver);
        }
    }

    /// Parses an event of a request.
    pub(super) fn parse(&mut self, cx: &mut Context, head: &Head<'_>, kind: u32, body: &[u8]) {
        let events = match kind {
            event::BLOCK_IO_START | event::BLOCK_IO_DONE => RequestEvents::Accounting,
            _ => RequestEvents::Driver,
        };
        if self.events() != events {
            return;
        }
        let body = Message::<8>::read(body);
        let (device, sector) = (body.uint(issue::DEV), body.uint(issue::SECTOR));
        let key = (cx.store.machine, device, sector);
        if let Some(open) = self.open.remove(&key) {
            // Begun again: the end of the first one is unknown.
            let is_end = !matches!(kind, event::BLOCK_RQ_ISSUE | event::BLOCK_IO_START);
            let end = if is_end { head.ts } else { open.request.ts };
            close(cx, (open, sector), end);
        }
        let rwbs = match kind {
            event::BLOCK_RQ_ISSUE => issue::RWBS,
            event::BLOCK_IO_START => start::RWBS,
            _ => return,
        };
        if self.open.len() >= MAX_OPEN {
            self.drop_oldest(cx);
        }
        let disk = self.name(cx, device);
        let dimensions = [Dimension::Int("block_device", device.cast_signed())];
        let group = cx.lanes.group(&cx.store, BLOCK_IO, &dimensions);
        let lane = cx.lanes.begin(group, sector.cast_signed(), Nesting::Flat);
        let track = cx.lanes.track(&mut cx.store, lane, |_| {
            let spec = TrackSpec::slices(BLOCK_IO, &[]).named(disk);
            (spec, dimensions.to_vec())
        });
        let direction = request_direction(body.bytes(rwbs));
        let name = format!("{} {direction}", cx.store.strings.text(disk));
        let start = SliceStart {
            ts: head.ts,
            track,
            category: StringId::NULL,
            name: cx.store.strings.intern(&name),
        };
        let request = DiskRequest {
            ts: head.ts,
            dur: 0,
            thread: cx.processes.find_thread(&cx.store, head.tid),
            name: start.name,
            bytes: body.uint(issue::BYTES),
        };
        let mut args = ArgSet::default();
        let store = &mut cx.store;
        args.put(store, "sector", ArgValue::Uint(sector));
        args.put(store, "bytes", ArgValue::Uint(request.bytes));
        let rwbs = store.strings.intern_bytes(body.bytes(rwbs));
        args.put(store, "rwbs", ArgValue::Text(rwbs));
        if cx.slices.begin(store, start, &mut args).is_some() {
            let open = Open {
                request,
                track,
                group,
            };
            self.open.insert(key, open);
        }
    }

    /// Ends the older half of the open requests.
    fn drop_oldest(&mut self, cx: &mut Context) {
        let mut all: Vec<_> = self
            .open
            .iter()
            .map(|(key, open)| (open.request.ts, *key))
            .collect();
        all.sort_unstable();
        for (ts, key) in all.drain(..all.len() / 2) {
            if let Some(open) = self.open.remove(&key) {
                close(cx, (open, key.2), ts);
            }
        }
    }

    /// Returns the name of a disk, or its numbers.
    fn name(&mut self, cx: &mut Context, device: u64) -> StringId {
        let key = (cx.store.machine, device);
        if let Some(name) = self.names.get(&key) {
            return *name;
        }
        let numbers = disk_numbers(device);
        let attribute = format!("trace_attribute.{DISK_ATTRIBUTE}{numbers}");
        let name = match cx.metadata.get(&cx.store, &attribute) {
            Some(Fact::Text(name)) => name,
            _ => cx.store.strings.intern(&numbers),
        };
        if self.names.len() < MAX_OPEN {
            self.names.insert(key, name);
        }
        name
    }

    /// Ends the requests of which the trace has no end. Those that a driver has stay open.
    pub(super) fn finish(&mut self, cx: &mut Context) {
        if self.continues || self.events() == RequestEvents::Driver {
            return;
        }
        for ((_, _, sector), open) in self.open.drain() {
            close(cx, (open, sector), open.request.ts);
        }
    }
}

/// Ends the slice of a request.
fn close(cx: &mut Context, (open, sector): (Open, u64), end: i64) {
    cx.lanes.end(open.group, sector.cast_signed());
    if cx.store.disk_requests.len() < MAX_REQUESTS {
        let dur = end.saturating_sub(open.request.ts);
        cx.store.disk_requests.push(DiskRequest {
            dur,
            ..open.request
        });
    }
    let any = (StringId::NULL, StringId::NULL);
    let mut args = ArgSet::default();
    cx.slices
        .end(&mut cx.store, end, open.track, any, &mut args);
}
