//! Conversion of the raw pages of one CPU to `FtraceEventBundle` packets.

use std::collections::BTreeSet;
use std::sync::Arc;

use ferretto_proto::fields::{ftrace_event, ftrace_event_bundle as bundle, trace_packet};
use ferretto_symbols::KernelSymbols;
use ferretto_wire::{Encoder, Mark, Sink};

use super::compact::{CompactBuffer, CompactFormat};
use super::decoder::{Env, EventDecoder, StringTable};
use super::dynamic::is_dynamic_group;
use super::metadata::Metadata;
use super::page::{Page, ParseStatus, ParsedPage, Record};
use super::print_filter::PrintFilter;
use super::symbols;
use super::throttle::RssLayout;
use crate::PacketSink;

/// Field number of `FtraceEvent.generic`.
const GENERIC: u32 = ftrace_event::GENERIC;

/// The action of a data source for records of one event id.
#[derive(Debug, Clone, Default)]
pub enum Action {
    /// Skip the record.
    #[default]
    Skip,
    /// Write `sched_switch` in compact form, or as any other event if it does not continue the
    /// chain of switches of its CPU.
    CompactSwitch(Arc<EventDecoder>),
    /// Write `sched_waking` in compact form, or as any other event if the thread that wakes is not
    /// the one that readers take for the running one.
    CompactWaking,
    /// Write `ftrace/print` if the filter accepts it.
    Filtered(Arc<EventDecoder>),
    /// Write `kmem/rss_stat` if the size has changed by a step.
    Throttled(Arc<EventDecoder>),
    /// Write any other event.
    Event(Arc<EventDecoder>),
}

/// The parameters for converting pages to packets for one data source.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The width of the commit word of a page.
    pub commit_size: usize,
    /// The offset of `common_pid` in every record.
    pub common_pid: Option<usize>,
    /// The action for each event id; ids beyond the end are skipped.
    pub actions: Vec<Action>,
    /// The layout for the compact actions.
    pub compact: Option<CompactFormat>,
    /// The texts of kernel string addresses.
    pub strings: Arc<StringTable>,
    /// The rules for `ftrace/print`.
    pub print_filter: Option<PrintFilter>,
    /// The layout of `kmem/rss_stat`, if its records are throttled.
    pub throttle: Option<RssLayout>,
    /// Set to write events without a dedicated message as names and values.
    pub legacy_generic: bool,
    /// The system calls whose result is a new file descriptor.
    pub opening_syscalls: Vec<i64>,
    /// The names of kernel addresses, if requested.
    pub symbols: Option<Arc<KernelSymbols>>,
}

impl Plan {
    /// Creates a plan that skips every event.
    pub fn empty(commit_size: usize) -> Self {
        Self {
            commit_size,
            common_pid: None,
            actions: Vec::new(),
            compact: None,
            strings: Arc::default(),
            print_filter: None,
            throttle: None,
            legacy_generic: false,
            opening_syscalls: Vec::new(),
            symbols: None,
        }
    }

    /// Sets the action for records of event `id`.
    pub fn set_action(&mut self, id: u16, action: Action) {
        let index = usize::from(id);
        if self.actions.len() <= index {
            self.actions.resize_with(index + 1, Action::default);
        }
        self.actions[index] = action;
    }

    /// Returns the thread of a record, if it has one.
    #[inline]
    fn pid(&self, record: &[u8]) -> Option<i32> {
        let bytes = record.get(self.common_pid?..)?.first_chunk()?;
        Some(i32::from_le_bytes(*bytes))
    }
}

/// Simultaneous readings of the trace clock and of boottime, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockSnapshot {
    /// Number of the clock in `FtraceClock`.
    pub clock: u32,
    /// Trace clock.
    pub ftrace_ns: i64,
    /// Boottime.
    pub boot_ns: i64,
}

/// The state of a data source for one CPU between batches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuState {
    /// Time of the last event written.
    pub end_timestamp: u64,
    /// The thread that readers take for the running one: the next thread of the last switch.
    pub running: Option<i32>,
}

/// The pages of one CPU from one read pass, and their metadata.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// CPU number.
    pub cpu: u32,
    /// The pages with parsed headers.
    pub pages: &'a [ParsedPage<'a>],
    /// The clock reading, if the trace clock is not boottime.
    pub clock: Option<ClockSnapshot>,
}

/// Converts batches to packets. Its memory is reused.
#[derive(Debug, Default)]
pub struct Bundler {
    packet: Vec<u8>,
    compact: CompactBuffer,
    open: Option<Mark>,
    descriptors: Vec<(u32, Arc<EventDecoder>)>,
}

