INCLUDE PERFETTO MODULE linux.cpu.utilization.general;
INCLUDE PERFETTO MODULE time.conversion;

-- The busy time of all CPUs in each period of `interval` nanoseconds.
CREATE PERFETTO FUNCTION cpu_utilization_per_period(interval LONG)
RETURNS TABLE(ts LONG, utilization DOUBLE, unnormalized_utilization DOUBLE) AS
SELECT * FROM _utilization_per_period!($interval, _sched_busy);

CREATE PERFETTO VIEW cpu_utilization_per_second AS
SELECT ts, utilization, unnormalized_utilization FROM cpu_utilization_per_period(1000000000);

-- Cycles of all CPUs.
CREATE PERFETTO VIEW cpu_cycles AS
SELECT millicycles, megacycles, runtime, min_freq, max_freq, avg_freq
FROM _cycles_by!((SELECT *, 0 AS every FROM _cpu_freq_per_thread), (every));

CREATE PERFETTO FUNCTION cpu_cycles_in_interval(ts LONG, dur LONG)
RETURNS TABLE(
  millicycles LONG, megacycles LONG, runtime LONG, awake_runtime LONG, min_freq LONG,
  max_freq LONG, avg_freq LONG
) AS
SELECT millicycles, megacycles, runtime, runtime AS awake_runtime, min_freq, max_freq, avg_freq
FROM _cycles_by!((SELECT *, 0 AS every FROM _cpu_freq_in_interval($ts, $dur)), (every));

CREATE PERFETTO FUNCTION cpu_utilization_in_interval(ts LONG, dur LONG)
RETURNS TABLE(awake_dur LONG, awake_utilization DOUBLE, awake_unnormalized_utilization DOUBLE) AS
SELECT sum(busy) AS awake_dur,
  sum(busy) * 1.0 / $dur / (SELECT max(ucpu) + 1 FROM sched) AS awake_utilization,
  sum(busy) * 1.0 / $dur AS awake_unnormalized_utilization
FROM (SELECT dur AS busy FROM _cpu_freq_in_interval($ts, $dur));

-- Cycles of each CPU.
CREATE PERFETTO VIEW cpu_cycles_per_cpu AS
SELECT * FROM _cycles_by!(_cpu_freq_per_thread, (ucpu, cpu));

CREATE PERFETTO FUNCTION cpu_cycles_per_cpu_in_interval(ts LONG, dur LONG)
RETURNS TABLE(
  ucpu LONG, cpu LONG, millicycles LONG, megacycles LONG, runtime LONG, min_freq LONG,
  max_freq LONG, avg_freq LONG
) AS
SELECT * FROM _cycles_by!((SELECT * FROM _cpu_freq_in_interval($ts, $dur)), (ucpu, cpu));
