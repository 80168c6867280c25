//! Threads: switches and wake-ups.

use ferretto_proto::fields::{c_switch_etw_event as switch, ready_thread_etw_event as ready};
use ferretto_wire::zigzag_decode;

use super::{Context, Message, named};
use crate::derived::Switch;
use crate::stats::Stat;
use crate::strings::StringId;
use crate::trackers::process::ThreadNameSource;
use crate::trackers::sched::Next;

/// The number of a thread whose number was removed from the trace. Zero is the idle thread.
const ANONYMOUS: i64 = u32::MAX as i64;

const STATES: [&str; 8] = [
    "Initialized",
    "Ready",
    "Running",
    "Standby",
    "Terminated",
    "Waiting",
    "Transition",
    "DeferredReady",
];

/// The index of a state that has a reason.
const WAITING: i64 = 5;

const REASONS: [&str; 37] = [
    "Executive",
    "FreePage",
    "PageIn",
    "PoolAllocation",
    "DelayExecution",
    "Suspended",
    "UserRequest",
    "WrExecutive",
    "WrFreePage",
    "WrPageIn",
    "WrPoolAllocation",
    "WrDelayExecution",
    "WrSuspended",
    "WrUserRequest",
    "WrEventPair",
    "WrQueue",
    "WrLpcReceive",
    "WrLpcReply",
    "WrVirtualMemory",
    "WrPageOut",
    "WrRendezvous",
    "WrKeyedEvent",
    "WrTerminated",
    "WrProcessInSwap",
    "WrCpuRateControl",
    "WrCalloutStack",
    "WrKernel",
    "WrResource",
    "WrPushLock",
    "WrMutex",
    "WrQuantumEnd",
    "WrDispatchInt",
    "WrPreempted",
    "WrYieldExecution",
    "WrFastMutex",
    "WrGuardedMutex",
    "WrRundown",
];

/// Returns true if a wait for this reason is mostly one for input or output: `PageIn`, and the
/// alertable waits.
fn is_io(reason: u32) -> bool {
    matches!(reason, 2 | 7..=36)
}

/// Parses a `CSwitchEtwEvent`.
pub(super) fn switch(cx: &mut Context, ts: i64, cpu: u16, body: &[u8]) {
    let body = Message::<14>::read(body);
    let Some(ucpu) = cx.cpus.intern(&mut cx.store, cpu.into()) else {
        cx.store.stats.add(Stat::tokenizer_skipped_packets, 1);
        return;
    };
    let mut thread = |field| {
        let tid = if body.has(field) {
            i64::from(body.u32(field))
        } else {
            ANONYMOUS
        };
        let utid = cx.processes.thread(&mut cx.store, tid);
        if tid == ANONYMOUS {
            let name = cx.store.strings.intern("Anonymized Process");
            let source = ThreadNameSource::Ftrace;
            cx.processes.name_thread(&mut cx.store, utid, name, source);
        }
        (tid, utid)
    };
    let (pid, next) = thread(switch::NEW_THREAD_ID);
    let (prev_pid, prev) = thread(switch::OLD_THREAD_ID);
    let raw_state = if body.has(switch::OLD_THREAD_STATE) {
        body.int(switch::OLD_THREAD_STATE)
    } else {
        zigzag_decode(body.uint(switch::OLD_THREAD_STATE_INT))
    };
    let state = named(cx, &STATES, u32::try_from(raw_state).unwrap_or(u32::MAX));
    if state.is_null() {
        cx.store.stats.add(Stat::task_state_invalid, 1);
    }
    let prio = |field| zigzag_decode(body.uint(field)) as i32;
    let next = Next {
        utid: next,
        pid,
        prio: prio(switch::NEW_THREAD_PRIORITY),
    };
    let named_prev = (Some(prev_pid), prev);
    let ends = cx.sched.ends(&mut cx.store, ts, ucpu, named_prev);
    let whole = Switch {
        ts,
        ucpu,
        ends,
        is_raw: false,
        prev,
        prev_prio: prio(switch::OLD_THREAD_PRIORITY),
        prev_comm: StringId::NULL,
        state: (raw_state, state),
        next: next.utid,
        next_prio: next.prio,
        next_comm: StringId::NULL,
    };
    cx.sched.switch(&mut cx.store, pid, &whole);
    if raw_state == WAITING {
        let reason = if body.has(switch::OLD_THREAD_WAIT_REASON_INT) {
            body.u32(switch::OLD_THREAD_WAIT_REASON_INT)
        } else {
            body.u32(switch::OLD_THREAD_WAIT_REASON)
        };
        let name = named(cx, &REASONS, reason);
        let name = (!name.is_null()).then_some(name);
        let io_wait = Some(is_io(reason));
        cx.sched.blocked(&mut cx.store, prev, io_wait, name);
    }
}

/// Parses a `ReadyThreadEtwEvent`.
pub(super) fn ready(cx: &mut Context, ts: i64, tid: i64, body: &[u8]) {
    let body = Message::<7>::read(body);
    let woken = i64::from(body.u32(ready::T_THREAD_ID));
    let woken = cx.processes.thread(&mut cx.store, woken);
    let waker = cx.processes.thread(&mut cx.store, tid);
    let threads = (woken, waker);
    cx.sched.wake(&mut cx.store, ts, threads, None, None);
}
