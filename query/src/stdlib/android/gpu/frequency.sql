INCLUDE PERFETTO MODULE counters.intervals;

-- The frequencies of each GPU.
CREATE PERFETTO TABLE android_gpu_frequency(
  ts TIMESTAMP, dur DURATION, gpu_id LONG, gpu_freq LONG, prev_gpu_freq LONG, next_gpu_freq LONG
) AS
SELECT c.ts, c.dur, t.gpu_id, CAST(c.value AS INT) AS gpu_freq,
  CAST(c.value - c.delta_value AS INT) AS prev_gpu_freq, CAST(c.next_value AS INT) AS next_gpu_freq
FROM counter_leading_intervals!((
  SELECT v.* FROM counter v JOIN gpu_counter_track g ON v.track_id = g.id
  WHERE g.name = 'gpufreq' AND g.gpu_id IS NOT NULL
)) c
JOIN gpu_counter_track t ON c.track_id = t.id
ORDER BY c.track_id, c.ts;
