//! Kernel events, including those in the compact encoding.

use std::collections::HashMap;
use std::io::Write as _;

use ferretto_format::compact_sched::{CompactKind, CompactSched};
use ferretto_format::kernel_bundle::BundleHeader;
use ferretto_format::sequence::Clocks;
use ferretto_proto::fields::{ftrace_event, ftrace_event_bundle, sched_switch_ftrace_event};
use ferretto_wire::Fields;

use super::described::Described;
use super::syscalls::Calls;
use super::tasks::{UNKNOWN, number, push};
use ferretto_text::print::inline_fields;
use ferretto_text::schema::{Kind, MessageId, Schema};

/// The maximum number of CPUs whose running thread is tracked, so that memory is bounded for any
/// input.
const MAX_CPUS: usize = 1 << 14;
/// The maximum length of a printed name, in bytes.
const MAX_NAME: usize = 64;
/// The maximum number of events of a kind of a compact bundle. Others are left out.
const MAX_COMPACT: usize = 1 << 18;

/// A kernel event, ready to be printed.
pub(super) struct KernelEvent<'a> {
    pub(super) time: u64,
    pub(super) cpu: u32,
    /// The running thread.
    pub(super) tid: i32,
    /// Its name and fields.
    pub(super) text: &'a [u8],
}

#[derive(Debug)]
pub(super) struct Kernel<'a> {
    calls: &'a Calls,
    described: Described,
    /// The running thread by machine and CPU. The compact encoding omits it.
    running: HashMap<(u32, u32), i32>,
    /// The times and next threads of the switches of the current bundle that are not compact.
    whole: Vec<(u64, i32)>,
    text: Vec<u8>,
}

impl<'a> Kernel<'a> {
    pub(super) fn new(calls: &'a Calls) -> Self {
        Self {
            calls,
            described: Described::default(),
            running: HashMap::new(),
            whole: Vec::new(),
            text: Vec::new(),
        }
    }

