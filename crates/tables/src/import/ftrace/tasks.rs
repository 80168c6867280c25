//! Threads: switches, wake-ups, creations, renames and ends.

use ferretto_proto::fields::{
    sched_blocked_reason_ftrace_event as blocked, sched_process_exit_ftrace_event as exit,
    sched_process_free_ftrace_event as free, sched_switch_ftrace_event as switch,
    sched_waking_ftrace_event as waking, task_newtask_ftrace_event as newtask,
    task_rename_ftrace_event as renamed,
};

use super::{Context, Ftrace, Head, machine, syscalls};
use crate::derived::{RawWake, Switch};
use crate::import::event::{CompactSwitch, CompactWaking};
use crate::import::message::Message;
use crate::schema::{ArgValue, TableId};
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::process::ThreadNameSource;
use crate::trackers::sched::Next;

impl Ftrace {
    /// Parses a `sched_switch`.
    pub(super) fn switch(&mut self, cx: &mut Context, head: &Head<'_>, body: &[u8]) {
        let body = Message::<8>::read(body);
        let tid = |field| i64::from(body.u32(field));
        let Some(ucpu) = cx.cpus.intern(&mut cx.store, head.cpu) else {
            return;
        };
        let next_comm = cx.store.strings.intern_bytes(body.bytes(switch::NEXT_COMM));
        let next = Next {
            utid: named(cx, tid(switch::NEXT_PID), next_comm),
            pid: tid(switch::NEXT_PID),
            prio: body.int(switch::NEXT_PRIO) as i32,
        };
        let prev_pid = tid(switch::PREV_PID);
        let named_prev = body.has(switch::PREV_PID).then_some(prev_pid);
        let prev_state = body.int(switch::PREV_STATE);
        let version = machine(&mut self.machines, cx.store.machine).kernel.version;
        let state = cx.sched.state(&mut cx.store, prev_state, version);
        let prev_comm = cx.store.strings.intern_bytes(body.bytes(switch::PREV_COMM));
        let prev = named(cx, prev_pid, prev_comm);
        let ends = cx
            .sched
            .ends(&mut cx.store, head.ts, ucpu, (named_prev, prev));
        let whole = Switch {
            ts: head.ts,
            ucpu,
            ends,
            is_raw: cx.store.wants(TableId::ftrace_event),
            prev,
            prev_prio: body.int(switch::PREV_PRIO) as i32,
            prev_comm,
            state: (prev_state, state),
            next: next.utid,
            next_prio: next.prio,
            next_comm,
        };
        cx.sched.switch(&mut cx.store, next.pid, &whole);
    }

    /// Parses a compact switch.
    pub(super) fn compact_switch(
        &mut self,
        cx: &mut Context,
        ts: i64,
        event: CompactSwitch,
        is_raw_only: bool,
    ) {
        let cpu = event.cpu.into();
        let Some(ucpu) = cx.cpus.intern(&mut cx.store, cpu) else {
            return;
        };
        let pid = i64::from(event.next_pid as u32);
        let next = Next {
            utid: named(cx, pid, event.next_comm),
            pid,
            prio: event.next_prio,
        };
        let Some(current) = cx.sched.current(ucpu) else {
            let stat = Stat::compact_sched_switch_skipped;
            cx.store.stats.add(stat, 1);
            cx.sched.set_current(&mut cx.store, ts, ucpu, next);
            return;
        };
        let version = machine(&mut self.machines, cx.store.machine).kernel.version;
        let prev_state = event.prev_state.into();
        let state = cx.sched.state(&mut cx.store, prev_state, version);
        let is_raw = cx.store.wants(TableId::ftrace_event);
        let whole = Switch {
            ts,
            ucpu,
            ends: true,
            is_raw,
            prev: current.utid,
            prev_prio: current.prio,
            // The thread may have been renamed since it was switched to.
            prev_comm: cx.store.tables.thread.name.get(current.utid),
            state: (prev_state, state),
            next: next.utid,
            next_prio: next.prio,
            next_comm: event.next_comm,
        };
        if is_raw_only {
            if is_raw {
                self.raw_switch(cx, cpu, current.pid, pid, &whole);
            }
            cx.sched.end(&mut cx.store, ts, ucpu, state);
            cx.sched.set_current(&mut cx.store, ts, ucpu, next);
            return;
        }
        cx.sched.switch(&mut cx.store, pid, &whole);
    }

