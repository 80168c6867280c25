INCLUDE PERFETTO MODULE linux.cpu.idle;

-- The number and duration of each CPU's stays in each idle state; 1 is the lightest state.
CREATE PERFETTO VIEW cpu_idle_stats AS
SELECT cpu, idle + 1 AS state, count(*) AS count, sum(dur) AS dur, sum(dur) / count(*) AS avg_dur,
  sum(dur) * 100.0 / min(total) AS idle_percent
FROM (SELECT cpu, idle, dur, sum(dur) OVER (PARTITION BY cpu) AS total FROM cpu_idle_counters)
WHERE idle >= 0
GROUP BY cpu, idle
ORDER BY cpu, idle;
