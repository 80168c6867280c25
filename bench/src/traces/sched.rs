//! Traces of scheduling events on eight CPUs, with system calls if wanted.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use ferretto_proto::fields::ftrace_event_bundle::{self as bundle, compact_sched};
use ferretto_proto::fields::{
    ftrace_event, sys_enter_ftrace_event, sys_exit_ftrace_event, trace_packet,
};
use ferretto_wire::{Encoder, encode_varint};

use super::{BEGIN, Numbers, Packet, Trace, write_processes};

const CPUS: usize = 8;
const FIRST: u64 = 1000;
const PROCESSES: u64 = 100;
const THREADS: u64 = 8;
/// The number of events of one kind in a bundle.
const EVENTS: u32 = 500;
/// The bytes of system calls in a bundle.
const CALLS: usize = 8 << 10;

/// The events of a CPU since its last bundle, packed.
#[derive(Default)]
struct Recorded {
    names: Names,
    switches: Column<5>,
    wakings: Column<6>,
    /// The system calls, as fields of the bundle.
    calls: Vec<u8>,
}

/// Columns of packed numbers; the first one contains times as deltas.
struct Column<const N: usize> {
    packed: [Vec<u8>; N],
    count: u32,
    last: u64,
}

impl<const N: usize> Default for Column<N> {
    fn default() -> Self {
        Self {
            packed: [(); N].map(|()| Vec::new()),
            count: 0,
            last: 0,
        }
    }
}

impl<const N: usize> Column<N> {
    fn push(&mut self, row: [u64; N]) {
        for (index, (packed, value)) in self.packed.iter_mut().zip(row).enumerate() {
            let value = if index == 0 { value - self.last } else { value };
            let mut bytes = [0; 10];
            let length = encode_varint(value, &mut bytes);
            packed.extend_from_slice(&bytes[..length]);
        }
        self.last = row[0];
        self.count += 1;
    }
}

/// The table of names of a bundle.
#[derive(Default)]
struct Names(Vec<u64>);

impl Names {
    fn index_of(&mut self, tid: u64) -> u64 {
        let found = self.0.iter().position(|name| *name == tid);
        let index = found.unwrap_or_else(|| {
            self.0.push(tid);
            self.0.len() - 1
        });
        index as u64
    }
}

/// The calls in which threads sleep: `read`, `futex`, `epoll_wait`. `write` wakes one.
const SLEEPING: [u64; 3] = [0, 202, 232];
const WRITE: u64 = 1;

/// The system calls of threads.
#[derive(Default)]
pub(super) struct Calls {
    /// The call of each thread that is in one.
    open: BTreeMap<u64, u64>,
}

impl Calls {
    fn enter(&mut self, out: &mut Vec<u8>, now: u64, tid: u64, call: u64) {
        self.open.insert(tid, call);
        write_event(out, now, tid, |event| {
            event.nested(ftrace_event::SYS_ENTER, |enter| {
                enter.varint(sys_enter_ftrace_event::ID, call);
                for argument in [tid, 0x7f00_0000_0000 + 64 * (tid % 100), 128, 0, 0, 0] {
                    enter.varint(sys_enter_ftrace_event::ARGS, argument);
                }
            });
        });
    }

    fn exit(&mut self, out: &mut Vec<u8>, now: u64, tid: u64) {
        let Some(call) = self.open.remove(&tid) else {
            return;
        };
        write_event(out, now, tid, |event| {
            event.nested(ftrace_event::SYS_EXIT, |exit| {
                exit.varint(sys_exit_ftrace_event::ID, call);
                exit.varint(sys_exit_ftrace_event::RET, 128);
            });
        });
    }
}

