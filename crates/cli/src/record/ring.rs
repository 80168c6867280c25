//! The flight recorder: a ring in memory, with snapshots on conditions and on request.

use std::ffi::OsString;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use ferretto_probes::PROCESS_STATS;
use ferretto_proto::process_stats_config::Quirks;
use ferretto_proto::trace_config::buffer_config::FillPolicy;
use ferretto_proto::trace_config::{BufferConfig, DataSource, IncrementalStateConfig};
use ferretto_proto::{Message, MessageField, ProcessStatsConfig, TraceConfig, decode_lazy};
use ferretto_trace::summary::RING_SESSION;

use crate::read::parse_bytes;

/// The smallest ring in bytes.
const MIN_BYTES: u64 = 4 << 20;
/// The largest ring in bytes: sizes of buffers are 32-bit numbers of KiB.
const MAX_BYTES: u64 = 1 << 40;
/// The period after which names are written again, since old ones are overwritten.
const CLEAR_PERIOD_MS: u32 = 5000;
/// The buffer for names of processes and threads, which are written once.
const NAMES_KB: u32 = 8 << 10;
/// The period of checks of conditions.
const PERIOD: Duration = Duration::from_secs(1);

/// The options of the flight recorder.
#[derive(Debug, Args)]
#[command(next_help_heading = "Flight recorder")]
pub(crate) struct RingArgs {
    /// Keep the newest data of the recording in memory, up to this size, such as 256MB
    ///
    /// The data is written to the file at the end, for example after Ctrl-C. kill -USR1 writes a
    /// snapshot to another file, trace.pftrace.0 and so on, and the recording continues.
    #[arg(long, value_name = "SIZE", value_parser = parse_ring, conflicts_with_all = ["config", "hosts"])]
    pub(super) ring: Option<u64>,
    /// With --ring: write a snapshot each time that this condition becomes true
    ///
    /// load>4 (runnable processes, average of a minute), psi.cpu>20, psi.memory>20, psi.io>20
    /// (pressure: percent of the last ten seconds in which work stalled), rss(PID)>2GB (memory of a
    /// process). exit!=0: write the file at the end only if the COMMAND fails.
    #[arg(long, value_name = "CONDITION", requires = "ring", value_parser = Condition::parse)]
    pub(super) when: Vec<Condition>,
}

impl RingArgs {
    /// Returns the period of checks, if there are conditions to check.
    pub(super) fn watch(&self) -> Watch {
        let conditions = self.when.iter().filter(|it| it.subject != Subject::Exit);
        Watch {
            conditions: conditions.map(|it| (it.clone(), false)).collect(),
            next: Instant::now(),
        }
    }

    /// Returns true if a command that succeeds leaves no file.
    pub(super) fn only_if_command_fails(&self) -> bool {
        self.when.iter().any(|it| it.subject == Subject::Exit)
    }
}

/// Checks the options against each other and the command.
///
/// # Errors
///
/// Fails if a condition can never become true.
pub(super) fn check(args: &RingArgs, command: &[OsString]) -> Result<()> {
    for condition in &args.when {
        match condition.subject {
            Subject::Exit if command.is_empty() => {
                bail!("--when 'exit!=0' needs a COMMAND; give one after --")
            }
            Subject::Memory(pid) if condition.value().is_none() => {
                bail!("there is no process {pid}")
            }
            _ if condition.subject != Subject::Exit && condition.value().is_none() => {
                bail!("this kernel does not report {}", condition.text)
            }
            _ => {}
        }
    }
    Ok(())
}

/// Changes a config that streams into a file to one that keeps the newest `bytes` in memory.
pub(super) fn keep(config: &mut TraceConfig, bytes: u64) {
    config.write_into_file = None;
    config.file_write_period_ms = None;
    let asked: u64 = config
        .buffers
        .iter()
        .map(|it| u64::from(it.size_kb.unwrap_or(0)))
        .sum();
    let kb = bytes >> 10;
    for buffer in &mut config.buffers {
        // Sizes are in proportion to those for streaming.
        let share = u64::from(buffer.size_kb.unwrap_or(0)) * kb / asked.max(1);
        buffer.size_kb = Some(u32::try_from(share.max(64)).unwrap_or(u32::MAX));
        buffer.fill_policy = Some(FillPolicy::RING_BUFFER);
    }
    keep_names(config);
    config.incremental_state_config = MessageField::some(IncrementalStateConfig {
        clear_period_ms: Some(CLEAR_PERIOD_MS),
        ..Default::default()
    });
    config.unique_session_name = Some(session_name().into_bytes());
}