    /// Reads a `FtraceEventBundle` of a machine and a sequence.
    pub(super) fn bundle(
        &mut self,
        (machine, sequence): (u32, u32),
        bytes: &[u8],
        clocks: &Clocks,
        mut each: impl FnMut(KernelEvent<'_>),
    ) {
        let header = BundleHeader::read(bytes, machine, clocks);
        let of = (machine, header.cpu.unwrap_or(0));
        // Descriptions follow the events.
        for part in Fields::new(bytes).map_while(Result::ok) {
            if part.number == ftrace_event_bundle::GENERIC_EVENT_DESCRIPTORS {
                let descriptor = part.as_bytes().unwrap_or_default();
                self.described.describe((machine, sequence), descriptor);
            }
        }
        for part in Fields::new(bytes).map_while(Result::ok) {
            let body = part.as_bytes().unwrap_or_default();
            match part.number {
                ftrace_event_bundle::EVENT => {
                    self.event((machine, sequence, of.1), &header, body, &mut each);
                }
                ftrace_event_bundle::COMPACT_SCHED => {
                    self.compact(of, &header, body, &mut each);
                }
                _ => {}
            }
        }
        self.set_running_until(of, u64::MAX);
    }

    fn event(
        &mut self,
        (machine, sequence, cpu): (u32, u32, u32),
        header: &BundleHeader,
        bytes: &[u8],
        each: &mut impl FnMut(KernelEvent<'_>),
    ) {
        let (mut time, mut tid, mut event) = (0, 0, None);
        for part in Fields::new(bytes).map_while(Result::ok) {
            match part.number {
                ftrace_event::TIMESTAMP => time = header.to_boot(part.as_u64().unwrap_or(0)),
                ftrace_event::PID => tid = part.as_u64().unwrap_or(0) as i32,
                ftrace_event::COMMON_FLAGS => {}
                number => event = Some((number, part.as_bytes().unwrap_or_default())),
            }
        }
        let Some((number, body)) = event else { return };
        self.text.clear();
        let call = match number {
            ftrace_event::SYS_ENTER => self.calls.enter(machine, body),
            ftrace_event::SYS_EXIT => self.calls.exit(machine, body),
            _ => None,
        };
        let of = (machine, sequence);
        match message(number) {
            Some((name, id)) => {
                self.text.extend_from_slice(name.as_bytes());
                self.text.extend_from_slice(b": ");
                match call {
                    Some(call) => self.text.extend_from_slice(call.as_bytes()),
                    None => inline_fields(&mut self.text, id, body),
                }
            }
            None if self.described.print(&mut self.text, of, number, body) => {}
            None => {
                let _ = write!(self.text, "event {number}: {} bytes", body.len());
            }
        }
        if number == ftrace_event::SCHED_SWITCH {
            let next = Fields::find(sched_switch_ftrace_event::NEXT_PID, body)
                .and_then(|next| next.as_u64());
            self.whole.push((time, next.unwrap_or(0) as i32));
        }
        each(KernelEvent {
            time,
            cpu,
            tid,
            text: &self.text,
        });
    }

    fn set_running(&mut self, machine: u32, cpu: u32, tid: i32) {
        if self.running.len() < MAX_CPUS || self.running.contains_key(&(machine, cpu)) {
            self.running.insert((machine, cpu), tid);
        }
    }

    /// Applies the switches of the bundle that are not compact, until a time.
    fn set_running_until(&mut self, (machine, cpu): (u32, u32), until: u64) {
        let count = self.whole.partition_point(|(time, _)| *time <= until);
        let last = self.whole.drain(..count).next_back();
        if let Some((_, last)) = last {
            self.set_running(machine, cpu, last);
        }
    }

    fn compact(
        &mut self,
        (machine, cpu): (u32, u32),
        header: &BundleHeader,
        bytes: &[u8],
        each: &mut impl FnMut(KernelEvent<'_>),
    ) {
        let columns = CompactSched::read(bytes);
        let rows = |kind| columns.rows(kind).take(MAX_COMPACT).peekable();
        let mut switch = rows(CompactKind::Switches);
        let mut waking = rows(CompactKind::Wakings);
        loop {
            let is_switch = match (switch.peek(), waking.peek()) {
                (Some(switch), Some(waking)) => switch.time <= waking.time,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => return,
            };
            let next = if is_switch {
                switch.next()
            } else {
                waking.next()
            };
            let Some(row) = next else { return };
            self.set_running_until((machine, cpu), header.to_boot(row.time));
            let running = self.running.get(&(machine, cpu));
            let tid = running.copied().unwrap_or(UNKNOWN);
            self.text.clear();
            let priority = row.priority;
            // Priorities and pids are 32-bit numbers.
            let (first, second) = (row.first as i32, row.second as i32);
            let name = String::from_utf8_lossy(&row.name[..row.name.len().min(MAX_NAME)]);
            // Writing to a vector cannot fail.
            let _ = if is_switch {
                write!(
                    self.text,
                    "sched_switch: prev_pid={} prev_state={first} ==> next_comm=\"",
                    number(tid)
                )
            } else {
                write!(self.text, "sched_waking: comm=\"")
            };
            push(&mut self.text, &name);
            let _ = if is_switch {
                write!(self.text, "\" next_pid={second} next_prio={priority}")
            } else {
                write!(
                    self.text,
                    "\" pid={first} prio={priority} target_cpu={second}"
                )
            };
            each(KernelEvent {
                time: header.to_boot(row.time),
                cpu,
                tid,
                text: &self.text,
            });
            if is_switch {
                self.set_running(machine, cpu, second);
            }
        }
    }
}

/// Returns the name and the message type of a kernel event.
fn message(number: u32) -> Option<(&'static str, MessageId)> {
    let schema = Schema::perfetto();
    let event = schema.message_named("perfetto.protos.FtraceEvent")?;
    let field = schema.message(event).field(number)?;
    match field.kind {
        Kind::Message(id) => Some((field.name, id)),
        _ => None,
    }
}
