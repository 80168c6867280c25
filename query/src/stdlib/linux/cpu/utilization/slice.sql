INCLUDE PERFETTO MODULE linux.cpu.utilization.general;
INCLUDE PERFETTO MODULE slices.with_context;

-- Cycles of the slice's thread during each slice.
CREATE PERFETTO VIEW cpu_cycles_per_thread_slice AS
SELECT id, name, utid, thread_name, upid, process_name,
  sum(cycles) AS millicycles, sum(cycles) / 1000000000 AS megacycles
FROM (
  SELECT s.id, s.name, s.utid, s.thread_name, s.upid, s.process_name,
    (min(s.ts + s.dur, f.ts + f.dur) - max(s.ts, f.ts)) * f.freq / 1000 AS cycles
  FROM thread_slice s JOIN _cpu_freq_per_thread f
    ON f.utid = s.utid AND f.ts < s.ts + s.dur AND f.ts + f.dur > s.ts
  WHERE s.dur > 0
)
GROUP BY id, name, utid, thread_name, upid, process_name
ORDER BY id;

CREATE PERFETTO FUNCTION cpu_cycles_per_thread_slice_in_interval(ts LONG, dur LONG)
RETURNS TABLE(
  id LONG, name STRING, utid LONG, thread_name STRING, upid LONG, process_name STRING,
  millicycles LONG, megacycles LONG
) AS
SELECT id, name, utid, thread_name, upid, process_name,
  sum(cycles) AS millicycles, sum(cycles) / 1000000000 AS megacycles
FROM (
  SELECT s.id, s.name, s.utid, s.thread_name, s.upid, s.process_name,
    (min(s.ts + s.dur, f.ts + f.dur, $ts + $dur) - max(s.ts, f.ts, $ts)) * f.freq / 1000 AS cycles
  FROM thread_slice s JOIN _cpu_freq_per_thread f
    ON f.utid = s.utid AND f.ts < s.ts + s.dur AND f.ts + f.dur > s.ts
  WHERE s.dur > 0 AND s.ts < $ts + $dur AND s.ts + s.dur > $ts
    AND f.ts < $ts + $dur AND f.ts + f.dur > $ts
)
GROUP BY id, name, utid, thread_name, upid, process_name;
