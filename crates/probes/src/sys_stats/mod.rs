//! `linux.sys_stats`: polled counters of the whole machine.

mod cgroups;
mod parse;
mod sysfs;

use std::fs::File;
use std::path::{Path, PathBuf};

use ferretto_metatrace::Event as Activity;
use ferretto_proto::fields::{sys_stats as field, trace_packet};
use ferretto_proto::sys_stats_config::StatCounters;
use ferretto_proto::{SysStatsConfig, decode_lazy};
use ferretto_wire::Encoder;

use crate::PacketSink;
use crate::clock::boottime_ns;
use crate::source::{DataSource, Kind};
use cgroups::Cgroups;
use parse::{Keys, StatParts};
use sysfs::Sysfs;

/// Name of the system counter data source.
pub const SYS_STATS: &str = "linux.sys_stats";

/// Shortest period, milliseconds.
const MIN_PERIOD_MS: u32 = 10;
/// The maximum size of a file in bytes; longer files are truncated.
const MAX_FILE: usize = 1 << 20;

/// The tick at which all values are due.
const ALL: u32 = 0;

/// A file that is read periodically.
#[derive(Debug)]
struct Polled {
    /// The period in ticks; 0 for never.
    every: u32,
    path: PathBuf,
    file: Option<File>,
}

impl Polled {
    fn new(every: u32, path: PathBuf) -> Self {
        let file = (every > 0).then(|| File::open(&path).ok()).flatten();
        Self { every, path, file }
    }

    fn is_due(&self, tick: u32) -> bool {
        is_due(self.every, tick)
    }

    /// Reads the file from its start. A file that fails is not tried again.
    fn read<'a>(&mut self, buffer: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        let file = self.file.as_ref()?;
        buffer.resize(64 << 10, 0);
        let mut length = 0;
        loop {
            let into = &mut buffer[length..];
            match rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut *into, length as u64)) {
                Ok(0) => break,
                Ok(count) => length += count,
                Err(_) => {
                    self.file = None;
                    return None;
                }
            }
            if length == buffer.len() {
                if length >= MAX_FILE {
                    break;
                }
                buffer.resize(length * 2, 0);
            }
        }
        Some(&buffer[..length])
    }
}

fn is_due(every: u32, tick: u32) -> bool {
    every > 0 && tick.is_multiple_of(every)
}

/// A `linux.sys_stats` data source.
#[derive(Debug)]
pub struct SysStats {
    tick_ms: u32,
    tick: u32,
    buffer: Vec<u8>,
    meminfo: (Polled, Keys),
    vmstat: (Polled, Keys),
    stat: (Polled, StatParts),
    buddyinfo: Polled,
    diskstats: Polled,
    pressure: [(Polled, u64); 3],
    slabinfo: Polled,
    sysfs: Sysfs,
    cgroups: Cgroups,
    ticks_per_second: u64,
    sink: Box<dyn PacketSink>,
}

/// The periods of a config, and the tick they are multiples of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Periods {
    tick_ms: u32,
    consistent: bool,
}

impl Periods {
    fn new(periods: &[Option<u32>]) -> Self {
        let used = || {
            periods
                .iter()
                .flatten()
                .filter(|&&ms| ms > 0)
                .map(|&ms| ms.max(MIN_PERIOD_MS))
        };
        let tick_ms = used().min().unwrap_or(0);
        Self {
            tick_ms,
            consistent: tick_ms > 0 && used().all(|ms| ms % tick_ms == 0),
        }
    }

    /// Returns the period in ticks; 0 for never.
    fn every(self, period: Option<u32>) -> u32 {
        match period {
            Some(ms) if ms > 0 && self.consistent => ms.max(MIN_PERIOD_MS) / self.tick_ms,
            _ => 0,
        }
    }
}

impl SysStats {
    /// Creates a data source for this machine. An invalid config is reported to `log`.
    pub fn new(config: &SysStatsConfig, sink: Box<dyn PacketSink>, log: &dyn Fn(&str)) -> Self {
        Self::with_root(Path::new("/"), config, sink, log)
    }

    /// Creates a data source that reads `proc` and `sys` under another directory.
    pub fn with_root(
        root: &Path,
        config: &SysStatsConfig,
        sink: Box<dyn PacketSink>,
        log: &dyn Fn(&str),
    ) -> Self {
        let periods = Periods::new(&[
            config.meminfo_period_ms,
            config.vmstat_period_ms,
            config.stat_period_ms,
            config.devfreq_period_ms,
            config.cpufreq_period_ms,
            config.buddyinfo_period_ms,
            config.diskstat_period_ms,
            config.psi_period_ms,
            config.thermal_period_ms,
            config.cpuidle_period_ms,
            config.gpufreq_period_ms,
            config.slab_period_ms,
            config.cgroup_period_ms,
        ]);
        if periods.tick_ms > 0 && !periods.consistent {
            log("SysStat periods are not integer multiples of each other");
        }
        let proc =
            |period, path: &str| Polled::new(periods.every(period), root.join("proc").join(path));
        let meminfo: Vec<i32> = config
            .meminfo_counters
            .iter()
            .map(|&key| key as i32)
            .collect();
        let vmstat: Vec<i32> = config
            .vmstat_counters
            .iter()
            .map(|&key| key as i32)
            .collect();
        let pressure = |file, resource| (proc(config.psi_period_ms, file), resource);
        Self {
            tick_ms: periods.tick_ms,
            tick: 0,
            buffer: Vec::new(),
            meminfo: (
                proc(config.meminfo_period_ms, "meminfo"),
                Keys::meminfo(&meminfo),
            ),
            vmstat: (
                proc(config.vmstat_period_ms, "vmstat"),
                Keys::vmstat(&vmstat),
            ),
            stat: (
                proc(config.stat_period_ms, "stat"),
                stat_parts(&config.stat_counters),
            ),
            buddyinfo: proc(config.buddyinfo_period_ms, "buddyinfo"),
            diskstats: proc(config.diskstat_period_ms, "diskstats"),
            pressure: [
                pressure("pressure/cpu", 1),
                pressure("pressure/io", 3),
                pressure("pressure/memory", 5),
            ],
            slabinfo: proc(config.slab_period_ms, "slabinfo"),
            sysfs: Sysfs {
                root: root.join("sys"),
                devfreq: periods.every(config.devfreq_period_ms),
                cpufreq: periods.every(config.cpufreq_period_ms),
                thermal: periods.every(config.thermal_period_ms),
                cpuidle: periods.every(config.cpuidle_period_ms),
                gpufreq: periods.every(config.gpufreq_period_ms),
            },
            cgroups: Cgroups::new(
                periods.every(config.cgroup_period_ms),
                root,
                &config.cgroup_paths,
                log,
            ),
            ticks_per_second: rustix::param::clock_ticks_per_second(),
            sink,
        }
    }

