INCLUDE PERFETTO MODULE linux.cpu.utilization.general;
INCLUDE PERFETTO MODULE time.conversion;

-- The busy time of a thread in each period of `interval` nanoseconds.
CREATE PERFETTO FUNCTION cpu_thread_utilization_per_period(interval LONG, utid LONG)
RETURNS TABLE(ts LONG, utilization DOUBLE, unnormalized_utilization DOUBLE) AS
SELECT * FROM _utilization_per_period!($interval, (SELECT * FROM _sched_busy WHERE utid = $utid));

CREATE PERFETTO FUNCTION cpu_thread_utilization_per_second(utid LONG)
RETURNS TABLE(ts LONG, utilization DOUBLE, unnormalized_utilization DOUBLE) AS
SELECT ts, utilization, unnormalized_utilization
FROM cpu_thread_utilization_per_period(1000000000, $utid);

-- Cycles of each thread.
CREATE PERFETTO VIEW cpu_cycles_per_thread AS
SELECT * FROM _cycles_by!(_cpu_freq_per_thread, (utid));

CREATE PERFETTO FUNCTION cpu_cycles_per_thread_in_interval(ts LONG, dur LONG)
RETURNS TABLE(
  utid LONG, millicycles LONG, megacycles LONG, runtime LONG, awake_runtime LONG, min_freq LONG,
  max_freq LONG, avg_freq LONG
) AS
SELECT utid, millicycles, megacycles, runtime, runtime AS awake_runtime, min_freq, max_freq,
  avg_freq
FROM _cycles_by!((SELECT * FROM _cpu_freq_in_interval($ts, $dur)), (utid));

CREATE PERFETTO FUNCTION cpu_thread_utilization_in_interval(ts LONG, dur LONG)
RETURNS TABLE(
  upid LONG, utid LONG, thread_name STRING, awake_dur LONG, awake_utilization DOUBLE,
  awake_unnormalized_utilization DOUBLE
) AS
SELECT t.upid, b.utid, t.name AS thread_name, b.busy AS awake_dur,
  b.busy * 1.0 / $dur / (SELECT max(ucpu) + 1 FROM sched) AS awake_utilization,
  b.busy * 1.0 / $dur AS awake_unnormalized_utilization
FROM (SELECT utid, sum(dur) AS busy FROM _cpu_freq_in_interval($ts, $dur) GROUP BY utid) b
JOIN thread t ON t.utid = b.utid;