impl Bundler {
    /// Parses every page of `batch` and writes the resulting packets to `sink`.
    ///
    /// An error in a page only drops the rest of that page; it is added to `errors` and noted in
    /// the bundle.
    pub fn process(
        &mut self,
        plan: &Plan,
        batch: &Batch<'_>,
        state: &mut CpuState,
        metadata: &mut Metadata,
        errors: &mut BTreeSet<ParseStatus>,
        sink: &mut dyn PacketSink,
    ) {
        let previous_end = state.end_timestamp;
        for page in batch.pages {
            let page = match page {
                Ok(page) => page,
                Err(header) => {
                    errors.insert(ParseStatus::InvalidPageHeader);
                    self.ensure_open(batch, previous_end);
                    self.error(header.timestamp, ParseStatus::InvalidPageHeader);
                    continue;
                }
            };
            if page.lost_events || self.compact.past_threshold() {
                self.finish(plan, metadata, sink);
                self.start(batch, page.lost_events, state.end_timestamp);
            }
            let running = &mut state.running;
            match self.page(plan, batch, page, (previous_end, running), metadata) {
                Ok(0) => {}
                Ok(last) => state.end_timestamp = last,
                Err(status) => {
                    errors.insert(status);
                    self.ensure_open(batch, previous_end);
                    self.error(page.timestamp, status);
                }
            }
        }
        self.finish(plan, metadata, sink);
    }

    /// Converts the records of one page. Returns the time of the last event written, or 0.
    fn page(
        &mut self,
        plan: &Plan,
        batch: &Batch<'_>,
        page: &Page<'_>,
        (previous_end, running): (u64, &mut Option<i32>),
        metadata: &mut Metadata,
    ) -> Result<u64, ParseStatus> {
        let mut last = 0;
        for record in page.records() {
            let record = record?;
            let Some(action) = plan.actions.get(usize::from(record.id)) else {
                continue;
            };
            match action {
                Action::Skip => continue,
                Action::CompactSwitch(_) | Action::CompactWaking => {
                    self.ensure_open(batch, previous_end);
                    self.compact_event(plan, action, &record, running, metadata)?;
                }
                Action::Filtered(decoder) | Action::Throttled(decoder) | Action::Event(decoder) => {
                    let (time, data) = (record.timestamp, record.data);
                    let is_wanted = match (action, &plan.print_filter, plan.throttle) {
                        (Action::Filtered(_), Some(filter), _) => filter.allows(data),
                        (Action::Throttled(_), _, Some(layout)) => {
                            metadata.throttle.takes(layout, time, data)
                        }
                        _ => true,
                    };
                    if !is_wanted {
                        continue;
                    }
                    self.ensure_open(batch, previous_end);
                    self.event(plan, decoder, &record, metadata)?;
                }
            }
            last = record.timestamp;
        }
        Ok(last)
    }

    /// Writes a switch or a wake-up. Their compact form has neither the previous thread nor the
    /// waker: readers know both from the switch before. If the kernel left that out, because it is
    /// lost or was not traced, the whole event is written.
    #[inline]
    fn compact_event(
        &mut self,
        plan: &Plan,
        action: &Action,
        record: &Record<'_>,
        running: &mut Option<i32>,
        metadata: &mut Metadata,
    ) -> Result<(), ParseStatus> {
        let Some(format) = &plan.compact else {
            return Err(ParseStatus::ShortCompactEvent);
        };
        let (time, data) = (record.timestamp, record.data);
        let pid = plan.pid(data);
        let is_continued = running.is_none() || pid == *running;
        let result = match action {
            Action::CompactSwitch(decoder) => {
                *running = format.next_pid(data);
                if !is_continued {
                    return self.event(plan, decoder, record, metadata);
                }
                self.compact.add_switch(format, time, data, metadata)
            }
            _ if !is_continued => {
                let of = (time, pid.unwrap_or(0));
                format.write_waking(of, data, metadata, &mut Encoder::new(&mut self.packet))
            }
            _ => self.compact.add_waking(format, time, data, metadata),
        };
        result.map_err(|_| ParseStatus::ShortCompactEvent)
    }

