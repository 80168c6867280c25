//! Threads: scheduled, woken, created, renamed, gone.

use ferretto_proto::fields::{
    sched_blocked_reason_ftrace_event as blocked, sched_process_free_ftrace_event as free,
    sched_switch_ftrace_event as switch, sched_waking_ftrace_event as waking,
    task_newtask_ftrace_event as newtask, task_rename_ftrace_event as renamed,
};

use super::{Context, Ftrace, Head, machine};
use crate::import::event::{CompactSwitch, CompactWaking};
use crate::import::message::Message;
use crate::schema::{ArgValue, TableId};
use crate::stats::Stat;
use crate::store::Store;
use crate::strings::StringId;
use crate::trackers::process::ThreadNameSource;
use crate::trackers::sched::Next;

/// Names of the events that are written here, and of their fields by number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names {
    sched_switch: StringId,
    switch: [StringId; 8],
    sched_waking: StringId,
    waking: [StringId; 6],
}

impl Names {
    fn new(store: &mut Store) -> Self {
        let mut intern = |name: &str| store.strings.intern(name);
        let mut switch = [StringId::NULL; 8];
        let fields = [
            "prev_comm",
            "prev_pid",
            "prev_prio",
            "prev_state",
            "next_comm",
        ];
        let fields = fields.into_iter().chain(["next_pid", "next_prio"]);
        for (place, name) in switch[1..].iter_mut().zip(fields) {
            *place = intern(name);
        }
        let mut waking = [StringId::NULL; 6];
        let fields = ["comm", "pid", "prio", "success", "target_cpu"];
        for (place, name) in waking[1..].iter_mut().zip(fields) {
            *place = intern(name);
        }
        Self {
            sched_switch: intern("sched_switch"),
            switch,
            sched_waking: intern("sched_waking"),
            waking,
        }
    }
}

/// A switch of which all is known.
#[derive(Debug, Clone, Copy)]
struct Switch {
    cpu: u32,
    prev_utid: u32,
    prev_pid: i64,
    prev_comm: StringId,
    prev_prio: i32,
    prev_state: i64,
    next_pid: i64,
    next_comm: StringId,
    next_prio: i32,
}

impl Ftrace {
    /// Reads a `sched_switch`.
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
        let prev_state = body.int(switch::PREV_STATE);
        let version = machine(&mut self.machines, cx.store.machine).kernel.version;
        let state = cx.sched.state(&mut cx.store, prev_state, version);
        match cx.sched.current(ucpu) {
            Some(current) if current.pid == prev_pid => {
                cx.sched.end(&mut cx.store, head.ts, ucpu, state);
            }
            Some(_) => cx.store.stats.add(Stat::mismatched_sched_switch_tids, 1),
            None => {}
        }
        let prev_comm = cx.store.strings.intern_bytes(body.bytes(switch::PREV_COMM));
        let prev = named(cx, prev_pid, prev_comm);
        let whole = Switch {
            cpu: head.cpu,
            prev_utid: prev,
            prev_pid,
            prev_comm,
            prev_prio: body.int(switch::PREV_PRIO) as i32,
            prev_state,
            next_pid: next.pid,
            next_comm,
            next_prio: next.prio,
        };
        self.raw_switch(cx, head.ts, &whole);
        let sched = &mut cx.sched;
        sched.begin(&mut cx.store, head.ts, ucpu, (prev, state), next);
    }

    /// Takes a switch of the compact form.
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
            cx.sched.set_current(ucpu, next);
            return;
        };
        let version = machine(&mut self.machines, cx.store.machine).kernel.version;
        let prev_state = event.prev_state.into();
        let state = cx.sched.state(&mut cx.store, prev_state, version);
        cx.sched.end(&mut cx.store, ts, ucpu, state);
        if cx.store.wants(TableId::ftrace_event) {
            let whole = Switch {
                cpu,
                prev_utid: current.utid,
                prev_pid: current.pid,
                // It may have been renamed since it was switched to.
                prev_comm: cx.store.tables.thread.name.get(current.utid),
                prev_prio: current.prio,
                prev_state,
                next_pid: pid,
                next_comm: event.next_comm,
                next_prio: event.next_prio,
            };
            self.raw_switch(cx, ts, &whole);
        }
        if is_raw_only {
            cx.sched.set_current(ucpu, next);
            return;
        }
        let sched = &mut cx.sched;
        sched.begin(&mut cx.store, ts, ucpu, (current.utid, state), next);
    }

    /// Takes a wake-up of the compact form.
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
        if cx.store.wants(TableId::ftrace_event) {
            let names = self.names(cx);
            let args = self.args.scratch();
            let key = |field: u32| names.waking[field as usize];
            let mut add = |field, value| args.add(key(field), key(field), value);
            add(waking::COMM, ArgValue::Text(event.comm));
            add(waking::PID, ArgValue::Int(pid));
            add(waking::PRIO, ArgValue::Int(event.prio.into()));
            add(waking::TARGET_CPU, ArgValue::Int(event.target_cpu.into()));
            let flags = event.common_flags.into();
            self.push_raw_of(cx, (ts, cpu), current.utid, names.sched_waking, flags);
        }
        if is_raw_only {
            return;
        }
        let utid = cx.processes.thread(&mut cx.store, pid);
        // Hard and soft interrupts.
        let is_interrupt = event.common_flags & 0x18 != 0;
        let sched = &mut cx.sched;
        sched.wake(&mut cx.store, ts, utid, current.utid, Some(is_interrupt));
    }

    /// Adds a switch to `ftrace_event`.
    fn raw_switch(&mut self, cx: &mut Context, ts: i64, event: &Switch) {
        if !cx.store.wants(TableId::ftrace_event) {
            return;
        }
        let names = self.names(cx);
        let args = self.args.scratch();
        let key = |field: u32| names.switch[field as usize];
        let mut add = |field, value| args.add(key(field), key(field), value);
        add(switch::PREV_COMM, ArgValue::Text(event.prev_comm));
        add(switch::PREV_PID, ArgValue::Int(event.prev_pid));
        add(switch::PREV_PRIO, ArgValue::Int(event.prev_prio.into()));
        add(switch::PREV_STATE, ArgValue::Int(event.prev_state));
        add(switch::NEXT_COMM, ArgValue::Text(event.next_comm));
        add(switch::NEXT_PID, ArgValue::Int(event.next_pid));
        add(switch::NEXT_PRIO, ArgValue::Int(event.next_prio.into()));
        let place = (ts, event.cpu);
        self.push_raw_of(cx, place, event.prev_utid, names.sched_switch, 0);
    }

    fn names(&mut self, cx: &mut Context) -> Names {
        *self.names.get_or_insert_with(|| Names::new(&mut cx.store))
    }
}

