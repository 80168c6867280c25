INCLUDE PERFETTO MODULE linux.cpu.utilization.general;

-- Cycles of each thread on each CPU.
CREATE PERFETTO VIEW cpu_cycles_per_thread_per_cpu AS
SELECT * FROM _cycles_by!(_cpu_freq_per_thread, (utid, ucpu, cpu));

CREATE PERFETTO FUNCTION cpu_cycles_per_thread_per_cpu_in_interval(ts LONG, dur LONG)
RETURNS TABLE(
  utid LONG, ucpu LONG, cpu LONG, millicycles LONG, megacycles LONG, runtime LONG, min_freq LONG,
  max_freq LONG, avg_freq LONG
) AS
SELECT * FROM _cycles_by!((SELECT * FROM _cpu_freq_in_interval($ts, $dur)), (utid, ucpu, cpu));
