//! The log of what the scheduler does.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ferretto_wire::{MAX_VARINT_LENGTH, decode_varint, encode_varint, zigzag, zigzag_decode};

use super::raw::Names;
use crate::schema::{SpuriousSchedWakeupTable, TableId, TableSet, Tables};
use crate::strings::{StringId, StringPool};
use crate::table::Table;

/// A thread gets a CPU, and another one loses it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Switch {
    pub(crate) ts: i64,
    /// The row of `cpu`.
    pub(crate) ucpu: u32,
    /// The thread that had the CPU had it until now.
    pub(crate) ends: bool,
    /// It is an event of the kernel's, with names.
    pub(crate) is_raw: bool,
    pub(crate) prev: u32,
    pub(crate) prev_prio: i32,
    pub(crate) prev_comm: StringId,
    /// The state of the thread that had it, as a number and as letters.
    pub(crate) state: (i64, StringId),
    pub(crate) next: u32,
    pub(crate) next_prio: i32,
    pub(crate) next_comm: StringId,
}

/// A thread is woken by another one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wake {
    pub(crate) ts: i64,
    pub(crate) utid: u32,
    pub(crate) waker: u32,
    pub(crate) irq_context: Option<bool>,
    /// Set if it is an event of the kernel's.
    pub(crate) raw: Option<RawWake>,
}

/// The part of a wake-up that only the event has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawWake {
    /// The row of `cpu`.
    pub(crate) ucpu: u32,
    pub(crate) target_cpu: u16,
    pub(crate) prio: u16,
    pub(crate) common_flags: u16,
    pub(crate) comm: StringId,
}

/// A thread was created by another one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Created {
    pub(crate) ts: i64,
    pub(crate) utid: u32,
    pub(crate) creator: u32,
}

/// An entry of the log.
#[derive(Debug, Clone, Copy)]
pub(super) enum Entry {
    Switch(Switch),
    Wake(Wake),
    Created(Created),
    /// Why a thread waited last.
    Blocked {
        utid: u32,
        io_wait: Option<bool>,
        function: Option<StringId>,
    },
    /// The thread on a CPU leaves it.
    End {
        ts: i64,
        ucpu: u32,
        state: StringId,
    },
    /// Rows of `sched_slice`, `thread_state` and `ftrace_event` that do not follow from the log.
    Rows([u32; 3]),
}

/// The deeds of the scheduler, in the order of time.
///
/// An entry is a byte for its kind, numbers of variable length, and only what does not follow from
/// the entries before.
#[derive(Debug, Default)]
pub struct SchedLog {
    bytes: Vec<u8>,
    memory: Memory,
    /// States of threads that were met: numbers and letters.
    states: Vec<(i64, StringId)>,
    bounds: Option<(i64, i64)>,
    /// Switches, wake-ups and creations of threads.
    pub(super) counts: [usize; 3],
    /// Events of the kernel's, switches and wake-ups.
    pub(super) raw: [u32; 2],
    pub(super) names: Option<Names>,
    /// Of all threads by row, when all was read.
    pub(super) threads: Vec<Thread>,
    /// The number of the first set of arguments that follows from the log, if any do.
    pub(super) first_args: Option<u32>,
    pub(super) running: StringId,
    pub(super) runnable: StringId,
    spurious: Mutex<Spurious>,
}

/// The wake-ups of threads that were awake. They turn up with the states of threads.
#[derive(Debug, Default)]
pub(super) enum Spurious {
    /// Nobody wants them, or they were handed over.
    #[default]
    Unwanted,
    /// They may be asked for.
    Wanted,
    /// They are there for whoever asks.
    There(Box<SpuriousSchedWakeupTable>),
}

/// A thread, as far as the log needs it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Thread {
    pub(super) tid: u32,
    pub(super) is_idle: bool,
}

/// The facts that entries leave behind for later ones.
#[derive(Debug, Default)]
struct Memory {
    ts: i64,
    /// Threads and their priorities, by row of `cpu`.
    cpus: Vec<(u32, i32)>,
    /// Names of threads when they lost a CPU, and when they got it or were woken.
    comms: Vec<[StringId; 2]>,
    rows: [u32; 3],
}

const LOST: usize = 0;
const GOT: usize = 1;
const NOBODY: (u32, i32) = (u32::MAX, 0);

