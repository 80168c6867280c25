INCLUDE PERFETTO MODULE time.conversion;

-- The increase of each polled counter of time in an idle state since the previous poll, in
-- microseconds.
CREATE PERFETTO VIEW _cpu_idle_residency AS
SELECT ts, machine_id, state, cpu, residency, time_slice
FROM (
  SELECT c.ts, t.machine_id, extract_arg(t.dimension_arg_set_id, 'state') AS state,
    __arg_int(t.dimension_arg_set_id, 'cpu') AS cpu,
    c.value - lag(c.value) OVER (PARTITION BY c.track_id ORDER BY c.ts) AS residency,
    (c.ts - lag(c.ts) OVER (PARTITION BY c.track_id ORDER BY c.ts)) / 1000 AS time_slice
  FROM counter c JOIN track t ON c.track_id = t.id
  WHERE t.type = 'cpu_idle_state'
)
WHERE time_slice IS NOT NULL;

-- The share of time that each CPU spent in each state. `C0` is the time in no idle state.
CREATE PERFETTO VIEW linux_per_cpu_idle_time_in_state_counters AS
SELECT ts, machine_id, state, cpu, min(100.0, residency * 100 / time_slice) AS idle_percentage,
  residency AS total_residency, time_slice
FROM _cpu_idle_residency
UNION ALL
SELECT ts, machine_id, 'C0' AS state, cpu,
  max(0.0, (time_slice - idle) * 100 / time_slice) AS idle_percentage,
  max(0.0, time_slice - idle) AS total_residency, time_slice
FROM (
  SELECT ts, cpu, machine_id, min(time_slice) AS time_slice, sum(residency) AS idle
  FROM _cpu_idle_residency GROUP BY ts, cpu, machine_id ORDER BY ts, cpu, machine_id
);

-- The share of time that all CPUs of a machine spent in each state.
CREATE PERFETTO VIEW linux_cpu_idle_time_in_state_counters AS
SELECT ts, machine_id, state,
  min(100.0, sum(total_residency) * 100 / sum(time_slice)) AS idle_percentage,
  sum(total_residency) AS total_residency, sum(time_slice) AS time_slice
FROM linux_per_cpu_idle_time_in_state_counters
GROUP BY ts, state, machine_id
ORDER BY ts, state, machine_id;
