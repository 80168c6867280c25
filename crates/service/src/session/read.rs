//! One batch of a trace: the service's packets and the producers', in the order readers rely on.

use ferretto_proto::BuiltinClock;
use ferretto_proto::fields::trace_packet;

use super::packets::Header;
use super::pipeline::Pipeline;
use super::{EventKind, Session};
use crate::clocks::Clocks;
use crate::limits::SessionId;
use crate::packet::validate;
use crate::pool::BufferPool;
use crate::service::Service;

/// Where packets go.
pub(crate) trait PacketSink {
    /// Takes a packet given in pieces, none longer than [`MAX_SLICE`].
    fn packet<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]> + Clone);

    /// Whether anything more would be thrown away.
    fn is_full(&self) -> bool {
        false
    }
}

impl Service {
    /// Hands out packets until `threshold` bytes are reached. Returns whether there is more.
    pub(crate) fn read_batch<S: PacketSink>(
        &mut self,
        id: SessionId,
        threshold: usize,
        sink: &mut S,
    ) -> bool {
        let now = self.now;
        let header = Header {
            uid: self.options.uid,
        };
        let Some(session) = self.sessions.get_mut(&id) else {
            return false;
        };
        if session.withholds_data() {
            return false;
        }
        let mut out = Pipeline::begin(session, self.options.stopwatch, sink);
        session.emit_clocks(header, &mut out);
        let beginning = !std::mem::replace(&mut session.progress.began, true);
        session.emit_config(header, beginning, &mut out);
        if beginning {
            self.emit_beginning(id, header, &mut out);
        }
        self.emit_machines(id, header, &mut out);
        let Some(session) = self.sessions.get_mut(&id) else {
            return false;
        };
        session.emit_events(header, &mut out);
        session.emit_concurrent(header, &mut out);
        self.emit_remote_clocks(id, header, &mut out);
        let Some(session) = self.sessions.get_mut(&id) else {
            return false;
        };
        if beginning {
            let vms = session.vms(&self.buffers);
            if !vms.is_empty() {
                out.own(&header.protovms(&vms));
            }
        }
        let more = session.emit_data(&mut self.buffers, threshold, &mut out);
        if !more {
            session.record_read_completed(&now);
            session.emit_events(header, &mut out);
        }
        // Statistics say what the filter did, and are not filtered themselves.
        out.end_filter(session);
        if !more
            && std::mem::take(&mut session.progress.stats_due)
            && let Some(stats) = self.trace_stats(id)
        {
            let packet = header.stats(&stats);
            if let Some(filter) = self.sessions.get_mut(&id).and_then(|s| s.filter.as_mut()) {
                filter.counters.count(packet.len(), Ok(packet.len()), None);
            }
            out.own(&packet);
        }
        if let Some(session) = self.sessions.get_mut(&id) {
            out.end(session);
        }
        more
    }

    /// What stands once at the beginning of every trace.
    fn emit_beginning<S: PacketSink>(
        &mut self,
        id: SessionId,
        header: Header,
        out: &mut Pipeline<'_, S>,
    ) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let builtin = &session.config.builtin_data_sources;
        let with_system_info = !builtin.disable_system_info.unwrap_or(false);
        let with_extensions = !builtin.disable_extension_descriptors.unwrap_or(false);
        out.own(&header.uuid(session.uuid));
        if with_extensions {
            for descriptor in &self.options.extension_descriptors {
                out.own(&header.extension_descriptor(descriptor));
            }
        }
        let provenance = session.provenance(&self.buffers);
        out.own(&header.provenance(&self.now, &provenance));
        if with_system_info {
            out.own(&header.system_info(&self.options, &self.now));
        }
    }

    /// Descriptions of other machines, as they become known. Upstream tells of those only that were there
    /// at the first read.
    fn emit_machines<S: PacketSink>(
        &mut self,
        id: SessionId,
        header: Header,
        out: &mut Pipeline<'_, S>,
    ) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let builtin = &session.config.builtin_data_sources;
        if builtin.disable_system_info.unwrap_or(false) {
            return;
        }
        let mut told = std::mem::take(&mut session.progress.machines);
        for (machine, info) in self.new_machines(&mut told) {
            out.own(&header.remote_system_info(machine, &info));
        }
        if let Some(session) = self.sessions.get_mut(&id) {
            session.progress.machines = told;
        }
    }

    /// How the clocks of other machines relate to ours, whenever that was measured anew. Upstream tells
    /// it once, so that clocks drift apart in long traces.
    fn emit_remote_clocks<S: PacketSink>(
        &mut self,
        id: SessionId,
        header: Header,
        out: &mut Pipeline<'_, S>,
    ) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if !session.snapshots_clocks() {
            return;
        }
        let mut told = std::mem::take(&mut session.progress.machines);
        for (machine, exchanges) in self.new_exchanges(&mut told) {
            out.own(&header.remote_clock_sync(machine, &exchanges));
        }
        if let Some(session) = self.sessions.get_mut(&id) {
            session.progress.machines = told;
        }
    }
}

impl Session {
    fn emit_clocks<S: PacketSink>(&mut self, header: Header, out: &mut Pipeline<'_, S>) {
        let primary = match self.config.builtin_data_sources.primary_trace_clock {
            None | Some(BuiltinClock::BUILTIN_CLOCK_UNKNOWN) => {
                BuiltinClock::BUILTIN_CLOCK_BOOTTIME
            }
            Some(clock) => clock,
        };
        let primary = primary as u64;
        // Kept for clones, whose traces begin with it as well.
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

    /// The config, once, and the triggers that came since.
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
            let trigger = self
                .cloned
                .as_ref()
                .and_then(|cloned| cloned.trigger.as_ref());
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

    /// Producers' packets, buffer by buffer. Returns whether there are more.
    ///
    /// Each batch begins with another buffer, so that one that is filled as fast as it is read does not keep the others
    /// from being read.
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

    /// Sequence ids and producers of each buffer's writers, as far as known.
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
