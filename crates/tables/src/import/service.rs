//! Packets that the service writes.

use ferretto_format::clock::BOOTTIME;
use ferretto_format::sequence::PacketHeader;
use ferretto_proto::fields::trace_attributes::{self, attribute};
use ferretto_proto::fields::tracing_service_event::{self as service, data_sources};
use ferretto_wire::Fields;

use super::context::Context;
use super::sequence::Sequences;
use crate::schema::TraceBoundsRow;
use crate::stats::Stat;
use crate::trackers::clock::ClockId;
use crate::trackers::metadata::{Fact, FactScope};

/// Events that affect sorting.
#[derive(Debug, Default)]
pub(super) struct SortingEvents {
    /// Set if all data sources have flushed their data.
    pub(super) is_flushed: bool,
    pub(super) buffers_were_read: bool,
}

/// Reads a `TracingServiceEvent`.
pub(super) fn event(cx: &mut Context, header: &PacketHeader<'_>, bytes: &[u8]) -> SortingEvents {
    let mut events = SortingEvents::default();
    let time = header.timestamp.unwrap_or(0) as i64;
    let clock = header.clock.unwrap_or(BOOTTIME);
    let clock = ClockId::of_machine(cx.store.machine, clock);
    let trace = cx.clocks.trace_clock();
    let ts = cx.clocks.convert(clock, time, trace).unwrap_or(time);
    for field in Fields::new(bytes).map_while(Result::ok) {
        let is_set = field.as_bool().unwrap_or(false);
        let scope = FactScope::MachineAndTrace;
        let mut set = |name| {
            if is_set {
                cx.metadata.set(&mut cx.store, name, Fact::Int(ts), scope);
            }
        };
        match field.number {
            service::TRACING_STARTED => set("tracing_started_ns"),
            service::TRACING_DISABLED => set("tracing_disabled_ns"),
            service::ALL_DATA_SOURCES_STARTED => set("all_data_source_started_ns"),
            service::ALL_DATA_SOURCES_FLUSHED if is_set => {
                events.is_flushed = true;
                let name = "all_data_source_flushed_ns";
                cx.metadata.add(&mut cx.store, name, Fact::Int(ts), scope);
            }
            service::READ_TRACING_BUFFERS_COMPLETED => events.buffers_were_read |= is_set,
            service::SLOW_STARTING_DATA_SOURCES => {
                slow_sources(cx, field.as_bytes().unwrap_or_default());
            }
            service::CLONE_STARTED => {
                let stats = &mut cx.store.stats;
                stats.set(Stat::traced_clone_started_timestamp_ns, ts);
            }
            service::BUFFER_CLONED => {
                let buffer = field.as_i64().unwrap_or(0);
                let stat = Stat::traced_buf_clone_done_timestamp_ns;
                cx.store.stats.set_indexed(stat, buffer, ts);
            }
            _ => {}
        }
    }
    events
}

fn slow_sources(cx: &mut Context, bytes: &[u8]) {
    for field in Fields::new(bytes).map_while(Result::ok) {
        if field.number != data_sources::DATA_SOURCE {
            continue;
        }
        let text = |number| {
            let value = Fields::find(number, field.as_bytes().unwrap_or_default());
            let text = value.and_then(|value| value.as_str_lossy().map(|text| text.into_owned()));
            text.unwrap_or_default()
        };
        use data_sources::data_source::{DATA_SOURCE_NAME, PRODUCER_NAME};
        let text = format!("{} {}", text(PRODUCER_NAME), text(DATA_SOURCE_NAME));
        let fact = Fact::Text(cx.store.strings.intern(&text));
        let name = "slow_start_data_source";
        cx.metadata
            .add(&mut cx.store, name, fact, FactScope::MachineAndTrace);
    }
}

/// Reads a `TraceAttributes`.
pub(super) fn attributes(cx: &mut Context, bytes: &[u8]) {
    for field in Fields::new(bytes).map_while(Result::ok) {
        if field.number != trace_attributes::ATTRIBUTE {
            continue;
        }
        let (mut key, mut fact) = (None, None);
        let parts = field.as_message().into_iter().flatten();
        for part in parts.map_while(Result::ok) {
            match part.number {
                attribute::KEY => key = part.as_str_lossy(),
                attribute::LONG_VALUE => fact = part.as_i64().map(Fact::Int),
                attribute::STRING_VALUE => {
                    let text = part.as_bytes().unwrap_or_default();
                    fact = Some(Fact::Text(cx.store.strings.intern_bytes(text)));
                }
                _ => {}
            }
        }
        if let (Some(key), Some(fact)) = (key, fact) {
            let name = format!("trace_attribute.{key}");
            cx.metadata
                .set(&mut cx.store, &name, fact, FactScope::Trace);
        }
    }
}

/// Computes the bounds after all events were parsed.
pub(super) fn finish(cx: &mut Context, _sequences: &Sequences) {
    let (start_ts, end_ts) = match bounds(cx) {
        None => (0, 0),
        // Upstream's end is never before 0.
        Some((start, end)) => (start, end.max(start.saturating_add(1)).max(0)),
    };
    let row = TraceBoundsRow { start_ts, end_ts };
    cx.store.tables.trace_bounds.push(row);
}

/// Returns the first and the last time of all events.
fn bounds(cx: &Context) -> Option<(i64, i64)> {
    let tables = &cx.store.tables;
    let mut bounds = cx.store.sched.bounds();
    let mut note = |times: &[i64], durations: &[i64]| {
        for (row, ts) in times.iter().enumerate() {
            let dur = durations.get(row).copied().unwrap_or(0).max(0);
            let end = ts.saturating_add(dur);
            let (start, last) = bounds.unwrap_or((*ts, end));
            bounds = Some((start.min(*ts), last.max(end)));
        }
    };
    note(tables.ftrace_event.rows.ts.as_slice(), &[]);
    note(
        tables.sched_slice.rows.ts.as_slice(),
        tables.sched_slice.rows.dur.as_slice(),
    );
    note(tables.counter.ts.as_slice(), &[]);
    note(tables.slice.ts.as_slice(), tables.slice.dur.as_slice());
    note(tables.heap_profile_allocation.ts.as_slice(), &[]);
    note(tables.heap_graph.ts.as_slice(), &[]);
    note(tables.profiler_smaps.ts.as_slice(), &[]);
    note(
        tables.thread_state.rows.ts.as_slice(),
        tables.thread_state.rows.dur.as_slice(),
    );
    note(tables.logs.ts.as_slice(), &[]);
    note(tables.state.ts.as_slice(), tables.state.dur.as_slice());
    note(tables.profiler_sample.ts.as_slice(), &[]);
    bounds
}