    /// Returns the requested files that cannot be read.
    pub fn unreadable(&self) -> impl Iterator<Item = &Path> {
        let single = [
            &self.meminfo.0,
            &self.vmstat.0,
            &self.stat.0,
            &self.buddyinfo,
            &self.diskstats,
            &self.slabinfo,
        ];
        let all = single
            .into_iter()
            .chain(self.pressure.iter().map(|(polled, _)| polled));
        all.filter(|p| p.every > 0 && p.file.is_none())
            .map(|p| p.path.as_path())
    }

    pub(crate) const KIND: Kind = Kind {
        name: SYS_STATS,
        create: |config, sink, problems| {
            let source = Self::new(&decode_lazy(&config.sys_stats_config)?, sink, problems);
            for path in source.unreadable() {
                problems(&format!("{} cannot be read", path.display()));
            }
            Ok(Box::new(source))
        },
        starting: None,
        polling: Some(Activity::ReadSysStats),
        on_metadata: None,
        has_incremental_state: false,
    };
}

impl DataSource for SysStats {
    fn poll_period_ms(&self) -> Option<u32> {
        (self.tick_ms > 0).then_some(self.tick_ms)
    }

    fn poll(&mut self) {
        self.read(self.tick);
        self.tick = self.tick.wrapping_add(1);
    }

    fn poll_last(&mut self) {
        self.read(ALL);
    }

    fn flush(&mut self) {
        self.sink.flush();
    }
}

impl SysStats {
    /// Reads and writes the values that are due at a tick.
    fn read(&mut self, tick: u32) {
        let mut message = Vec::new();
        let timestamp = boottime_ns();
        let mut out = Encoder::new(&mut message);
        let buffer = &mut self.buffer;
        let (file, keys) = &mut self.meminfo;
        sample(file, tick, buffer, |text| {
            parse::meminfo(text, keys, &mut out)
        });
        let (file, keys) = &mut self.vmstat;
        sample(file, tick, buffer, |text| {
            parse::vmstat(text, keys, &mut out)
        });
        let (file, parts) = &mut self.stat;
        sample(file, tick, buffer, |text| {
            parse::stat(text, *parts, self.ticks_per_second, &mut out);
        });
        sample(&mut self.buddyinfo, tick, buffer, |text| {
            parse::buddyinfo(text, &mut out)
        });
        sample(&mut self.diskstats, tick, buffer, |text| {
            parse::diskstats(text, &mut out)
        });
        for (file, resource) in &mut self.pressure {
            sample(file, tick, buffer, |text| {
                parse::pressure(text, *resource, &mut out)
            });
        }
        sample(&mut self.slabinfo, tick, buffer, |text| {
            parse::slabinfo(text, &mut out)
        });
        self.sysfs.sample(|every| is_due(every, tick), &mut out);
        if is_due(self.cgroups.every, tick) {
            self.cgroups.sample(&mut out);
        }
        out.varint(field::COLLECTION_END_TIMESTAMP, boottime_ns());
        self.sink.write_packet(&ferretto_wire::encode(|packet| {
            packet.varint(trace_packet::TIMESTAMP, timestamp);
            packet.bytes(trace_packet::SYS_STATS, &message);
        }));
    }
}

fn sample(file: &mut Polled, tick: u32, buffer: &mut Vec<u8>, parse: impl FnOnce(&[u8])) {
    if file.is_due(tick)
        && let Some(text) = file.read(buffer)
    {
        parse(text);
    }
}

fn stat_parts(wanted: &[StatCounters]) -> StatParts {
    let has = |counter| wanted.is_empty() || wanted.contains(&counter);
    StatParts {
        cpu_times: has(StatCounters::STAT_CPU_TIMES),
        irqs: has(StatCounters::STAT_IRQ_COUNTS),
        softirqs: has(StatCounters::STAT_SOFTIRQ_COUNTS),
        forks: has(StatCounters::STAT_FORK_COUNT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_062_periods_must_be_multiples_of_the_shortest() {
        let periods =
            |list: &[u32]| Periods::new(&list.iter().map(|&ms| Some(ms)).collect::<Vec<_>>());
        assert!(!periods(&[100, 250]).consistent);
        assert_eq!(periods(&[100, 250]).every(Some(100)), 0);
        let good = periods(&[0, 100, 300]);
        assert_eq!(
            (good.tick_ms, good.every(Some(300)), good.every(Some(0))),
            (100, 3, 0)
        );
        assert_eq!(periods(&[5]).tick_ms, 10);
        assert_eq!(Periods::new(&[None]).tick_ms, 0);
    }
}
