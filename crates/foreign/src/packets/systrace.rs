//! Converts kernel events as text to packets of kernel events.

use std::io::{Read, Seek};

use ferretto_format::binder::BinderEvent;
use ferretto_proto::fields::{
    binder_command_ftrace_event as command, binder_return_ftrace_event as returned,
    binder_transaction_alloc_buf_ftrace_event as space,
    binder_transaction_ftrace_event as transaction,
    binder_transaction_received_ftrace_event as received, cpu_frequency_ftrace_event as frequency,
    cpu_frequency_limits_ftrace_event as limits, cpu_idle_ftrace_event as idle, ftrace_event,
    ftrace_event_bundle as bundle, print_ftrace_event as print, process_tree,
    sched_blocked_reason_ftrace_event as blocked, sched_switch_ftrace_event as switch,
    sched_waking_ftrace_event as waking, trace_packet,
};
use ferretto_wire::Encoder;
use rustc_hash::FxHashSet;

use crate::Format;
use crate::packets::report::Report;
use crate::packets::sorter::Sorter;
use crate::packets::writer::{FIRST_SEQUENCE, Writer};
use crate::packets::{ImportError, Options, pieces};
use crate::systrace::{Content, Event, Line, LineReader};

/// The sequence of the events.
const SEQUENCE: u32 = 2;
/// The largest size of a packet in bytes, apart from the last event in it.
const MAX_PACKET: usize = 32 << 10;
/// The number of threads remembered. Beyond it, threads are described again.
const MAX_THREADS: usize = 1 << 18;

/// Imports a file.
pub(crate) fn import<R: Read + Seek>(
    input: R,
    options: &Options,
    writer: &mut Writer<'_>,
) -> Result<Report, ImportError> {
    let mut kernel = KernelEvents {
        writer,
        report: Report::new(Format::Systrace),
        threads: FxHashSet::default(),
        cpu: 0,
        events: Vec::new(),
    };
    let mut sorter = Sorter::new(options.memory);
    let mut reader = LineReader::default();
    let (mut number, mut failed) = (0, Ok(()));
    let mut each = |content: Content<'_>| {
        number += 1;
        let added = match content {
            Content::Event(text) => match Line::parse(text) {
                Some(line) => sorter.push((line.ts, number), text.as_bytes()),
                None => {
                    kernel.lack("lines that are no event");
                    Ok(())
                }
            },
            Content::Process { pid, parent, name } => kernel.process(pid, parent, name),
            Content::Thread { pid, tid, name } => kernel.thread(tid, pid, name),
            Content::NoProcess => {
                kernel.lack("lines that are no process or thread");
                Ok(())
            }
        };
        if failed.is_ok() {
            failed = added;
        }
    };
    pieces(input, |bytes| {
        reader.push(bytes, &mut each);
        Ok(())
    })?;
    reader.finish(&mut each);
    failed?;
    if reader.is_empty_page() {
        let what = "the HTML page contains no trace; import the page's data in another format";
        return Err(ImportError::Broken(what.to_owned()));
    }
    sorter.finish(|ts, line| kernel.event(ts, &String::from_utf8_lossy(line)))?;
    kernel.flush()?;
    Ok(kernel.report)
}

struct KernelEvents<'a, 'w> {
    writer: &'a mut Writer<'w>,
    report: Report,
    /// The described threads with their processes.
    threads: FxHashSet<(u32, u32)>,
    /// The CPU of the events that are not written yet.
    cpu: u32,
    /// These events as fields of a bundle.
    events: Vec<u8>,
}

impl KernelEvents<'_, '_> {
    /// Counts a part of the file that the trace lacks.
    fn lack(&mut self, what: &str) {
        self.report.losses.add(what);
        self.report.is_damaged = true;
    }

    fn process(&mut self, pid: u32, parent: u32, name: &str) -> Result<(), ImportError> {
        self.tree(process_tree::PROCESSES, |out| {
            out.varint(process_tree::process::PID, pid.into());
            out.varint(process_tree::process::PPID, parent.into());
            out.string(process_tree::process::CMDLINE, name);
        })
    }

