INCLUDE PERFETTO MODULE counters.intervals;

-- The idle state of each CPU over time; -1 while it is active.
CREATE PERFETTO VIEW cpu_idle_counters AS
SELECT i.id, i.track_id, i.ts, i.dur,
  CASE WHEN i.value = 4294967295 THEN -1 ELSE CAST(i.value AS INT) END AS idle, t.cpu
FROM counter_leading_intervals!((
  SELECT * FROM counter
  WHERE track_id IN (SELECT id FROM cpu_counter_track WHERE type = 'cpu_idle')
)) i
JOIN cpu_counter_track t ON i.track_id = t.id;
