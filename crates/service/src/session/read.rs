//! One batch of a trace: packets of the service and of producers, in the order that readers rely
//! on.

use ferretto_proto::BuiltinClock;
use ferretto_proto::fields::trace_packet;

use super::packets::Header;
use super::pipeline::Pipeline;
use super::{EventKind, Session};
use crate::clocks::Clocks;
use crate::context::Context;
use crate::packet::validate;
use crate::pool::BufferPool;
use crate::relay::{Relays, SentMachines};
use crate::sink::PacketSink;

/// The progress of the service's own packets: those already read, and those due.
#[derive(Debug, Default)]
pub(super) struct ReadProgress {
    /// Set once the packets at the beginning of every trace were emitted.
    began: bool,
    initial_snapshot_given: bool,
    sync_marker_due: bool,
    stats_due: bool,
    /// The index of the buffer that the next batch begins with.
    next_buffer: usize,
    /// The machines already described.
    machines: SentMachines,
}

impl ReadProgress {
    /// Requests the packets that a trace repeats from time to time.
    pub(super) fn tick(&mut self) {
        self.sync_marker_due = true;
        self.stats_due = true;
    }

    pub(super) fn ask_for_stats(&mut self) {
        self.stats_due = true;
    }

    /// Returns the progress of a clone whose trace starts from the beginning.
    pub(super) fn of_clone() -> Self {
        Self {
            stats_due: true,
            ..Self::default()
        }
    }

    /// Returns the progress of a clone whose packets follow a copy of the original's file. Clocks
    /// in the file are not repeated: after later readings, earlier ones would look like clocks that
    /// went backwards.
    pub(super) fn behind_copied_file(&self) -> Self {
        Self {
            initial_snapshot_given: self.initial_snapshot_given,
            machines: self.machines.clone(),
            ..Self::of_clone()
        }
    }
}

impl Session {
    /// Emits packets until `threshold` bytes are reached. Returns true if there are more.
    pub(crate) fn read_batch<S: PacketSink>(
        &mut self,
        cx: &mut Context,
        threshold: usize,
        sink: &mut S,
    ) -> bool {
        if self.withholds_data() {
            return false;
        }
        let header = Header {
            uid: cx.options.uid,
        };
        let (filter, compressor) = (self.filter.take(), self.compressor.take());
        let mut out = Pipeline::new(filter, cx.options.stopwatch, compressor, sink);
        self.emit_clocks(header, &mut out);
        let beginning = !std::mem::replace(&mut self.progress.began, true);
        self.emit_config(header, beginning, &mut out);
        if beginning {
            self.emit_beginning(cx, header, &mut out);
        }
        self.emit_machines(&cx.relays, header, &mut out);
        self.emit_events(header, &mut out);
        self.emit_concurrent(header, &mut out);
        self.emit_remote_clocks(&cx.relays, header, &mut out);
        if beginning {
            let vms = self.vms(&cx.buffers);
            if !vms.is_empty() {
                out.own(&header.protovms(&vms));
            }
        }
        let more = self.emit_data(&mut cx.buffers, threshold, &mut out);
        if !more {
            self.record_read_completed(&cx.now);
            self.emit_events(header, &mut out);
        }
        // Statistics describe the filter's work, and are not filtered themselves.
        self.filter = out.end_filter();
        if !more && std::mem::take(&mut self.progress.stats_due) {
            let packet = header.stats(&self.stats(cx));
            if let Some(filter) = &mut self.filter {
                filter.count_unfiltered(packet.len());
            }
            out.own(&packet);
        }
        self.compressor = out.end();
        more
    }

    /// Emits the packets that end a trace whose remaining data is left out: the service's events,
    /// and the statistics.
    pub(super) fn read_end<S: PacketSink>(&mut self, cx: &Context, sink: &mut S) {
        let header = Header {
            uid: cx.options.uid,
        };
        let mut out = Pipeline::new(self.filter.take(), cx.options.stopwatch, None, sink);
        self.emit_events(header, &mut out);
        self.filter = out.end_filter();
        out.own(&header.stats(&self.stats(cx)));
    }

    /// Returns the present size of the statistics that end a trace.
    pub(super) fn end_size(&mut self, cx: &Context) -> u64 {
        let header = Header {
            uid: cx.options.uid,
        };
        header.stats(&self.stats(cx)).len() as u64
    }

    /// Emits the packets that begin every trace.
    fn emit_beginning<S: PacketSink>(
        &mut self,
        cx: &Context,
        header: Header,
        out: &mut Pipeline<'_, S>,
    ) {
        let builtin = &self.config.builtin_data_sources;
        let with_system_info = !builtin.disable_system_info.unwrap_or(false);
        let with_extensions = !builtin.disable_extension_descriptors.unwrap_or(false);
        out.own(&header.uuid(self.uuid));
        if with_extensions {
            for descriptor in &cx.options.extension_descriptors {
                out.own(&header.extension_descriptor(descriptor));
            }
        }
        let provenance = self.provenance(&cx.buffers);
        out.own(&header.provenance(&cx.now, &provenance));
        if with_system_info {
            out.own(&header.system_info(&cx.options, &cx.now));
        }
    }

    /// Returns the boot time of the start, if the session has clocks.
    fn begun_at(&self) -> u64 {
        let initial = self.initial_snapshot.as_ref();
        initial.map_or(u64::MAX, |clocks| clocks.boottime)
    }