    /// Parses a compact wake-up.
    pub(super) fn compact_waking(
        &mut self,
        cx: &mut Context,
        ts: i64,
        event: CompactWaking,
        is_raw_only: bool,
    ) {
        let cpu = event.cpu.into();
        let Some(ucpu) = cx.cpus.intern(&mut cx.store, cpu) else {
            return;
        };
        let Some(current) = cx.sched.current(ucpu) else {
            let stat = Stat::compact_sched_waking_skipped;
            cx.store.stats.add(stat, 1);
            return;
        };
        let pid = i64::from(event.pid as u32);
        let raw = RawWake {
            ucpu,
            target_cpu: event.target_cpu,
            prio: event.prio,
            common_flags: event.common_flags,
            comm: event.comm,
        };
        let is_raw = cx.store.wants(TableId::ftrace_event);
        if is_raw_only {
            if is_raw {
                self.raw_waking(cx, (ts, cpu), current.utid, pid, &raw);
            }
            return;
        }
        let utid = cx.processes.thread(&mut cx.store, pid);
        // Hard and soft interrupts.
        let is_interrupt = event.common_flags & 0x18 != 0;
        let raw = is_raw.then_some(raw);
        let threads = (utid, current.utid);
        cx.sched
            .wake(&mut cx.store, ts, threads, Some(is_interrupt), raw);
    }

    /// Adds a switch that only becomes a row of `ftrace_event`.
    #[cold]
    fn raw_switch(&mut self, cx: &mut Context, cpu: u32, prev: i64, next: i64, event: &Switch) {
        let args = self.args.scratch();
        args.put(&mut cx.store, "prev_comm", ArgValue::Text(event.prev_comm));
        args.int(&mut cx.store, "prev_pid", prev);
        args.int(&mut cx.store, "prev_prio", event.prev_prio.into());
        args.int(&mut cx.store, "prev_state", event.state.0);
        args.put(&mut cx.store, "next_comm", ArgValue::Text(event.next_comm));
        args.int(&mut cx.store, "next_pid", next);
        args.int(&mut cx.store, "next_prio", event.next_prio.into());
        let name = cx.store.strings.intern("sched_switch");
        self.push_raw_of(cx, (event.ts, cpu), event.prev, name, 0);
    }

    /// Adds a wake-up that only becomes a row of `ftrace_event`.
    #[cold]
    fn raw_waking(
        &mut self,
        cx: &mut Context,
        at: (i64, u32),
        waker: u32,
        pid: i64,
        event: &RawWake,
    ) {
        let args = self.args.scratch();
        args.put(&mut cx.store, "comm", ArgValue::Text(event.comm));
        args.int(&mut cx.store, "pid", pid);
        args.int(&mut cx.store, "prio", event.prio.into());
        args.int(&mut cx.store, "target_cpu", event.target_cpu.into());
        let name = cx.store.strings.intern("sched_waking");
        self.push_raw_of(cx, at, waker, name, event.common_flags.into());
    }
}

/// Returns a thread, and sets its name from the kernel.
#[inline]
fn named(cx: &mut Context, tid: i64, comm: StringId) -> u32 {
    let utid = cx.processes.thread(&mut cx.store, tid);
    let source = ThreadNameSource::Ftrace;
    cx.processes.name_thread(&mut cx.store, utid, comm, source);
    utid
}

