INCLUDE PERFETTO MODULE intervals.intersect;
INCLUDE PERFETTO MODULE linux.cpu.utilization.general;
INCLUDE PERFETTO MODULE slices.with_context;

-- The cycles of slices `id, ts, dur, utid` that ran all of their time at known frequencies.
CREATE PERFETTO MACRO _cycles_of_slices(slices TableOrSubquery) RETURNS TableOrSubquery AS
(
  SELECT i.id_0 AS slice_id, sum(i.dur) AS dur,
    CAST(sum(i.dur * f.freq / 1000) AS INT) AS millicycles,
    CAST(sum(i.dur * f.freq / 1000) / 1e9 AS INT) AS megacycles
  FROM _interval_intersect!(
    ((SELECT id, ts, dur, utid FROM $slices), (SELECT id, ts, dur, utid FROM _cpu_freq_per_thread)),
    (utid)
  ) i
  JOIN _cpu_freq_per_thread f ON f.id = i.id_1
  WHERE f.freq IS NOT NULL
  GROUP BY i.id_0
);

CREATE PERFETTO TABLE cpu_cycles_per_thread_slice(
  id JOINID(slice.id), name STRING, utid JOINID(thread.id), thread_name STRING,
  upid JOINID(process.id), process_name STRING, millicycles LONG, megacycles LONG
) AS
SELECT s.id, s.name, s.utid, s.thread_name, s.upid, s.process_name, c.millicycles, c.megacycles
FROM thread_slice s
LEFT JOIN _cycles_of_slices!((SELECT * FROM thread_slice WHERE dur > 0 AND utid > 0)) c
  ON c.slice_id = s.id AND c.dur = s.dur;

CREATE PERFETTO FUNCTION cpu_cycles_per_thread_slice_in_interval(ts TIMESTAMP, dur DURATION)
RETURNS TABLE(
  id JOINID(slice.id), name STRING, utid JOINID(thread.id), thread_name STRING,
  upid JOINID(process.id), process_name STRING, millicycles LONG, megacycles LONG
) AS
WITH part AS MATERIALIZED (
  SELECT i.id, i.ts, i.dur, s.utid
  FROM _interval_intersect_single!(
    $ts, $dur, (SELECT id, ts, dur FROM thread_slice WHERE dur > 0 AND utid > 0)
  ) i
  JOIN thread_slice s ON s.id = i.id
)
SELECT s.id, s.name, s.utid, s.thread_name, s.upid, s.process_name, c.millicycles, c.megacycles
FROM part p
JOIN thread_slice s ON s.id = p.id
LEFT JOIN _cycles_of_slices!(part) c ON c.slice_id = p.id AND c.dur = p.dur;
