//! The last step of a summary: totals, losses and notes.

use std::collections::BTreeMap;

use ferretto_proto::fields::trace_packet as packet_field;
use ferretto_text::amount::{counted, human_time};

use super::loss::Loss;
use super::stats::Stats;
use super::{Recording, SourceSummary, Summarizer, Summary, ftrace, heap, names, profile, writers};
use crate::profile::Profile;
use crate::reader::Damage;

impl Summarizer {
    /// Returns the losses in the recordings of other machines.
    fn losses_of_others(&self) -> Vec<Loss> {
        let of = |(machine, recording): (&u32, &Recording)| {
            let writers = self.sequences.states();
            let writers = writers
                .map(|(id, state)| (id, &state.writer))
                .filter(|(_, writer)| writer.machine() == *machine);
            let (stats, config) = (recording.stats.as_ref(), &recording.config);
            let mut losses = writers::losses(writers, stats, config, &self.threads);
            if let Some(stats) = stats {
                losses.extend(stats.losses(config, recording.ending.slow()));
            }
            let name = self.machines.name(*machine);
            for loss in &mut losses {
                loss.source = format!("{name}: {}", loss.source);
            }
            losses
        };
        self.others.iter().flat_map(of).collect()
    }

    /// Returns the summary. Its size is that of the packets; [`summarize`](super::summarize)
    /// replaces it by the size of the file.
    pub fn finish(self) -> Summary {
        let window = self.part.window();
        let bounds = self.times.bounds();
        let duration_ns = match (bounds, self.ending.started, self.ending.stopped) {
            (Some(bounds), ..) => Some(bounds.length()),
            (None, Some(start), Some(stop)) => Some(stop.saturating_sub(start)),
            _ => None,
        };
        let mut config = self.config.clone().unwrap_or_default();
        config.perf.is_of_root = self.is_profiler_root;
        let mut notes = Vec::new();
        notes.extend(self.part.note(self.ending.started, self.ending.stopped));
        notes.extend(self.ending.limit_note());
        if !self.ftrace.missing().is_empty() {
            notes.push(format!(
                "kernel events that were not available: {}",
                self.ftrace.missing().join(", ")
            ));
        }
        if self.malformed > 0 {
            notes.push(format!("{} malformed", counted(self.malformed, "packet")));
        }
        let unknown = self.unknown();
        let is_of_others = self.is_of_others();
        let mut losses = self.ftrace.losses(&config);
        if let Some(stats) = &self.stats {
            losses.extend(stats.losses(&config, self.ending.slow()));
        }
        losses.extend(self.losses_of_others());
        let writers = self
            .sequences
            .states()
            .map(|(id, state)| (id, &state.writer))
            .filter(|(_, writer)| !self.others.contains_key(&writer.machine()));
        losses.extend(writers::losses(
            writers.chain([(0, &self.unnumbered)]),
            self.stats.as_ref(),
            &config,
            &self.threads,
        ));
        let sources = self.sources();
        let health = self.health.finish();
        let mut threads = self.threads;
        let cpus = self
            .sched
            .finish(&mut threads, bounds.map(|bounds| bounds.end));
        let processes = threads.by_process();
        let pids = self.command.pids().to_vec();
        let own = self.command.processes(&threads);
        let (activity, own_system_calls) = match self.ftrace.activity {
            Some(activity) => activity.finish(&threads, &own, self.command.pid(&threads)),
            None => Default::default(),
        };
        // Statistics of CPUs do not tell which process ran.
        let has_switches = cpus
            .iter()
            .any(|cpu| cpu.machine == 0 && cpu.switches.is_some());
        let command = self.command.finish(&threads, own, has_switches);
        let thread_count = threads.len();
        let memory = self.memory.finish(&threads);
        notes.extend(self.cgroups.note());
        let cgroups = self.cgroups.finish(&processes);
        let mut stacks = self.stacks;
        let profile = Profile::new(self.samples, self.sequences.into_clocks(), threads);
        losses.extend(profile::losses(&profile, &config.perf));
        notes.extend(profile::notes(&profile, window.is_some()));
        notes.extend(heap::notes(&profile));
        let is_over = is_of_others || self.ending.doubt().is_none();
        let remarks = self.remarks.finish();
        let kinds: Vec<u32> = self.kinds.keys().copied().collect();
        let has_reason = !remarks.is_empty();
        // The part after the end of a truncated or full file is unknown, so no data can be reported
        // as missing.
        if is_over && !self.ending.is_cut() {
            notes.extend(self.wanted.notes(&kinds, &profile, has_reason));
        }
        notes.extend(remarks);
        Summary {
            bytes: self.bytes,
            compressed: None,
            damage: Damage::default(),
            left_out: self.budget.refused(),
            packets: self.packets,
            duration_ns,
            command,
            sources,
            cpus,
            activity,
            pids,
            own_system_calls,
            profiles: profile::summaries(&profile, &mut stacks),
            heaps: heap::summaries(&profile),
            threads: thread_count,
            processes,
            counters: self.counters.finish(),
            frequencies: self.frequencies.finish(),
            memory,
            cgroups,
            machines: self.machines.finish(),
            track_events: self.track_events.finish(),
            health,
            losses,
            unknown,
            notes,
        }
    }