/// Parses a `sched_waking`.
pub(super) fn waking(cx: &mut Context, head: &Head<'_>, body: &[u8]) {
    let body = Message::<6>::read(body);
    let comm = cx.store.strings.intern_bytes(body.bytes(waking::COMM));
    let utid = named(cx, body.u32(waking::PID).into(), comm);
    let waker = cx.processes.thread(&mut cx.store, head.tid);
    // Hard and soft interrupts.
    let is_interrupt = head.flags.map(|flags| flags & 0x18 != 0);
    cx.sched
        .wake(&mut cx.store, head.ts, (utid, waker), is_interrupt, None);
}

/// Parses a `sched_blocked_reason`.
pub(super) fn blocked_reason(cx: &mut Context, head: &Head<'_>, body: &[u8]) {
    let body = Message::<4>::read(body);
    let utid = cx
        .processes
        .thread(&mut cx.store, body.u32(blocked::PID).into());
    let function = head.known_symbol(cx, body.uint(blocked::CALLER));
    let io_wait = Some(body.uint(blocked::IO_WAIT) != 0);
    cx.sched.blocked(&mut cx.store, utid, io_wait, function);
}

/// Parses a `sched_process_free`.
pub(super) fn process_free(cx: &mut Context, head: &Head<'_>, body: &[u8]) {
    let body = Message::<4>::read(body);
    let tid = body.u32(free::PID).into();
    if let Some(utid) = cx.processes.find_thread(&cx.store, tid) {
        syscalls::end_all(cx, head.ts, utid);
    }
    cx.processes.end_thread(&mut cx.store, tid, head.ts);
}

/// Parses a `sched_process_exit`.
pub(super) fn process_exit(cx: &mut Context, head: &Head<'_>, body: &[u8]) {
    let body = Message::<5>::read(body);
    let tid = body.u32(exit::PID).into();
    if let Some(utid) = cx.processes.find_thread(&cx.store, tid) {
        syscalls::end_all(cx, head.ts, utid);
    }
}

/// The flag in `clone_flags` of a new thread in the process of its creator.
const CLONE_THREAD: u64 = 0x10000;

/// Parses a `task_newtask`.
pub(super) fn new_task(cx: &mut Context, head: &Head<'_>, body: &[u8]) {
    let body = Message::<5>::read(body);
    let tid = i64::from(body.u32(newtask::PID));
    if tid == 0 {
        // The idle task of another CPU.
        return;
    }
    let comm = cx.store.strings.intern_bytes(body.bytes(newtask::COMM));
    let store = &mut cx.store;
    let start = Some(head.ts);
    let source = ThreadNameSource::Ftrace;
    let (utid, creator) = if body.uint(newtask::CLONE_FLAGS) & CLONE_THREAD == 0 {
        let upid = cx
            .processes
            .new_process(store, tid, start, None, comm, source);
        let creator = cx.processes.thread(store, head.tid);
        let utid = cx.processes.thread(store, tid);
        cx.processes.set_creator(store, upid, creator);
        (utid, creator)
    } else {
        let creator = cx.processes.thread(store, head.tid);
        let utid = cx.processes.new_thread(store, tid, start);
        cx.processes.name_thread(store, utid, comm, source);
        cx.processes.join_threads(store, creator, utid);
        (utid, creator)
    };
    cx.sched.created(store, head.ts, utid, creator);
}

/// Parses a `task_rename`.
pub(super) fn rename(cx: &mut Context, body: &[u8]) {
    let body = Message::<5>::read(body);
    let comm = cx.store.strings.intern_bytes(body.bytes(renamed::NEWCOMM));
    let utid = cx
        .processes
        .thread(&mut cx.store, body.u32(renamed::PID).into());
    // A process tree names the first thread of a process after its program, and others as the
    // kernel does: then it is older than this.
    let is_first = cx.store.tables.thread.is_main_thread.get(utid) != Some(false);
    let source = if is_first {
        ThreadNameSource::Ftrace
    } else {
        ThreadNameSource::ProcessTree
    };
    cx.processes
        .name_thread_and_process(&mut cx.store, utid, comm, source);
}