fn write_event(out: &mut Vec<u8>, now: u64, tid: u64, write: impl FnOnce(&mut Packet<'_>)) {
    Encoder::new(out).nested(bundle::EVENT, |event| {
        event.varint(ftrace_event::TIMESTAMP, now);
        event.varint(ftrace_event::PID, tid);
        write(event);
    });
}

struct Processor {
    running: u64,
    ready: VecDeque<u64>,
    recorded: Recorded,
}

pub(super) fn write(trace: &mut Trace<'_>, mut calls: Option<Calls>) -> io::Result<()> {
    write_processes(trace, FIRST, PROCESSES, THREADS)?;
    let mut numbers = trace.numbers(if calls.is_some() { 4 } else { 1 });
    let mut asleep: Vec<u64> = (FIRST..FIRST + PROCESSES * THREADS).collect();
    let mut cpus: [Processor; CPUS] = [(); CPUS].map(|()| Processor {
        running: 0,
        ready: VecDeque::new(),
        recorded: Recorded::default(),
    });
    let mut now = BEGIN;
    while !trace.is_full() {
        now += 200 + numbers.skewed_below(8000);
        let cpu = numbers.below(CPUS as u64) as usize;
        if numbers.percent(45) && !asleep.is_empty() {
            let chosen = numbers.skewed_below(asleep.len() as u64) as usize;
            let tid = asleep.swap_remove(chosen);
            let target = numbers.below(CPUS as u64) as usize;
            cpus[target].ready.push_back(tid);
            let Processor {
                running, recorded, ..
            } = &mut cpus[cpu];
            wake(recorded, now, tid, target as u64);
            if let Some(calls) = &mut calls
                && *running != 0
            {
                calls.enter(&mut recorded.calls, now - 60, *running, WRITE);
                calls.exit(&mut recorded.calls, now + 40, *running);
            }
        } else {
            switch(&mut cpus[cpu], now, &mut asleep, &mut numbers, &mut calls);
        }
        let recorded = &cpus[cpu].recorded;
        let events = recorded.switches.count + recorded.wakings.count;
        if events >= EVENTS || recorded.calls.len() >= CALLS {
            let recorded = std::mem::take(&mut cpus[cpu].recorded);
            write_bundle(trace, cpu, &recorded)?;
        }
    }
    (0..CPUS).try_for_each(|cpu| write_bundle(trace, cpu, &cpus[cpu].recorded))
}

fn wake(recorded: &mut Recorded, now: u64, tid: u64, target: u64) {
    let name = recorded.names.index_of(tid);
    recorded.wakings.push([now, tid, target, 120, name, 1]);
}

fn switch(
    cpu: &mut Processor,
    now: u64,
    asleep: &mut Vec<u64>,
    numbers: &mut Numbers,
    calls: &mut Option<Calls>,
) {
    let next = cpu.ready.pop_front().unwrap_or(0);
    let previous = std::mem::replace(&mut cpu.running, next);
    if next == 0 && previous == 0 {
        return;
    }
    let state = match previous {
        0 => 0,
        _ if next != 0 && numbers.percent(10) => {
            cpu.ready.push_back(previous);
            0x100
        }
        _ => {
            asleep.push(previous);
            if let Some(calls) = calls {
                let call = SLEEPING[numbers.below(SLEEPING.len() as u64) as usize];
                calls.enter(&mut cpu.recorded.calls, now - 60, previous, call);
            }
            if numbers.percent(90) { 1 } else { 2 }
        }
    };
    let name = cpu.recorded.names.index_of(next);
    let row = [now, state, next, 120, name];
    cpu.recorded.switches.push(row);
    if let Some(calls) = calls {
        calls.exit(&mut cpu.recorded.calls, now + 40, next);
    }
}

fn write_bundle(trace: &mut Trace<'_>, cpu: usize, recorded: &Recorded) -> io::Result<()> {
    let switches = [
        compact_sched::SWITCH_TIMESTAMP,
        compact_sched::SWITCH_PREV_STATE,
        compact_sched::SWITCH_NEXT_PID,
        compact_sched::SWITCH_NEXT_PRIO,
        compact_sched::SWITCH_NEXT_COMM_INDEX,
    ];
    let wakings = [
        compact_sched::WAKING_TIMESTAMP,
        compact_sched::WAKING_PID,
        compact_sched::WAKING_TARGET_CPU,
        compact_sched::WAKING_PRIO,
        compact_sched::WAKING_COMM_INDEX,
        compact_sched::WAKING_COMMON_FLAGS,
    ];
    trace.packet(|packet| {
        packet.nested(trace_packet::FTRACE_EVENTS, |events| {
            events.varint(bundle::CPU, cpu as u64);
            events.nested(bundle::COMPACT_SCHED, |compact| {
                for tid in &recorded.names.0 {
                    let name = match tid {
                        0 => "swapper".to_owned(),
                        tid => format!("thread-{tid}"),
                    };
                    compact.string(compact_sched::INTERN_TABLE, &name);
                }
                for (field, packed) in switches.iter().zip(&recorded.switches.packed) {
                    compact.bytes(*field, packed);
                }
                for (field, packed) in wakings.iter().zip(&recorded.wakings.packed) {
                    compact.bytes(*field, packed);
                }
            });
            events.raw(&recorded.calls);
        });
        packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, 1);
    })
}
