INCLUDE PERFETTO MODULE counters.intervals;

-- The frequency of each CPU over time, in kHz.
CREATE PERFETTO VIEW cpu_frequency_counters AS
SELECT i.id, i.track_id, i.ts, i.dur, CAST(i.value AS INT) AS freq, c.ucpu, t.cpu
FROM counter_leading_intervals!((
  SELECT * FROM counter
  WHERE track_id IN (SELECT id FROM cpu_counter_track WHERE type = 'cpu_frequency')
)) i
JOIN cpu_counter_track t ON i.track_id = t.id
LEFT JOIN cpu c ON c.cpu = t.cpu AND c.machine_id = t.machine_id;