/// Gives the names of processes and threads a buffer of their own, so that statistics do not
/// overwrite them.
fn keep_names(config: &mut TraceConfig) {
    let is_processes =
        |it: &&mut DataSource| it.config.name.as_deref() == Some(PROCESS_STATS.as_bytes());
    let Some(statistics) = config.data_sources.iter_mut().find(is_processes) else {
        return;
    };
    let mut names = statistics.clone();
    let encoded = &statistics.config.process_stats_config;
    let both = decode_lazy::<ProcessStatsConfig>(encoded).unwrap_or_default();
    let of_names = ProcessStatsConfig {
        proc_stats_poll_ms: None,
        ..both.clone()
    };
    let mut of_statistics = ProcessStatsConfig {
        scan_all_processes_on_start: None,
        ..both
    };
    of_statistics.quirks.push(Quirks::DISABLE_ON_DEMAND);
    let encoded = Some(of_statistics.encode_to_vec());
    statistics
        .config
        .get_or_insert_default()
        .process_stats_config = encoded;
    let source = names.config.get_or_insert_default();
    source.process_stats_config = Some(of_names.encode_to_vec());
    source.target_buffer = Some(config.buffers.len() as u32);
    config.data_sources.push(names);
    config.buffers.push(BufferConfig {
        size_kb: Some(NAMES_KB),
        name: Some("processes".into()),
        ..Default::default()
    });
}

/// The name by which snapshots find the session.
pub(super) fn session_name() -> String {
    format!("{RING_SESSION}{}", std::process::id())
}

fn parse_ring(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text)?;
    match bytes {
        MIN_BYTES..=MAX_BYTES => Ok(bytes),
        _ => Err("the size of a ring must be from 4M to 1024G".to_owned()),
    }
}

/// A condition for a snapshot.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Condition {
    /// The text of the condition.
    text: String,
    subject: Subject,
    limit: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Subject {
    Load,
    Pressure(&'static str),
    Memory(u32),
    Exit,
}

impl Condition {
    fn parse(text: &str) -> Result<Self, String> {
        let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        if compact == "exit!=0" {
            return Ok(Self {
                text: compact,
                subject: Subject::Exit,
                limit: 0.0,
            });
        }
        let known = "use load>4, psi.cpu>20, psi.memory>20, psi.io>20, rss(PID)>2GB or exit!=0";
        let (name, limit) = compact.split_once('>').ok_or(known)?;
        let of_process = name
            .strip_prefix("rss(")
            .and_then(|rest| rest.strip_suffix(')'));
        let subject = match (name, of_process) {
            (_, Some(pid)) => {
                Subject::Memory(pid.parse().map_err(|_| format!("{pid} is not a PID"))?)
            }
            ("load", _) => Subject::Load,
            ("psi.cpu", _) => Subject::Pressure("/proc/pressure/cpu"),
            ("psi.memory", _) => Subject::Pressure("/proc/pressure/memory"),
            ("psi.io", _) => Subject::Pressure("/proc/pressure/io"),
            _ => return Err(known.to_owned()),
        };
        let limit = match subject {
            Subject::Memory(_) => parse_bytes(limit)? as f64,
            _ => limit
                .parse()
                .map_err(|_| format!("{limit} is not a number"))?,
        };
        Ok(Self {
            text: compact,
            subject,
            limit,
        })
    }

    /// Returns the current value, if the kernel reports it.
    fn value(&self) -> Option<f64> {
        let first = |text: String| text.split_whitespace().next()?.parse().ok();
        match self.subject {
            Subject::Load => first(fs::read_to_string("/proc/loadavg").ok()?),
            Subject::Pressure(path) => {
                let text = fs::read_to_string(path).ok()?;
                let ten_seconds = text
                    .split_whitespace()
                    .find_map(|it| it.strip_prefix("avg10="));
                ten_seconds?.parse().ok()
            }
            Subject::Memory(pid) => {
                let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
                let pages: f64 = text.split_whitespace().nth(1)?.parse().ok()?;
                Some(pages * rustix::param::page_size() as f64)
            }
            Subject::Exit => None,
        }
    }
}

/// The conditions, and their current state.
#[derive(Debug)]
pub(super) struct Watch {
    conditions: Vec<(Condition, bool)>,
    next: Instant,
}

impl Watch {
    /// Returns the conditions that have become true since the last call.
    pub(super) fn became_true(&mut self) -> Vec<String> {
        let now = Instant::now();
        if self.conditions.is_empty() || now < self.next {
            return Vec::new();
        }
        self.next = now + PERIOD;
        let mut found = Vec::new();
        for (condition, was_true) in &mut self.conditions {
            let is_true = condition
                .value()
                .is_some_and(|value| value > condition.limit);
            if is_true && !std::mem::replace(was_true, is_true) {
                found.push(condition.text.clone());
            }
            *was_true = is_true;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read() {
        let memory = Condition::parse("rss(42) > 2GB").expect("it is one");
        assert_eq!(memory.subject, Subject::Memory(42));
        assert_eq!(memory.limit, f64::from(2_u32 << 30));
        assert_eq!(
            Condition::parse("exit!=0").map(|it| it.subject),
            Ok(Subject::Exit)
        );
        for wrong in ["load", "laod>4", "load>x", "rss(x)>1GB", "rss(1)>7"] {
            assert!(Condition::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_condition_that_stays_true_is_told_once() {
        let own = std::process::id();
        let condition = Condition::parse(&format!("rss({own})>1KB")).expect("it is one");
        let mut watch = Watch {
            conditions: vec![(condition, false)],
            next: Instant::now(),
        };
        assert_eq!(watch.became_true(), [format!("rss({own})>1KB")]);
        watch.next = Instant::now();
        assert_eq!(watch.became_true(), [] as [String; 0]);
    }
}
