INCLUDE PERFETTO MODULE linux.cpu.utilization.general;
INCLUDE PERFETTO MODULE time.conversion;

-- The busy time of a process in each period of `interval` nanoseconds.
CREATE PERFETTO FUNCTION cpu_process_utilization_per_period(interval LONG, upid LONG)
RETURNS TABLE(ts LONG, utilization DOUBLE, unnormalized_utilization DOUBLE) AS
SELECT * FROM _utilization_per_period!($interval, (SELECT * FROM _sched_busy WHERE upid = $upid));

CREATE PERFETTO FUNCTION cpu_process_utilization_per_second(upid LONG)
RETURNS TABLE(ts LONG, utilization DOUBLE, unnormalized_utilization DOUBLE) AS
SELECT ts, utilization, unnormalized_utilization
FROM cpu_process_utilization_per_period(1000000000, $upid);

-- Cycles of each process.
CREATE PERFETTO VIEW cpu_cycles_per_process AS
SELECT * FROM _cycles_by!((SELECT * FROM _cpu_freq_per_thread WHERE upid IS NOT NULL), (upid));

CREATE PERFETTO FUNCTION cpu_cycles_per_process_in_interval(ts LONG, dur LONG)
RETURNS TABLE(
  upid LONG, millicycles LONG, megacycles LONG, runtime LONG, awake_runtime LONG, min_freq LONG,
  max_freq LONG, avg_freq LONG
) AS
SELECT upid, millicycles, megacycles, runtime, runtime AS awake_runtime, min_freq, max_freq,
  avg_freq
FROM _cycles_by!((SELECT * FROM _cpu_freq_in_interval($ts, $dur) WHERE upid IS NOT NULL), (upid));

CREATE PERFETTO FUNCTION cpu_process_utilization_in_interval(ts LONG, dur LONG)
RETURNS TABLE(
  upid LONG, process_name STRING, awake_dur LONG, awake_utilization DOUBLE,
  awake_unnormalized_utilization DOUBLE
) AS
SELECT b.upid, p.name AS process_name, b.busy AS awake_dur,
  b.busy * 1.0 / $dur / (SELECT max(ucpu) + 1 FROM sched) AS awake_utilization,
  b.busy * 1.0 / $dur AS awake_unnormalized_utilization
FROM (
  SELECT upid, sum(dur) AS busy FROM _cpu_freq_in_interval($ts, $dur)
  WHERE upid IS NOT NULL GROUP BY upid
) b
JOIN process p ON p.upid = b.upid;