impl Memory {
    #[inline]
    fn cpu(&self, ucpu: u32) -> (u32, i32) {
        self.cpus.get(ucpu as usize).copied().unwrap_or(NOBODY)
    }

    #[inline]
    fn set_cpu(&mut self, ucpu: u32, thread: (u32, i32)) {
        let place = ucpu as usize;
        if self.cpus.len() <= place {
            self.cpus.resize(place + 1, NOBODY);
        }
        self.cpus[place] = thread;
    }

    #[inline]
    fn comm(&self, utid: u32, role: usize) -> StringId {
        let comms = self.comms.get(utid as usize);
        comms.map_or(StringId::NULL, |comms| comms[role])
    }

    #[inline]
    fn set_comm(&mut self, utid: u32, role: usize, comm: StringId) {
        let place = utid as usize;
        if self.comms.len() <= place {
            self.comms.resize(place + 1, [StringId::NULL; 2]);
        }
        self.comms[place][role] = comm;
    }
}

/// Kinds of entries: the lower bits of the first byte.
mod kind {
    pub(super) const SWITCH: u8 = 0;
    pub(super) const WAKE: u8 = 1;
    pub(super) const CREATED: u8 = 2;
    pub(super) const BLOCKED: u8 = 3;
    pub(super) const CURRENT: u8 = 4;
    pub(super) const END: u8 = 5;
    pub(super) const ROWS: u8 = 6;
    pub(super) const BITS: u32 = 3;
}

/// Flags of entries: the upper bits of the first byte.
mod flag {
    pub(super) const RAW: u8 = 1 << 3;
    /// The thread that had the CPU, or that wakes another one, is that of the last switch.
    pub(super) const KNOWN_THREAD: u8 = 1 << 4;
    /// The thread that gets the CPU, or that is woken, has the name that it had last.
    pub(super) const KNOWN_COMM: u8 = 1 << 5;
    pub(super) const KNOWN_PREV_COMM: u8 = 1 << 6;
    pub(super) const ENDS: u8 = 1 << 7;
    /// Two bits.
    pub(super) const CONTEXT: u32 = 6;
    pub(super) const FUNCTION: u8 = 1 << 3;
    /// Two bits.
    pub(super) const IO_WAIT: u32 = 4;
}

/// States beyond this number are written out each time.
const MAX_STATES: usize = 32;

/// The bytes of an entry.
struct Writer {
    bytes: [u8; 12 * MAX_VARINT_LENGTH],
    length: usize,
}

impl Writer {
    #[inline]
    fn new(head: u8) -> Self {
        let mut bytes = [0; 12 * MAX_VARINT_LENGTH];
        bytes[0] = head;
        Self { bytes, length: 1 }
    }