    fn event(
        &mut self,
        plan: &Plan,
        decoder: &Arc<EventDecoder>,
        record: &Record<'_>,
        metadata: &mut Metadata,
    ) -> Result<(), ParseStatus> {
        let pid = plan.pid(record.data);
        if let Some(short) = decoder.short()
            && record.data.len() >= decoder.min_size
            && let (time, data) = (record.timestamp, record.data)
            && short
                .write(time, pid, data, metadata, &mut self.packet)
                .is_some()
        {
            return Ok(());
        }
        let good = Encoder::new(&mut self.packet).nested(bundle::EVENT, |event| {
            event.varint(ftrace_event::TIMESTAMP, record.timestamp);
            if record.data.len() < decoder.min_size {
                return false;
            }
            let common_pid = pid.unwrap_or(0);
            if let Some(pid) = pid {
                metadata.add_pid(pid);
                event.int(ftrace_event::PID, pid.into());
            }
            let opening_syscalls = &plan.opening_syscalls;
            let mut env = Env {
                strings: &plan.strings,
                metadata,
                common_pid,
                opening_syscalls,
            };
            let legacy = plan.legacy_generic && decoder.descriptor.is_some();
            let number = if legacy { GENERIC } else { decoder.number };
            let good = event.nested(number, |body| {
                if legacy {
                    decoder.encode_legacy(record.data, &mut env, body)
                } else {
                    decoder.encode(record.data, &mut env, body)
                }
            });
            if decoder.renames_task() {
                env.metadata.add_renamed(common_pid);
            }
            if decoder.ends_task() {
                env.metadata.add_ended(common_pid);
            }
            good
        });
        if !plan.legacy_generic {
            self.describe(plan, decoder);
        }
        if good {
            Ok(())
        } else {
            Err(ParseStatus::InvalidEvent)
        }
    }

    /// Adds the description of an event to the bundle. The events of probes are described together,
    /// so that readers know at the call of a function whether its return is recorded, too.
    fn describe(&mut self, plan: &Plan, decoder: &Arc<EventDecoder>) {
        let is_new = |known: &[(u32, _)], decoder: &EventDecoder| {
            decoder.descriptor.is_some()
                && !known.iter().any(|(number, _)| *number == decoder.number)
        };
        if !is_new(&self.descriptors, decoder) {
            return;
        }
        self.descriptors.push((decoder.number, Arc::clone(decoder)));
        if !is_dynamic_group(&decoder.group) {
            return;
        }
        for action in &plan.actions {
            if let Action::Event(other) = action
                && other.group == decoder.group
                && is_new(&self.descriptors, other)
            {
                self.descriptors.push((other.number, Arc::clone(other)));
            }
        }
    }

    #[inline]
    fn ensure_open(&mut self, batch: &Batch<'_>, previous_end: u64) {
        if self.open.is_none() {
            self.start(batch, false, previous_end);
        }
    }

    fn start(&mut self, batch: &Batch<'_>, lost_events: bool, previous_end: u64) {
        const LENGTH_DELIMITED: u8 = 2;
        self.packet.clear();
        self.packet
            .push((trace_packet::FTRACE_EVENTS as u8) << 3 | LENGTH_DELIMITED);
        self.open = Some(self.packet.open());
        let mut out = Encoder::new(&mut self.packet);
        out.varint(bundle::CPU, batch.cpu.into());
        if lost_events {
            out.bool(bundle::LOST_EVENTS, true);
        }
        out.varint(bundle::PREVIOUS_BUNDLE_END_TIMESTAMP, previous_end);
        if let Some(clock) = batch.clock {
            out.varint(bundle::FTRACE_CLOCK, clock.clock.into());
            out.int(bundle::FTRACE_TIMESTAMP, clock.ftrace_ns);
            out.int(bundle::BOOT_TIMESTAMP, clock.boot_ns);
        }
    }

    fn error(&mut self, timestamp: u64, status: ParseStatus) {
        use bundle::ftrace_error as error;
        Encoder::new(&mut self.packet).nested(bundle::ERROR, |out| {
            if timestamp != 0 {
                out.varint(error::TIMESTAMP, timestamp);
            }
            out.varint(error::STATUS, status as u64);
        });
    }

    fn finish(&mut self, plan: &Plan, metadata: &mut Metadata, sink: &mut dyn PacketSink) {
        let Some(mark) = self.open.take() else { return };
        let mut out = Encoder::new(&mut self.packet);
        self.compact.write(&mut out);
        for (_, decoder) in self.descriptors.drain(..) {
            if let Some(descriptor) = &decoder.descriptor {
                out.bytes(bundle::GENERIC_EVENT_DESCRIPTORS, descriptor);
            }
        }
        self.packet.close(mark);
        if let Some(symbols) = &plan.symbols {
            symbols::write_new(symbols, metadata, &mut Encoder::new(&mut self.packet));
        }
        sink.write_packet(&self.packet);
    }
}
