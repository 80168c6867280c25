//! Parses kernel events as text, in the order of time.

use super::line::{Line, Task};
use crate::derived::Switch;
use crate::import::{Context, Print};
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
        let is_read = match line.event {
            "sched_switch" => switch(cx, ts, &line),
            "sched_waking" => waking(cx, ts, &line, utid),
            "sched_blocked_reason" => blocked(cx, &line),
            "tracing_mark_write" | "print" | "0" => {
                // `trace-cmd report` names the kernel function that wrote the text.
                let text = line.text.strip_prefix("tracing_mark_write: ");
                let text = text.unwrap_or(line.text).as_bytes();
                self.print.line(cx, ts, line.tid.into(), text);
                Some(())
            }
            "cpu_frequency" => cpu_counter(cx, ts, &line, "cpu_frequency", "cpufreq"),
            "cpu_frequency_limits" => frequency_limits(cx, ts, &line),
            "cpu_idle" => cpu_counter(cx, ts, &line, "cpu_idle", "cpuidle"),
            _ => Some(()),
        };
        if is_read.is_none() {
            cx.store.stats.add(Stat::systrace_parse_failure, 1);
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

fn switch(cx: &mut Context, ts: i64, line: &Line<'_>) -> Option<()> {
    let (from, to) = switched(line)?;
    let (prev_pid, next_pid, prio) = (from.tid, to.tid, to.prio);
    let state = from.rest;
    let ucpu = cx.cpus.intern(&mut cx.store, line.cpu)?;
    let prev = named(cx, prev_pid.into(), from.comm);
    let next = Next {
        utid: named(cx, next_pid.into(), to.comm),
        pid: next_pid.into(),
        prio,
    };
    // Letters of several states are separated by bars.
    let state = cx.store.strings.intern(&state.replace('|', ""));
    let current = cx.sched.current(ucpu);
    let ends = current.is_some_and(|current| current.pid == i64::from(prev_pid));
    if current.is_some() && !ends {
        cx.store.stats.add(Stat::mismatched_sched_switch_tids, 1);
    }
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
    Some(())
}

/// Returns the threads of a switch, the previous one with its state.
fn switched<'a>(line: &Line<'a>) -> Option<(Task<'a>, Task<'a>)> {
    let Some(tid) = line.number("prev_pid") else {
        let (from, to) = line.text.split_once(" ==> ")?;
        return Some((Task::parse(from)?, Task::parse(to)?));
    };
    let from = Task {
        comm: line.name("prev_comm=", " prev_pid=").unwrap_or_default(),
        tid,
        prio: line.number("prev_prio").unwrap_or(0),
        rest: line.arg("prev_state").unwrap_or_default(),
    };
    let to = Task {
        comm: line.name("next_comm=", " next_pid=").unwrap_or_default(),
        tid: line.number("next_pid")?,
        prio: line.number("next_prio")?,
        rest: "",
    };
    Some((from, to))
}

fn waking(cx: &mut Context, ts: i64, line: &Line<'_>, waker: u32) -> Option<()> {
    let (tid, comm) = match line.number("pid") {
        Some(tid) => (tid, line.name("comm=", " pid=").unwrap_or_default()),
        None => Task::parse(line.text).map(|task| (task.tid, task.comm))?,
    };
    let utid = named(cx, tid.into(), comm);
    cx.sched.wake(&mut cx.store, ts, (utid, waker), None, None);
    Some(())
}

fn blocked(cx: &mut Context, line: &Line<'_>) -> Option<()> {
    let tid: u32 = line.number("pid")?;
    let io_wait: i64 = line.number("iowait")?;
    let utid = cx.processes.thread(&mut cx.store, tid.into());
    let function = line
        .arg("caller")
        .map(|caller| cx.store.strings.intern(caller));
    cx.sched
        .blocked(&mut cx.store, utid, Some(io_wait != 0), function);
    Some(())
}

fn frequency_limits(cx: &mut Context, ts: i64, line: &Line<'_>) -> Option<()> {
    let cpu: u32 = line.number("cpu_id")?;
    let limits = [
        ("cpu_max_frequency_limit", "Max", ["max", "max_freq"]),
        ("cpu_min_frequency_limit", "Min", ["min", "min_freq"]),
    ];
    let mut has_any = None;
    for (type_, which, keys) in limits {
        let value: Option<f64> = keys.into_iter().find_map(|key| line.number(key));
        let Some(value) = value else { continue };
        has_any = Some(());
        let name = format!("Cpu {cpu} {which} Freq Limit");
        let name = cx.store.strings.intern(&name);
        let dimensions = [Dimension::Cpu(cpu)];
        let spec = TrackSpec::counter(type_, &dimensions).named(name);
        let track = cx.tracks.intern(&mut cx.store, spec);
        cx.counters
            .add(&mut cx.store, ts, track, value, &mut ArgSet::default());
    }
    has_any
}

fn cpu_counter(
    cx: &mut Context,
    ts: i64,
    line: &Line<'_>,
    type_: &'static str,
    name: &str,
) -> Option<()> {
    let dimensions = [Dimension::Cpu(line.number("cpu_id")?)];
    let value = line.number("state")?;
    let name: StringId = cx.store.strings.intern(name);
    let spec = TrackSpec::counter(type_, &dimensions).named(name);
    let track = cx.tracks.intern(&mut cx.store, spec);
    cx.counters
        .add(&mut cx.store, ts, track, value, &mut ArgSet::default());
    Some(())
}
