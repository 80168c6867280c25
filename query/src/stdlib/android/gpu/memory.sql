-- The GPU memory of each process.
CREATE PERFETTO TABLE android_gpu_memory_per_process(
  ts TIMESTAMP, dur DURATION, upid JOINID(process.id), gpu_memory LONG
) AS
SELECT c.ts, lead(c.ts, 1, trace_end()) OVER (PARTITION BY c.track_id ORDER BY c.ts) - c.ts AS dur,
  t.upid, CAST(c.value AS INT) AS gpu_memory
FROM counter c JOIN process_counter_track t ON c.track_id = t.id
WHERE t.name = 'GPU Memory'
ORDER BY c.track_id, c.ts;