    #[inline]
    fn put(&mut self, value: u64) {
        if value < 0x80 {
            self.bytes[self.length] = value as u8;
            self.length += 1;
        } else {
            self.length += encode_varint(value, &mut self.bytes[self.length..]);
        }
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

fn truth(value: Option<bool>) -> u8 {
    value.map_or(0, |value| 1 + u8::from(value))
}

fn untruth(bits: u8) -> Option<bool> {
    match bits & 3 {
        0 => None,
        bits => Some(bits == 2),
    }
}

impl SchedLog {
    /// Returns true if there are no entries.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the memory that it takes, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity()
            + self.memory.comms.capacity() * size_of::<[StringId; 2]>()
            + self.threads.capacity() * size_of::<Thread>()
            + match &*self.spurious() {
                Spurious::There(table) => table.memory(),
                _ => 0,
            }
    }

    /// Returns the spurious wake-ups, if they were met.
    pub(super) fn spurious(&self) -> MutexGuard<'_, Spurious> {
        self.spurious.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the first and last moment of the rows that follow from it.
    pub(crate) fn bounds(&self) -> Option<(i64, i64)> {
        self.bounds
    }

    /// Adds a switch.
    #[inline]
    pub(crate) fn switch(&mut self, tables: &Tables, strings: &mut StringPool, switch: &Switch) {
        self.note_rows(tables);
        self.counts[0] += 1;
        let mut head = kind::SWITCH;
        let (memory, is_raw) = (&mut self.memory, switch.is_raw);
        let is_known = memory.cpu(switch.ucpu) == (switch.prev, switch.prev_prio);
        let knows = |role, utid, comm| !is_raw || memory.comm(utid, role) == comm;
        let (prev, next) = (
            knows(LOST, switch.prev, switch.prev_comm),
            knows(GOT, switch.next, switch.next_comm),
        );
        for (is_set, flag) in [
            (is_raw, flag::RAW),
            (switch.ends, flag::ENDS),
            (is_known, flag::KNOWN_THREAD),
            (prev, flag::KNOWN_PREV_COMM),
            (next, flag::KNOWN_COMM),
        ] {
            head |= if is_set { flag } else { 0 };
        }
        let mut entry = Writer::new(head);
        entry.put(zigzag(switch.ts.wrapping_sub(memory.ts)));
        entry.put(switch.ucpu.into());
        if !is_known {
            entry.put(switch.prev.into());
            entry.put(zigzag(switch.prev_prio.into()));
        }
        if !prev {
            entry.put(switch.prev_comm.raw().into());
            memory.set_comm(switch.prev, LOST, switch.prev_comm);
        }
        let mut states = self.states.iter();
        match states.position(|state| *state == switch.state) {
            Some(place) => entry.put(place as u64 + 1),
            None => {
                entry.put(0);
                entry.put(zigzag(switch.state.0));
                entry.put(switch.state.1.raw().into());
                if self.states.len() < MAX_STATES {
                    self.states.push(switch.state);
                }
            }
        }
        entry.put(switch.next.into());
        entry.put(zigzag(switch.next_prio.into()));
        if !next {
            entry.put(switch.next_comm.raw().into());
            memory.set_comm(switch.next, GOT, switch.next_comm);
        }
        memory.ts = switch.ts;
        memory.set_cpu(switch.ucpu, (switch.next, switch.next_prio));
        self.bytes.extend_from_slice(entry.bytes());
        self.note(switch.ts);
        if is_raw {
            self.raw[0] = self.raw[0].saturating_add(1);
            self.names.get_or_insert_with(|| Names::new(strings));
        }
    }

    /// Adds a wake-up.
    #[inline]
    pub(crate) fn wake(&mut self, tables: &Tables, strings: &mut StringPool, wake: &Wake) {
        self.note_rows(tables);
        self.counts[1] += 1;
        let memory = &mut self.memory;
        let mut head = kind::WAKE | truth(wake.irq_context) << flag::CONTEXT;
        let (mut is_known, mut has_comm) = (false, true);
        if let Some(raw) = wake.raw {
            is_known = memory.cpu(raw.ucpu).0 == wake.waker;
            has_comm = memory.comm(wake.utid, GOT) == raw.comm;
            head |= flag::RAW;
        }
        head |= if is_known { flag::KNOWN_THREAD } else { 0 };
        head |= if has_comm { flag::KNOWN_COMM } else { 0 };
        let mut entry = Writer::new(head);
        entry.put(zigzag(wake.ts.wrapping_sub(memory.ts)));
        entry.put(wake.utid.into());
        if !is_known {
            entry.put(wake.waker.into());
        }
        if let Some(raw) = wake.raw {
            entry.put(raw.ucpu.into());
            entry.put(raw.target_cpu.into());
            entry.put(raw.prio.into());
            entry.put(raw.common_flags.into());
            if !has_comm {
                entry.put(raw.comm.raw().into());
                memory.set_comm(wake.utid, GOT, raw.comm);
            }
        }
        memory.ts = wake.ts;
        self.bytes.extend_from_slice(entry.bytes());
        if wake.raw.is_some() {
            self.raw[1] = self.raw[1].saturating_add(1);
            self.names.get_or_insert_with(|| Names::new(strings));
            self.note(wake.ts);
        }
    }

    /// Adds the creation of a thread.
    pub(crate) fn created(&mut self, tables: &Tables, created: &Created) {
        self.note_rows(tables);
        self.counts[2] += 1;
        let mut entry = Writer::new(kind::CREATED);
        entry.put(zigzag(created.ts.wrapping_sub(self.memory.ts)));
        entry.put(created.utid.into());
        entry.put(created.creator.into());
        self.memory.ts = created.ts;
        self.bytes.extend_from_slice(entry.bytes());
        self.note(created.ts);
    }

    /// Adds why a thread waited last.
    pub(crate) fn blocked(
        &mut self,
        tables: &Tables,
        utid: u32,
        io_wait: Option<bool>,
        function: Option<StringId>,
    ) {
        self.note_rows(tables);
        let mut head = kind::BLOCKED | truth(io_wait) << flag::IO_WAIT;
        head |= if function.is_some() {
            flag::FUNCTION
        } else {
            0
        };
        let mut entry = Writer::new(head);
        entry.put(utid.into());
        if let Some(function) = function {
            entry.put(function.raw().into());
        }
        self.bytes.extend_from_slice(entry.bytes());
    }

    /// A thread has a CPU, and there is no row that says so.
    pub(crate) fn current(&mut self, ucpu: u32, utid: u32, prio: i32) {
        let mut entry = Writer::new(kind::CURRENT);
        entry.put(ucpu.into());
        entry.put(utid.into());
        entry.put(zigzag(prio.into()));
        self.memory.set_cpu(ucpu, (utid, prio));
        self.bytes.extend_from_slice(entry.bytes());
    }

    /// The thread on a CPU leaves it, and nothing more is known.
    pub(crate) fn end(&mut self, tables: &Tables, ts: i64, ucpu: u32, state: StringId) {
        self.note_rows(tables);
        let mut entry = Writer::new(kind::END);
        entry.put(zigzag(ts.wrapping_sub(self.memory.ts)));
        entry.put(ucpu.into());
        entry.put(state.raw().into());
        self.memory.ts = ts;
        self.bytes.extend_from_slice(entry.bytes());
    }

    /// A row that follows from the log begins or ends at this time.
    #[inline]
    pub(crate) fn note(&mut self, ts: i64) {
        let (start, end) = self.bounds.unwrap_or((ts, ts));
        self.bounds = Some((start.min(ts), end.max(ts)));
    }

    /// Notes rows that were added meanwhile and do not follow from the log.
    #[inline]
    fn note_rows(&mut self, tables: &Tables) {
        let rows = [
            tables.sched_slice.rows.len(),
            tables.thread_state.rows.len(),
            tables.ftrace_event.rows.len(),
        ];
        if rows != self.memory.rows {
            self.add_rows(rows);
        }
    }

    fn add_rows(&mut self, rows: [u32; 3]) {
        let mut entry = Writer::new(kind::ROWS);
        for (now, before) in rows.iter().zip(self.memory.rows) {
            entry.put(now.saturating_sub(before).into());
        }
        self.memory.rows = rows;
        self.bytes.extend_from_slice(entry.bytes());
    }

    /// Keeps what tables are computed from. All was read, and these tables are wanted.
    pub(crate) fn seal(&mut self, tables: &Tables, strings: &mut StringPool, wanted: TableSet) {
        if self.is_empty() {
            return;
        }
        let thread = &tables.thread;
        let threads = 0..thread.len();
        let threads = threads.map(|utid| Thread {
            tid: thread.tid.get(utid) as u32,
            is_idle: thread.is_idle.get(utid),
        });
        self.threads = threads.collect();
        self.running = strings.intern("Running");
        self.runnable = strings.intern("R");
        if wanted.has(TableId::spurious_sched_wakeup) {
            *self.spurious() = Spurious::Wanted;
        }
        let first = tables.args.len();
        let fits = self.count_args().and_then(|count| first.checked_add(count));
        let has_args = wanted.has(TableId::args) && self.raw != [0; 2] && fits.is_some();
        self.first_args = has_args.then_some(first);
        self.memory = Memory::default();
        self.bytes.shrink_to_fit();
    }

    /// Returns the entries.
    pub(super) fn entries(&self) -> Entries<'_> {
        Entries {
            rest: &self.bytes,
            memory: Memory::default(),
            states: Vec::new(),
        }
    }