/// Returns a thread, and names it as the kernel does.
#[inline]
fn named(cx: &mut Context, tid: i64, comm: StringId) -> u32 {
    let utid = cx.processes.thread(&mut cx.store, tid);
    let source = ThreadNameSource::Ftrace;
    cx.processes.name_thread(&mut cx.store, utid, comm, source);
    utid
}

/// Reads a `sched_waking`.
pub(super) fn waking(cx: &mut Context, head: &Head<'_>, body: &[u8]) {
    let body = Message::<6>::read(body);
    let comm = cx.store.strings.intern_bytes(body.bytes(waking::COMM));
    let utid = named(cx, body.u32(waking::PID).into(), comm);
    let waker = cx.processes.thread(&mut cx.store, head.tid);
    cx.sched.wake(&mut cx.store, head.ts, utid, waker, None);
}

/// Reads a `sched_blocked_reason`.
pub(super) fn blocked_reason(cx: &mut Context, head: &Head<'_>, body: &[u8]) {
    let body = Message::<4>::read(body);
    let utid = cx
        .processes
        .thread(&mut cx.store, body.u32(blocked::PID).into());
    let function = head.known_symbol(cx, body.uint(blocked::CALLER));
    let io_wait = Some(body.uint(blocked::IO_WAIT) != 0);
    cx.sched.blocked(&mut cx.store, utid, io_wait, function);
}

/// Reads a `sched_process_free`.
pub(super) fn process_free(cx: &mut Context, head: &Head<'_>, body: &[u8]) {
    let body = Message::<4>::read(body);
    let tid = body.u32(free::PID).into();
    cx.processes.end_thread(&mut cx.store, tid, head.ts);
}

/// Set in `clone_flags` if the new task is a thread of the process of the task that creates it.
const CLONE_THREAD: u64 = 0x10000;

/// Reads a `task_newtask`.
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

/// Reads a `task_rename`.
pub(super) fn rename(cx: &mut Context, body: &[u8]) {
    let body = Message::<5>::read(body);
    let comm = cx.store.strings.intern_bytes(body.bytes(renamed::NEWCOMM));
    let utid = cx
        .processes
        .thread(&mut cx.store, body.u32(renamed::PID).into());
    let source = ThreadNameSource::Ftrace;
    cx.processes
        .name_thread_and_process(&mut cx.store, utid, comm, source);
}
