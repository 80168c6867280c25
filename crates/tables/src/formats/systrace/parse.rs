//! Parses kernel events as text, in the order of time.

use ferretto_foreign::systrace::{Event, Line, Task};

use crate::derived::Switch;
use crate::import::{Binder, Context, Print};
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::process::ThreadNameSource;
use crate::trackers::sched::Next;
use crate::trackers::track::{Dimension, TrackSpec};

/// The state of kernel events as text.
#[derive(Debug, Default)]
pub(in super::super) struct SystraceEvents {
    print: Print,
    binder: Binder,
}

impl SystraceEvents {
    /// Parses an event. Unknown events are ignored.
    pub(in super::super) fn parse(&mut self, cx: &mut Context, ts: i64, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let Some(line) = Line::parse(&text) else {
            return;
        };
        let utid = named(cx, line.tid.into(), line.comm);
        if let Some(pid) = line.pid {
            let (tid, pid) = (line.tid.into(), pid.into());
            cx.processes.thread_in_process(&mut cx.store, tid, pid);
        }
        match line.meaning() {
            Some(Event::Switch { prev, next }) => switch(cx, (ts, line.cpu), prev, next),
            Some(Event::Waking { comm, tid, .. }) => {
                let woken = named(cx, tid.into(), comm);
                cx.sched.wake(&mut cx.store, ts, (woken, utid), None, None);
            }
            Some(Event::Blocked {
                tid,
                io_wait,
                function,
            }) => {
                let utid = cx.processes.thread(&mut cx.store, tid.into());
                let function = function.map(|function| cx.store.strings.intern(function));
                cx.sched
                    .blocked(&mut cx.store, utid, Some(io_wait), function);
            }
            Some(Event::Print(text)) => {
                self.print.line(cx, ts, line.tid.into(), text.as_bytes());
            }
            Some(Event::Frequency { cpu, state }) => {
                cpu_counter(cx, ts, (cpu, state), "cpu_frequency", "cpufreq");
            }
            Some(Event::FrequencyLimits { cpu, min, max }) => {
                let limits = [
                    ("cpu_max_frequency_limit", "Max", max),
                    ("cpu_min_frequency_limit", "Min", min),
                ];
                for (type_, which, value) in limits {
                    if let Some(value) = value {
                        let name = format!("Cpu {cpu} {which} Freq Limit");
                        cpu_counter(cx, ts, (cpu, value), type_, &name);
                    }
                }
            }
            Some(Event::Idle { cpu, state }) => {
                cpu_counter(cx, ts, (cpu, state), "cpu_idle", "cpuidle");
            }
            Some(Event::Binder(event)) => self.binder.event(cx, ts, line.tid.into(), event),
            Some(Event::Other) => {}
            None => cx.store.stats.add(Stat::systrace_parse_failure, 1),
        }
    }
}

/// Returns the thread with this tid, and names it. The kernel writes `<...>` for unknown names.
fn named(cx: &mut Context, tid: i64, comm: &str) -> u32 {
    let utid = cx.processes.thread(&mut cx.store, tid);
    if comm != "<...>" && !comm.is_empty() {
        let name = cx.store.strings.intern(comm);
        let source = ThreadNameSource::Ftrace;
        cx.processes.name_thread(&mut cx.store, utid, name, source);
    }
    utid
}

fn switch(cx: &mut Context, (ts, cpu): (i64, u32), from: Task<'_>, to: Task<'_>) {
    let Some(ucpu) = cx.cpus.intern(&mut cx.store, cpu) else {
        return cx.store.stats.add(Stat::systrace_parse_failure, 1);
    };
    let prev = named(cx, from.tid.into(), from.comm);
    let next = Next {
        utid: named(cx, to.tid.into(), to.comm),
        pid: to.tid.into(),
        prio: to.prio,
    };
    let state = cx.store.strings.intern(&from.rest.replace('|', ""));
    let ends = cx
        .sched
        .ends(&mut cx.store, ts, ucpu, (Some(from.tid.into()), prev));
    let switch = Switch {
        ts,
        ucpu,
        ends,
        is_raw: false,
        prev,
        prev_prio: 0,
        prev_comm: StringId::NULL,
        state: (0, state),
        next: next.utid,
        next_prio: next.prio,
        next_comm: StringId::NULL,
    };
    cx.sched.switch(&mut cx.store, next.pid, &switch);
}

/// Adds a value of a counter of a CPU.
fn cpu_counter(
    cx: &mut Context,
    ts: i64,
    (cpu, value): (u32, u32),
    type_: &'static str,
    name: &str,
) {
    let dimensions = [Dimension::Cpu(cpu)];
    let name: StringId = cx.store.strings.intern(name);
    let spec = TrackSpec::counter(type_, &dimensions).named(name);
    let track = cx.tracks.intern(&mut cx.store, spec);
    let value = f64::from(value);
    cx.counters
        .add(&mut cx.store, ts, track, value, &mut ArgSet::default());
}