    /// Emits descriptions of other machines as they become known. Upstream describes only the
    /// machines that are present at the first read.
    fn emit_machines<S: PacketSink>(
        &mut self,
        relays: &Relays,
        header: Header,
        out: &mut Pipeline<'_, S>,
    ) {
        let builtin = &self.config.builtin_data_sources;
        if !builtin.disable_system_info.unwrap_or(false) {
            let since = self.begun_at();
            for (machine, info) in relays.new_machines(&mut self.progress.machines, since) {
                out.own(&header.remote_system_info(machine, &info));
            }
        }
    }

    /// Emits new comparisons of other machines' clocks. Upstream emits only one, so that the clocks
    /// drift apart in long traces.
    fn emit_remote_clocks<S: PacketSink>(
        &mut self,
        relays: &Relays,
        header: Header,
        out: &mut Pipeline<'_, S>,
    ) {
        if self.snapshots_clocks() {
            let since = self.begun_at();
            let new = relays.new_exchanges(&mut self.progress.machines, since);
            for (machine, exchanges) in new {
                out.own(&header.remote_clock_sync(machine, &exchanges));
            }
        }
    }

    fn emit_clocks<S: PacketSink>(&mut self, header: Header, out: &mut Pipeline<'_, S>) {
        let primary = match self.config.builtin_data_sources.primary_trace_clock {
            None | Some(BuiltinClock::BUILTIN_CLOCK_UNKNOWN) => {
                BuiltinClock::BUILTIN_CLOCK_BOOTTIME
            }
            Some(clock) => clock,
        };
        let primary = primary as u64;
        // The readings are kept for clones, whose traces also begin with them.
        let given = std::mem::replace(
            &mut self.progress.initial_snapshot_given,
            self.initial_snapshot.is_some(),
        );
        if let Some(initial) = self.initial_snapshot.filter(|_| !given) {
            out.own(&header.clock_snapshot(&initial, primary));
        }
        for snapshot in self.snapshots.drain() {
            out.own(&header.clock_snapshot(&snapshot, primary));
        }
        if std::mem::take(&mut self.progress.sync_marker_due) {
            out.own(&header.sync_marker());
        }
    }

    /// Emits the config once, and new triggers.
    fn emit_config<S: PacketSink>(
        &mut self,
        header: Header,
        beginning: bool,
        out: &mut Pipeline<'_, S>,
    ) {
        let builtin = &self.config.builtin_data_sources;
        if builtin.disable_trace_config.unwrap_or(false) {
            return;
        }
        if beginning {
            out.own(&header.trace_config(&self.config));
            let trigger = self.cloned.as_ref().and_then(|cloned| cloned.trigger());
            if let Some(trigger) = trigger {
                out.own(&header.trigger(trace_packet::CLONE_SNAPSHOT_TRIGGER, trigger));
            }
        }
        for trigger in self.triggers.take_new() {
            out.own(&header.trigger(trace_packet::TRIGGER, trigger));
        }
    }

    fn emits_events(&self) -> bool {
        !self
            .config
            .builtin_data_sources
            .disable_service_events
            .unwrap_or(false)
    }

    fn emit_events<S: PacketSink>(&mut self, header: Header, out: &mut Pipeline<'_, S>) {
        if self.emits_events() {
            for event in self.events.take() {
                out.own(&header.event(&event));
            }
        }
    }

    fn emit_concurrent<S: PacketSink>(&mut self, header: Header, out: &mut Pipeline<'_, S>) {
        for event in self.concurrent.take() {
            out.own(&header.concurrent_session(&event));
        }
    }

    fn record_read_completed(&mut self, now: &Clocks) {
        if self.emits_events() {
            self.record(now, EventKind::ReadCompleted, false);
        }
    }

    /// Emits producers' packets, buffer by buffer. Returns true if there are more.
    ///
    /// Each batch begins with another buffer, so that a buffer that is filled as fast as it is read
    /// does not block the others.
    fn emit_data<S: PacketSink>(
        &mut self,
        buffers: &mut BufferPool,
        threshold: usize,
        out: &mut Pipeline<'_, S>,
    ) -> bool {
        let first = std::mem::take(&mut self.progress.next_buffer);
        let count = self.buffers.len();
        for index in (0..count).map(|step| (first + step) % count) {
            let id = self.buffers.get(index).copied();
            let Some(buffer) = id.and_then(|id| buffers.get_mut(id)) else {
                continue;
            };
            while let Some(packet) = buffer.read_next() {
                // Dropped packets count as well, so that they cannot make a batch endless.
                out.bytes += packet.len();
                if validate(packet.fragments()).is_err() {
                    self.invalid_packets += 1;
                } else {
                    let trusted = self.sequences.trusted(&packet).encode();
                    out.bytes += trusted.as_bytes().len();
                    out.of_producer(index, &packet, trusted.as_bytes());
                }
                if out.bytes >= threshold || out.is_full() {
                    self.progress.next_buffer = index + 1;
                    return true;
                }
            }
        }
        false
    }

    /// Returns the sequence ids and producers of each buffer's writers, as far as known.
    fn provenance(&mut self, buffers: &BufferPool) -> Vec<Vec<(u32, u16)>> {
        let mut all = Vec::with_capacity(self.buffers.len());
        for id in &self.buffers {
            let mut writers: Vec<_> = buffers.get(*id).map_or_else(Vec::new, |buffer| {
                buffer
                    .writer_stats()
                    .map(|stats| (stats.producer, stats.writer))
                    .collect()
            });
            writers.sort_unstable();
            let senders = &self.senders;
            let sequences = &mut self.sequences;
            let pairs = writers.into_iter().map(|(producer, writer)| {
                let sender = senders.get(&producer).copied().unwrap_or_default();
                (sequences.id(sender, producer, writer), producer)
            });
            all.push(pairs.collect());
        }
        all
    }
}
