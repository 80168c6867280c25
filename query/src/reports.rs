//! Reports: predefined queries, which are printed with their results.

/// A predefined query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// Times that runnable threads waited for a CPU.
    Latency,
    /// Busy time of each CPU.
    Cpu,
    /// The threads that ran longest, with their times in other states.
    Threads,
    /// The slices with the longest total duration, by name.
    Slices,
    /// The range of every counter.
    Counters,
    /// Causes of uninterruptible sleep.
    Io,
    /// The memory of processes.
    Memory,
}

impl Report {
    /// All reports.
    pub const ALL: [Self; 7] = [
        Self::Latency,
        Self::Cpu,
        Self::Threads,
        Self::Slices,
        Self::Counters,
        Self::Io,
        Self::Memory,
    ];

    /// Returns the report with a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|report| report.name() == name)
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Cpu => "cpu",
            Self::Threads => "threads",
            Self::Slices => "slices",
            Self::Counters => "counters",
            Self::Io => "io",
            Self::Memory => "memory",
        }
    }

    /// Returns the SQL.
    pub fn sql(self) -> &'static str {
        match self {
            Self::Latency => {
                "INCLUDE PERFETTO MODULE sched.latency;
SELECT p.name AS process, t.name AS thread, t.tid, count(*) AS times,
  sum(l.latency_dur) / 1000 AS total_us, max(l.latency_dur) / 1000 AS max_us,
  CAST(percentile_cont(l.latency_dur, 0.5) AS INT) / 1000 AS median_us,
  CAST(percentile_cont(l.latency_dur, 0.99) AS INT) / 1000 AS p99_us
FROM sched_latency_for_running_interval l
JOIN thread t ON l.utid = t.utid
LEFT JOIN process p ON t.upid = p.upid
WHERE l.latency_dur >= 0
GROUP BY p.name, t.name, t.tid
ORDER BY total_us DESC
LIMIT 30"
            }
            Self::Cpu => {
                "SELECT s.cpu, count(*) AS switches,
  sum(CASE WHEN t.is_idle = 0 THEN s.dur ELSE 0 END) / 1000000 AS busy_ms,
  sum(CASE WHEN t.is_idle = 0 THEN s.dur ELSE 0 END) * 100.0 / sum(s.dur) AS busy_percent
FROM sched s
JOIN thread t ON s.utid = t.utid
WHERE s.dur > 0
GROUP BY s.cpu
ORDER BY s.cpu"
            }
            Self::Threads => {
                "SELECT p.name AS process, t.name AS thread, t.tid,
  sum(CASE WHEN s.state = 'Running' THEN s.dur ELSE 0 END) / 1000 AS running_us,
  sum(CASE WHEN s.state IN ('R', 'R+') THEN s.dur ELSE 0 END) / 1000 AS runnable_us,
  sum(CASE WHEN s.state = 'D' THEN s.dur ELSE 0 END) / 1000 AS uninterruptible_us,
  sum(CASE WHEN s.state IN ('S', 'I') THEN s.dur ELSE 0 END) / 1000 AS sleeping_us
FROM thread_state s
JOIN thread t ON s.utid = t.utid
LEFT JOIN process p ON t.upid = p.upid
WHERE s.dur > 0
GROUP BY p.name, t.name, t.tid
ORDER BY running_us DESC
LIMIT 30"
            }
            Self::Slices => {
                "INCLUDE PERFETTO MODULE slices.self_dur;
SELECT s.category, s.name, count(*) AS times, sum(s.dur) / 1000 AS total_us,
  sum(d.self_dur) / 1000 AS self_us, max(s.dur) / 1000 AS max_us,
  CAST(percentile_cont(s.dur, 0.99) AS INT) / 1000 AS p99_us
FROM slice s
JOIN slice_self_dur d ON s.id = d.id
WHERE s.dur >= 0
GROUP BY s.category, s.name
ORDER BY total_us DESC
LIMIT 30"
            }
            Self::Counters => {
                "SELECT t.name, p.name AS process, k.cpu, t.unit, count(*) AS samples,
  min(c.value) AS min, avg(c.value) AS mean, max(c.value) AS max
FROM counter c
JOIN counter_track t ON c.track_id = t.id
LEFT JOIN cpu_counter_track k ON c.track_id = k.id
LEFT JOIN process_counter_track u ON c.track_id = u.id
LEFT JOIN process p ON u.upid = p.upid
GROUP BY c.track_id, t.name, p.name, k.cpu, t.unit
ORDER BY t.name, process, k.cpu
LIMIT 200"
            }
            Self::Io => {
                "SELECT p.name AS process, t.name AS thread, t.tid, s.blocked_function,
  s.io_wait, count(*) AS times, sum(s.dur) / 1000 AS total_us, max(s.dur) / 1000 AS max_us
FROM thread_state s
JOIN thread t ON s.utid = t.utid
LEFT JOIN process p ON t.upid = p.upid
WHERE s.state = 'D' AND s.dur > 0
GROUP BY p.name, t.name, t.tid, s.blocked_function, s.io_wait
ORDER BY total_us DESC
LIMIT 30"
            }
            Self::Memory => {
                "INCLUDE PERFETTO MODULE linux.memory.process;
SELECT pid, process_name, min(rss) / 1024 AS min_rss_kb, max(rss) / 1024 AS max_rss_kb,
  max(swap) / 1024 AS max_swap_kb
FROM memory_rss_and_swap_per_process
GROUP BY upid, pid, process_name
ORDER BY max_rss_kb DESC
LIMIT 30"
            }
        }
    }
}
