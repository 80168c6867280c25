//! Kernel events, including those in the compact encoding.

use std::collections::HashMap;
use std::io::Write as _;

use ferretto_proto::fields::{ftrace_event, ftrace_event_bundle};
use ferretto_wire::Fields;

use super::tasks::{UNKNOWN, number, push};
use ferretto_text::print::inline_fields;
use ferretto_text::schema::{Kind, MessageId, Schema};

/// The maximum number of CPUs whose running thread is tracked, so that memory is bounded for any
/// input.
const MAX_CPUS: usize = 1 << 14;
/// The maximum number of events of a compact bundle. Others are left out.
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

#[derive(Debug, Default)]
pub(super) struct Kernel {
    /// The running thread by machine and CPU. The compact encoding omits it.
    running: HashMap<(u32, u32), i32>,
    text: Vec<u8>,
}

/// The columns of a `FtraceEventBundle.CompactSched`.
#[derive(Default)]
struct Compact {
    names: Vec<String>,
    switches: [Vec<u64>; 5],
    wakings: [Vec<u64>; 5],
}

impl Kernel {
    /// Reads a `FtraceEventBundle`.
    pub(super) fn bundle(
        &mut self,
        machine: u32,
        bytes: &[u8],
        mut each: impl FnMut(KernelEvent<'_>),
    ) {
        let cpu = Fields::find(ftrace_event_bundle::CPU, bytes);
        let cpu = cpu.and_then(|cpu| cpu.as_u32()).unwrap_or(0);
        for part in Fields::new(bytes).map_while(Result::ok) {
            let body = part.as_bytes().unwrap_or_default();
            match part.number {
                ftrace_event_bundle::EVENT => self.event(machine, cpu, body, &mut each),
                ftrace_event_bundle::COMPACT_SCHED => {
                    self.compact(machine, cpu, body, &mut each);
                }
                _ => {}
            }
        }
    }

    fn event(
        &mut self,
        machine: u32,
        cpu: u32,
        bytes: &[u8],
        each: &mut impl FnMut(KernelEvent<'_>),
    ) {
        let (mut time, mut tid, mut event) = (0, 0, None);
        for part in Fields::new(bytes).map_while(Result::ok) {
            match part.number {
                ftrace_event::TIMESTAMP => time = part.as_u64().unwrap_or(0),
                ftrace_event::PID => tid = part.as_u64().unwrap_or(0) as i32,
                ftrace_event::COMMON_FLAGS => {}
                number => event = Some((number, part.as_bytes().unwrap_or_default())),
            }
        }
        let Some((number, body)) = event else { return };
        self.text.clear();
        match message(number) {
            Some((name, id)) => {
                self.text.extend_from_slice(name.as_bytes());
                self.text.extend_from_slice(b": ");
                inline_fields(&mut self.text, id, body);
            }
            None => {
                let _ = write!(self.text, "event {number}: {} bytes", body.len());
            }
        }
        if number == ftrace_event::SCHED_SWITCH {
            let next = Fields::find(6, body).and_then(|next| next.as_u64());
            self.set_running(machine, cpu, next.unwrap_or(0) as i32);
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

    fn compact(
        &mut self,
        machine: u32,
        cpu: u32,
        bytes: &[u8],
        each: &mut impl FnMut(KernelEvent<'_>),
    ) {
        let compact = Compact::read(bytes);
        let (mut switch, mut waking) =
            (compact.switches().peekable(), compact.wakings().peekable());
        loop {
            let is_switch = match (switch.peek(), waking.peek()) {
                (Some(switch), Some(waking)) => switch[0] <= waking[0],
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => return,
            };
            let running = self.running.get(&(machine, cpu));
            let tid = running.copied().unwrap_or(UNKNOWN);
            self.text.clear();
            let next = if is_switch {
                switch.next()
            } else {
                waking.next()
            };
            let Some([time, second, pid, priority, name]) = next else {
                return;
            };
            // Writing to a vector cannot fail.
            let _ = match is_switch {
                true => write!(
                    self.text,
                    "sched_switch: prev_pid={} prev_state={second} ==> next_comm=\"",
                    number(tid)
                ),
                false => write!(self.text, "sched_waking: comm=\""),
            };
            push(&mut self.text, compact.name(name));
            let _ = match is_switch {
                true => write!(self.text, "\" next_pid={pid} next_prio={priority}"),
                false => write!(
                    self.text,
                    "\" pid={pid} prio={priority} target_cpu={second}"
                ),
            };
            each(KernelEvent {
                time,
                cpu,
                tid,
                text: &self.text,
            });
            if is_switch {
                self.set_running(machine, cpu, pid as i32);
            }
        }
    }
}

impl Compact {
    fn read(bytes: &[u8]) -> Self {
        let mut compact = Self::default();
        for part in Fields::new(bytes).map_while(Result::ok) {
            let column = match part.number {
                5 if compact.names.len() < MAX_COMPACT / 16 => {
                    let name = part.as_bytes().unwrap_or_default();
                    let name = &name[..name.len().min(64)];
                    compact
                        .names
                        .push(String::from_utf8_lossy(name).into_owned());
                    continue;
                }
                1 => &mut compact.switches[0],
                2 => &mut compact.switches[1],
                3 => &mut compact.switches[2],
                4 => &mut compact.switches[3],
                6 => &mut compact.switches[4],
                7 => &mut compact.wakings[0],
                9 => &mut compact.wakings[1],
                8 => &mut compact.wakings[2],
                10 => &mut compact.wakings[3],
                11 => &mut compact.wakings[4],
                _ => continue,
            };
            let room = MAX_COMPACT - column.len();
            column.extend(part.as_varints().take(room));
        }
        for columns in [&mut compact.switches, &mut compact.wakings] {
            // Times are stored as differences.
            let mut time = 0u64;
            for value in &mut columns[0] {
                time = time.wrapping_add(*value);
                *value = time;
            }
        }
        compact
    }

    fn switches(&self) -> impl Iterator<Item = [u64; 5]> + '_ {
        rows(&self.switches)
    }

    fn wakings(&self) -> impl Iterator<Item = [u64; 5]> + '_ {
        rows(&self.wakings)
    }

    fn name(&self, index: u64) -> &str {
        let name = usize::try_from(index)
            .ok()
            .and_then(|at| self.names.get(at));
        name.map_or("", String::as_str)
    }
}

/// Returns the rows of columns, which may differ in length; missing values are zero.
fn rows(columns: &[Vec<u64>; 5]) -> impl Iterator<Item = [u64; 5]> + '_ {
    (0..columns[0].len()).map(|row| {
        [0, 1, 2, 3, 4].map(|column: usize| columns[column].get(row).copied().unwrap_or(0))
    })
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