    fn thread(&mut self, tid: u32, pid: u32, name: &str) -> Result<(), ImportError> {
        if self.threads.len() >= MAX_THREADS {
            self.threads.clear();
        }
        if !self.threads.insert((tid, pid)) {
            return Ok(());
        }
        self.tree(process_tree::THREADS, |out| {
            out.varint(process_tree::thread::TID, tid.into());
            out.varint(process_tree::thread::TGID, pid.into());
            // The kernel writes this for unknown names.
            if !name.is_empty() && name != "<...>" {
                out.string(process_tree::thread::NAME, name);
            }
        })
    }

    fn tree(
        &mut self,
        field: u32,
        write: impl FnOnce(&mut Encoder<'_, Vec<u8>>),
    ) -> Result<(), ImportError> {
        self.writer.packet(FIRST_SEQUENCE, |packet| {
            packet.nested(trace_packet::PROCESS_TREE, |tree| tree.nested(field, write));
        })
    }

    /// Adds an event. Events come in the order of time.
    fn event(&mut self, ts: i64, text: &str) -> Result<(), ImportError> {
        let Some(line) = Line::parse(text) else {
            return Ok(());
        };
        let Ok(ts) = u64::try_from(ts) else {
            self.lack("events before time 0");
            return Ok(());
        };
        if let Some(pid) = line.pid {
            self.thread(line.tid, pid, line.comm)?;
        }
        let event = match line.meaning() {
            Some(Event::Other) => {
                self.report.losses.add("kernel events of other kinds");
                return Ok(());
            }
            Some(event) => event,
            None => {
                self.lack("events that lack a value");
                return Ok(());
            }
        };
        if let Event::Blocked {
            function: Some(_), ..
        } = event
        {
            let what = "functions in which threads were blocked, which need an address";
            self.report.losses.add(what);
        }
        if line.cpu != self.cpu || self.events.len() >= MAX_PACKET {
            self.flush()?;
            self.cpu = line.cpu;
        }
        Encoder::new(&mut self.events).nested(bundle::EVENT, |out| {
            out.varint(ftrace_event::TIMESTAMP, ts);
            out.varint(ftrace_event::PID, line.tid.into());
            write(out, &event);
        });
        self.report.events += 1;
        Ok(())
    }

    /// Writes the collected events as a packet.
    fn flush(&mut self) -> Result<(), ImportError> {
        if self.events.is_empty() {
            return Ok(());
        }
        let (cpu, events) = (self.cpu, &self.events);
        self.writer.packet(SEQUENCE, |packet| {
            packet.nested(trace_packet::FTRACE_EVENTS, |out| {
                out.varint(bundle::CPU, cpu.into());
                out.raw(events);
            });
        })?;
        self.events.clear();
        Ok(())
    }
}

/// Writes the content of an event.
fn write(out: &mut Encoder<'_, Vec<u8>>, event: &Event<'_>) {
    match *event {
        Event::Switch { prev, next } => out.nested(ftrace_event::SCHED_SWITCH, |out| {
            out.string(switch::PREV_COMM, prev.comm);
            out.varint(switch::PREV_PID, prev.tid.into());
            out.int(switch::PREV_PRIO, prev.prio.into());
            out.int(switch::PREV_STATE, state(prev.rest));
            out.string(switch::NEXT_COMM, next.comm);
            out.varint(switch::NEXT_PID, next.tid.into());
            out.int(switch::NEXT_PRIO, next.prio.into());
        }),
        Event::Waking {
            comm,
            tid,
            prio,
            cpu,
        } => out.nested(ftrace_event::SCHED_WAKING, |out| {
            out.string(waking::COMM, comm);
            out.varint(waking::PID, tid.into());
            if let Some(prio) = prio {
                out.int(waking::PRIO, prio.into());
            }
            if let Some(cpu) = cpu {
                out.varint(waking::TARGET_CPU, cpu.into());
            }
        }),
        Event::Blocked { tid, io_wait, .. } => {
            out.nested(ftrace_event::SCHED_BLOCKED_REASON, |out| {
                out.varint(blocked::PID, tid.into());
                out.varint(blocked::IO_WAIT, io_wait.into());
            });
        }
        Event::Print(text) => out.nested(ftrace_event::PRINT, |out| {
            out.string(print::BUF, text);
        }),
        Event::Frequency { cpu, state } => out.nested(ftrace_event::CPU_FREQUENCY, |out| {
            out.varint(frequency::STATE, state.into());
            out.varint(frequency::CPU_ID, cpu.into());
        }),
        Event::FrequencyLimits { cpu, min, max } => {
            out.nested(ftrace_event::CPU_FREQUENCY_LIMITS, |out| {
                if let Some(min) = min {
                    out.varint(limits::MIN_FREQ, min.into());
                }
                if let Some(max) = max {
                    out.varint(limits::MAX_FREQ, max.into());
                }
                out.varint(limits::CPU_ID, cpu.into());
            });
        }
        Event::Idle { cpu, state } => out.nested(ftrace_event::CPU_IDLE, |out| {
            out.varint(idle::STATE, state.into());
            out.varint(idle::CPU_ID, cpu.into());
        }),
        Event::Binder(event) => write_binder(out, event),
        Event::Other => {}
    }
}

/// Writes the content of an event of binder.
fn write_binder(out: &mut Encoder<'_, Vec<u8>>, event: BinderEvent) {
    match event {
        BinderEvent::Transaction(sent) => out.nested(ftrace_event::BINDER_TRANSACTION, |out| {
            out.int(transaction::DEBUG_ID, sent.id.into());
            out.int(transaction::TARGET_NODE, sent.node.into());
            out.varint(transaction::TO_PROC, sent.process.into());
            out.varint(transaction::TO_THREAD, sent.thread.into());
            out.varint(transaction::REPLY, sent.is_reply.into());
            out.varint(transaction::CODE, sent.code.into());
            out.varint(transaction::FLAGS, sent.flags.into());
        }),
        BinderEvent::Received(id) => out.nested(ftrace_event::BINDER_TRANSACTION_RECEIVED, |out| {
            out.int(received::DEBUG_ID, id.into());
        }),
        BinderEvent::Space { data, offsets } => {
            out.nested(ftrace_event::BINDER_TRANSACTION_ALLOC_BUF, |out| {
                out.varint(space::DATA_SIZE, data);
                out.varint(space::OFFSETS_SIZE, offsets);
            });
        }
        BinderEvent::Command(number) => out.nested(ftrace_event::BINDER_COMMAND, |out| {
            out.varint(command::CMD, number.into());
        }),
        BinderEvent::Return(number) => out.nested(ftrace_event::BINDER_RETURN, |out| {
            out.varint(returned::CMD, number.into());
        }),
        BinderEvent::Lock => out.nested(ftrace_event::BINDER_LOCK, |_| {}),
        BinderEvent::Locked => out.nested(ftrace_event::BINDER_LOCKED, |_| {}),
        BinderEvent::Unlock => out.nested(ftrace_event::BINDER_UNLOCK, |_| {}),
    }
}

/// Returns the bits of a thread's state. The trace does not name a kernel, so they are those that
/// readers expect then: of kernels before 4.14.
fn state(letters: &str) -> i64 {
    let preempted = if letters.contains('+') { 0x800 } else { 0 };
    let bits = letters.chars().map(|letter| match letter {
        'S' => 1,
        'D' => 2,
        'T' => 4,
        't' => 8,
        'X' => 0x10,
        'Z' => 0x20,
        'x' => 0x40,
        'K' => 0x80,
        'W' => 0x100,
        'P' => 0x200,
        'N' => 0x400,
        'I' => 0x402,
        _ => 0,
    });
    bits.fold(preempted, |all, bit| all | bit)
}