    /// Returns true if the trace has only recordings of other machines.
    fn is_of_others(&self) -> bool {
        !self.others.is_empty() && self.config.is_none() && self.stats.is_none()
    }

    /// Returns the reasons for possible unreported losses.
    fn unknown(&self) -> Vec<String> {
        let mut unknown: Vec<String> = Vec::new();
        for (machine, recording) in &self.others {
            let name = self.machines.name(*machine);
            let doubt = recording.ending.doubt();
            unknown.extend(doubt.map(|doubt| format!("{name}: {doubt}")));
        }
        if !self.is_of_others() {
            unknown.extend(self.ending.doubt().map(str::to_owned));
        }
        let has_flush_loss = self.stats.as_ref().is_some_and(Stats::has_flush_loss);
        // Otherwise they are reported with the losses.
        for source in self.ending.slow().iter().filter(|_| !has_flush_loss) {
            unknown.push(format!(
                "{source} left before the recording ended; the data that it had not committed, and all later data, is missing"
            ));
        }
        let asked = match self.part.window() {
            // A part contains no flush events, and ends before the recording.
            Some(_) => None,
            None => self.ending.last_asked(),
        };
        if let Some(ns) = self.ftrace.missing_at_the_end(asked) {
            unknown.push(format!(
                "the recorder of kernel events ended {} before the recording; later events are missing",
                human_time(ns)
            ));
        } else if !self.ftrace.has_stats() && self.ftrace.total() > 0 {
            let sentence =
                "the trace has no statistics of the kernel's buffers, so their losses are unknown";
            unknown.push(sentence.to_owned());
        }
        unknown
    }

    fn sources(&self) -> Vec<SourceSummary> {
        let mut sources: BTreeMap<String, SourceSummary> = BTreeMap::new();
        for (&kind, &(packets, bytes)) in &self.kinds {
            let packet_name = names::field_name("perfetto.protos.TracePacket", kind);
            let name = names::source_of(kind).unwrap_or(&packet_name).to_owned();
            let source = sources
                .entry(name.clone())
                .or_insert_with(|| SourceSummary {
                    name,
                    events: 0,
                    bytes: 0,
                    kinds: Vec::new(),
                });
            source.bytes = source.bytes.saturating_add(bytes);
            if kind != packet_field::FTRACE_EVENTS && kind != packet_field::FTRACE_STATS {
                source.events += packets;
                source.kinds.push((packet_name, packets));
            }
        }
        if let Some(source) = sources.get_mut("linux.ftrace") {
            source.events = self.ftrace.total();
            let name = |kind| match kind {
                ftrace::FIRST_GENERIC => "other events".to_owned(),
                kind => names::field_name("perfetto.protos.FtraceEvent", kind),
            };
            let kinds = self.ftrace.events.iter();
            source.kinds = kinds.map(|(kind, count)| (name(*kind), *count)).collect();
            let generic = self.ftrace.generic.iter();
            let generic = generic.map(|(name, count)| (name.clone(), *count));
            source.kinds.extend(generic);
        }
        for source in sources.values_mut() {
            source.kinds.sort_by_key(|kind| std::cmp::Reverse(kind.1));
        }
        let mut sources: Vec<_> = sources.into_values().collect();
        sources.sort_by_key(|source| {
            (
                source.name == names::SERVICE,
                std::cmp::Reverse(source.events),
            )
        });
        sources
    }
}
