//! Callstack samples: the functions with the most samples, and missing or incomplete callstacks.

use std::collections::BTreeMap;

use ferretto_text::amount::counted;

use super::config::PerfConfig;
use super::loss::{Cause, Loss};
use crate::profile::{
    Count, Event, HotFunction, Interval, Origin, Problem, Profile, Session, Share, SkipReason,
    StackCounts, UnwindError, Value, hottest, processes, threads,
};

/// The maximum number of functions, processes and threads in a summary.
const TOP: usize = 32;
/// The maximum number of events in a summary.
const MAX_EVENTS: usize = 16;

/// The summary of on-CPU or off-CPU callstack samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileSummary {
    /// True for off-CPU samples.
    pub is_off_cpu: bool,
    /// True for an aggregated profile, which has amounts but no samples.
    pub is_added_up: bool,
    /// The quantity by which samples are counted.
    pub value: Value,
    /// The event that triggered samples.
    pub event: Event,
    /// The sampling interval.
    pub interval: Interval,
    /// The count of samples with a callstack. For off-CPU samples, the weight is time.
    pub total: Count,
    /// The number of samples of idle CPUs, which are not included.
    pub idle: u64,
    /// The number of included samples with an incomplete callstack, by reason, the most frequent
    /// first.
    pub truncated: Vec<(UnwindError, u64)>,
    /// The count of included samples in a function without a name.
    pub unnamed: Count,
    /// The functions with the most samples of their own.
    pub functions: Vec<HotFunction>,
    /// The processes with the most samples.
    pub processes: Vec<Share>,
    /// The threads with the most samples.
    pub threads: Vec<Share>,
}

/// Returns the summaries of on-CPU and off-CPU samples by event, if there are any.
pub(super) fn summaries(profile: &Profile, counts: &mut StackCounts) -> Vec<ProfileSummary> {
    let mut summaries = Vec::new();
    for is_off_cpu in [false, true] {
        counts.set_off_cpu(Some(is_off_cpu));
        for event in counts.events(profile).into_iter().take(MAX_EVENTS) {
            counts.set_event(Some(event));
            summaries.extend(summary(profile, counts, is_off_cpu));
        }
        counts.set_event(None);
    }
    summaries
}

fn summary(profile: &Profile, counts: &StackCounts, is_off_cpu: bool) -> Option<ProfileSummary> {
    let first = counts.iter(profile).map(|(key, _)| key.session).min()?;
    let session = profile.session(first)?;
    let value = counts.value(profile);
    let event = counts.event(profile).cloned().unwrap_or_default();
    let is_follower = event != session.event;
    let mut total = Count::default();
    let mut unnamed = Count::default();
    let mut truncated: BTreeMap<UnwindError, u64> = BTreeMap::new();
    for (key, count) in counts.iter(profile) {
        total.add(count);
        if let Some(error) = key.truncated {
            *truncated.entry(error).or_default() += count.samples;
        }
        let innermost = profile.functions(key.stack).last();
        let function = innermost.and_then(|line| profile.function(line.function));
        let is_unnamed = |function: &crate::profile::Function| {
            matches!(function.origin, Origin::Unnamed | Origin::Unknown)
        };
        if function.is_some_and(is_unnamed) {
            unnamed.add(count);
        }
    }
    let mut truncated: Vec<_> = truncated.into_iter().collect();
    truncated.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
    let mut summary = ProfileSummary {
        is_off_cpu,
        is_added_up: session.is_added_up(),
        value,
        event,
        interval: if is_follower {
            Interval::Unknown
        } else {
            session.interval
        },
        total,
        idle: if is_off_cpu { 0 } else { counts.idle },
        truncated,
        unnamed,
        functions: hottest(profile, counts, value),
        processes: processes(profile, counts, value),
        threads: threads(profile, counts, value),
    };
    // Idle CPUs are counted separately; remaining samples with id 0 have no process.
    summary.processes.retain(|process| process.id != 0);
    summary.threads.retain(|thread| thread.id != 0);
    summary.functions.truncate(TOP);
    summary.processes.truncate(TOP);
    summary.threads.truncate(TOP);
    Some(summary)
}

/// Returns a sentence for each problem with samples.
pub(super) fn notes(profile: &Profile, is_part: bool) -> Vec<String> {
    let problems = profile.problems().iter();
    problems
        // Reported for all packets together.
        .filter(|(problem, _)| *problem != Problem::MalformedPacket)
        // A part has the symbols of the whole recording, but only the files of its own samples.
        .filter(|(problem, _)| !is_part || *problem != Problem::SymbolsWithoutMapping)
        .map(|(problem, count)| {
            format!("callstack samples: {problem} ({})", counted(count, "time"))
        })
        .collect()
}

/// Returns the losses of samples and callstacks, with the settings that prevent them.
pub(super) fn losses(profile: &Profile, config: &PerfConfig) -> Vec<Loss> {
    let mut losses = Vec::new();
    for (_, session) in profile.sessions() {
        session_losses(session, config, &mut losses);
    }
    losses
}

fn session_losses(session: &Session, config: &PerfConfig, losses: &mut Vec<Loss>) {
    let source = match session.event.name.as_str() {
        "" => session.source.clone(),
        event => format!("{} ({event})", session.source),
    };
    let mut add = |cause, amount, advice| {
        losses.push(Loss {
            cause,
            source: source.clone(),
            amount,
            advice,
        });
    };
    if session.kernel_lost > 0 {
        let amount = counted(session.kernel_lost, "record");
        add(
            Cause::SampleRing,
            amount,
            config.ring_advice(session.is_off_cpu()),
        );
    }
    if session.is_stopped_by_guardrail {
        let advice = format!(
            "raise max_daemon_memory_kb (now {})",
            config.max_daemon_memory_kb
        );
        add(
            Cause::Guardrail,
            "all samples from then on".to_owned(),
            advice,
        );
    }
    for (reason, samples) in &session.skipped {
        let amount = format!("{} without callstack", counted(*samples, "sample"));
        match reason {
            // Excluded by the config.
            SkipReason::NotInScope => {}
            SkipReason::UnwindEnqueue => add(Cause::UnwindQueue, amount, queue_advice(config)),
            SkipReason::ReadStage => {
                let advice = format!(
                    "these processes exited too early or belong to other users; {}raise remote_descriptor_timeout_ms (now {})",
                    if config.is_of_root {
                        ""
                    } else {
                        "run as root, or "
                    },
                    config.descriptor_timeout_ms()
                );
                add(Cause::ProcessGone, amount, advice);
            }
            SkipReason::UnwindStage | SkipReason::Unknown => {
                let advice = format!(
                    "these processes exited or executed another program before their samples were unwound; sample them for longer{}",
                    if config.is_of_root {
                        ""
                    } else {
                        ", or run as root"
                    },
                );
                add(Cause::ProcessGone, amount, advice);
            }
        }
    }
}

fn queue_advice(config: &PerfConfig) -> String {
    match config.max_enqueued_footprint_kb {
        0 => "sample less often, or fewer processes (target_cmdline)".to_owned(),
        now => format!(
            "raise max_enqueued_footprint_kb (now {now}), sample less often, or fewer processes \
             (target_cmdline)"
        ),
    }
}
