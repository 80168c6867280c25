//! The features of one recording.

use std::collections::BTreeSet;
use std::ops::Range;

use ferretto_tables::schema::TableId;
use ferretto_tables::{Lost, Severity, TableSet, Trace};
use ferretto_why::{Recorded, Why};

use crate::context::Context;
use crate::feature::{CALLS, Feature, Kind, WAITED_FOR_CPU};
use crate::values::Values;
use crate::{
    calls, counters, cpu, disks, heap, neighbours, path, resources, setup, slices, threads,
};

/// The tables that a comparison needs.
pub const TABLES: TableSet = ferretto_why::TABLES
    .without(TableId::args)
    .with(TableId::counter)
    .with(TableId::cpu_freq)
    .with(TableId::heap_profile_allocation)
    .with(TableId::machine)
    .with(TableId::metadata)
    .with(TableId::stats);

/// The thing whose times are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// A recorded command: all of its time.
    Command,
    /// A machine or a program that was recorded for a while: times per second.
    Period,
}

/// The features of one recording, or of a part of it.
#[derive(Debug, Clone)]
pub struct Recording {
    pub(crate) values: Values,
    pub(crate) scope: Scope,
    /// The length of the compared time in nanoseconds.
    pub(crate) duration: f64,
    /// That time without waits of the command for a CPU.
    pub(crate) own_duration: f64,
    /// The time in which the command waited for a CPU that another program had.
    pub(crate) behind_others: f64,
    /// The time in nanoseconds of the command of which nothing is known, as switches of threads are
    /// missing.
    pub(crate) lost: f64,
    /// The share of the time that threads were ready in which they had no CPU.
    pub(crate) busyness: f64,
    /// The share of the other CPUs that other programs had while the compared threads ran.
    pub(crate) occupied: f64,
    /// Facts about machine, command and config.
    pub(crate) setup: Vec<(String, String)>,
    /// The names of the compared processes.
    pub(crate) processes: BTreeSet<String>,
    /// The kinds of data that it has.
    pub(crate) recorded: Recorded,
    /// Set if it has requests to disks.
    pub(crate) has_requests: bool,
    /// Set if the kernel left out switches of threads.
    pub(crate) lacks_switches: bool,
    /// The time in nanoseconds in which switches of threads are missing, of all CPUs.
    pub(crate) unknown: f64,
    /// The time in nanoseconds in which a virtual machine's host had its CPUs. The kernel counts it
    /// as that of the threads that ran.
    pub(crate) stolen: f64,
    /// The sum of the statistics of lost data.
    pub(crate) losses: u64,
}

impl Recording {
    /// Reads the features of a trace that has the tables [`TABLES`], or of a range of it.
    pub fn new(trace: &Trace, range: Option<Range<i64>>) -> Self {
        Self::of(Why::new(trace), range)
    }

    /// Reads the features of a trace that has been prepared, or of a range of it.
    pub fn of(why: Why<'_>, range: Option<Range<i64>>) -> Self {
        let trace = why.trace();
        let context = Context::new(why, range);
        let mut values = Values::default();
        let path = path::read(&context, &mut values);
        cpu::read(&context, &mut values);
        slices::read(&context, &mut values);
        let called = calls::read(&context, &mut values);
        counters::read(&context, &mut values);
        heap::read(&context, &mut values);
        disks::read(&context, &mut values);
        threads::read(&context, &mut values);
        resources::read(&context, &mut values);
        let scope = match context.command {
            Some(_) => Scope::Command,
            None => Scope::Period,
        };
        let stats = &trace.tables().stats;
        let is_loss = |row: &u32| {
            let severity = trace.strings().text(stats.severity().get(*row));
            severity == Severity::DataLoss.as_str()
        };
        let losses = (0..stats.len()).filter(is_loss);
        let losses = losses.map(|row| u64::try_from(stats.value().get(row)).unwrap_or(0));
        let duration = (context.range.end.saturating_sub(context.range.start)).max(1) as f64;
        let waits = values.iter().filter(|(feature, _)| {
            let is_cpu = feature.kind == Kind::Path && feature.name == WAITED_FOR_CPU;
            is_cpu && feature.detail.is_empty()
        });
        let waits: f64 = waits.map(|(_, value)| value.value).sum();
        Self {
            scope,
            behind_others: path.behind_others,
            lost: path.lost,
            own_duration: (duration - waits).max(1.0),
            values,
            duration,
            busyness: context.busyness(),
            occupied: neighbours::occupied(&context),
            setup: setup::read(&context),
            processes: context.process_names(),
            recorded: context.why.recorded(),
            has_requests: !trace.disk_requests().is_empty(),
            lacks_switches: !trace.missing_switches().is_empty(),
            unknown: called + unknown(trace, &context.range),
            stolen: counters::stolen(trace, &context.range),
            losses: losses.fold(0, u64::saturating_add),
        }
    }

    /// Returns true if it has the data that tells of a feature. Without, its value is not known.
    pub(crate) fn tells(&self, feature: &Feature) -> bool {
        match feature.kind {
            Kind::Calls => self.recorded.system_calls,
            Kind::CallTime => self.recorded.system_calls && self.recorded.switches,
            Kind::Threads => self.recorded.switches,
            Kind::Requests | Kind::RequestBytes | Kind::RequestTime => self.has_requests,
            Kind::Path if feature.name == CALLS => self.recorded.system_calls,
            Kind::Cpu if !feature.detail.is_empty() => self.recorded.samples,
            Kind::Duration | Kind::Path | Kind::Cpu | Kind::Wait => self.recorded.switches,
            _ => true,
        }
    }

    /// Returns the thing whose times are compared.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Returns the share of the time of the recorded command in which it waited for a CPU that
    /// another program had. `None` if there is no command, or no scheduling.
    pub fn behind_others(&self) -> Option<f64> {
        let tells = self.scope == Scope::Command && self.recorded.switches;
        tells.then_some(self.behind_others / self.duration)
    }

    /// Returns true if data was lost when it was recorded.
    pub fn has_losses(&self) -> bool {
        self.losses > 0
    }
}

/// Returns the time of a range in which it is not known what ran on the CPUs.
fn unknown(trace: &Trace, range: &Range<i64>) -> f64 {
    let times = trace.losses().iter().filter_map(|loss| match loss.lost {
        Lost::Switches { from, since, .. } => {
            let (from, since) = (from.max(range.start), since.min(range.end));
            (since > from).then_some((since - from) as f64)
        }
        _ => None,
    });
    times.sum()
}