    /// Returns a thread by its row.
    #[inline]
    pub(super) fn thread(&self, utid: u32) -> Thread {
        let nobody = Thread {
            tid: 0,
            is_idle: false,
        };
        self.threads.get(utid as usize).copied().unwrap_or(nobody)
    }
}

/// The entries of a log.
#[derive(Debug)]
pub(super) struct Entries<'a> {
    rest: &'a [u8],
    memory: Memory,
    states: Vec<(i64, StringId)>,
}

impl Entries<'_> {
    #[inline]
    fn number(&mut self) -> u64 {
        match self.rest {
            [byte, rest @ ..] if *byte < 0x80 => {
                self.rest = rest;
                (*byte).into()
            }
            [low, high, rest @ ..] if *high < 0x80 => {
                self.rest = rest;
                u64::from(*low & 0x7f) | u64::from(*high) << 7
            }
            _ => self.long_number(),
        }
    }

    #[inline(never)]
    fn long_number(&mut self) -> u64 {
        let (value, digits) = decode_varint(self.rest).unwrap_or((0, self.rest.len()));
        self.rest = &self.rest[digits..];
        value
    }

    #[inline]
    fn id(&mut self) -> u32 {
        self.number() as u32
    }

    #[inline]
    fn signed(&mut self) -> i64 {
        zigzag_decode(self.number())
    }

    #[inline]
    fn text(&mut self) -> StringId {
        StringId(self.id())
    }

    #[inline]
    fn time(&mut self) -> i64 {
        self.memory.ts = self.memory.ts.wrapping_add(self.signed());
        self.memory.ts
    }

    fn switch(&mut self, head: u8) -> Switch {
        let ts = self.time();
        let ucpu = self.id();
        let (prev, prev_prio) = match head & flag::KNOWN_THREAD {
            0 => (self.id(), self.signed() as i32),
            _ => self.memory.cpu(ucpu),
        };
        if head & flag::KNOWN_PREV_COMM == 0 {
            let comm = self.text();
            self.memory.set_comm(prev, LOST, comm);
        }
        let state = match self.number() {
            0 => {
                let state = (self.signed(), self.text());
                if self.states.len() < MAX_STATES {
                    self.states.push(state);
                }
                state
            }
            place => self.states[place as usize - 1],
        };
        let (next, next_prio) = (self.id(), self.signed() as i32);
        if head & flag::KNOWN_COMM == 0 {
            let comm = self.text();
            self.memory.set_comm(next, GOT, comm);
        }
        self.memory.set_cpu(ucpu, (next, next_prio));
        Switch {
            ts,
            ucpu,
            ends: head & flag::ENDS != 0,
            is_raw: head & flag::RAW != 0,
            prev,
            prev_prio,
            prev_comm: self.memory.comm(prev, LOST),
            state,
            next,
            next_prio,
            next_comm: self.memory.comm(next, GOT),
        }
    }

    fn wake(&mut self, head: u8) -> Wake {
        let (ts, utid) = (self.time(), self.id());
        let is_known = head & flag::KNOWN_THREAD != 0;
        let mut waker = if is_known { 0 } else { self.id() };
        let mut raw = None;
        if head & flag::RAW != 0 {
            let ucpu = self.id();
            if is_known {
                waker = self.memory.cpu(ucpu).0;
            }
            let [target_cpu, prio, common_flags] = [(); 3].map(|()| self.number() as u16);
            if head & flag::KNOWN_COMM == 0 {
                let comm = self.text();
                self.memory.set_comm(utid, GOT, comm);
            }
            raw = Some(RawWake {
                ucpu,
                target_cpu,
                prio,
                common_flags,
                comm: self.memory.comm(utid, GOT),
            });
        }
        Wake {
            ts,
            utid,
            waker,
            irq_context: untruth(head >> flag::CONTEXT),
            raw,
        }
    }
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    #[inline]
    fn next(&mut self) -> Option<Entry> {
        loop {
            let (head, rest) = self.rest.split_first()?;
            self.rest = rest;
            return Some(match head & ((1 << kind::BITS) - 1) {
                kind::SWITCH => Entry::Switch(self.switch(*head)),
                kind::WAKE => Entry::Wake(self.wake(*head)),
                kind::CREATED => Entry::Created(Created {
                    ts: self.time(),
                    utid: self.id(),
                    creator: self.id(),
                }),
                kind::BLOCKED => {
                    let utid = self.id();
                    let has_function = head & flag::FUNCTION != 0;
                    Entry::Blocked {
                        utid,
                        io_wait: untruth(head >> flag::IO_WAIT),
                        function: has_function.then(|| self.text()),
                    }
                }
                kind::CURRENT => {
                    let (ucpu, utid, prio) = (self.id(), self.id(), self.signed() as i32);
                    self.memory.set_cpu(ucpu, (utid, prio));
                    continue;
                }
                kind::END => Entry::End {
                    ts: self.time(),
                    ucpu: self.id(),
                    state: self.text(),
                },
                _ => Entry::Rows([(); 3].map(|()| self.id())),
            });
        }
    }
}
