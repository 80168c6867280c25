INCLUDE PERFETTO MODULE android.oom_adjuster;
INCLUDE PERFETTO MODULE counters.intervals;

-- The counters of processes' memory, in bytes.
CREATE PERFETTO TABLE _android_memory_counters AS
SELECT c.id, c.ts, c.track_id, t.upid,
  CASE WHEN t.name = 'Heap size (KB)' THEN 'mem.heap' ELSE t.name END AS name,
  CAST(c.value AS INT) * CASE WHEN t.name = 'Heap size (KB)' THEN 1024 ELSE 1 END AS value
FROM counter c JOIN process_counter_track t ON c.track_id = t.id
WHERE t.name IN (
  'mem.rss.anon', 'mem.swap', 'mem.rss.file', 'mem.rss.shmem', 'Heap size (KB)', 'mem.dmabuf_rss',
  'mem.locked', 'GPU Memory'
);

-- The memory of processes while they ran. The adjusted value is without the average memory of the
-- zygote that forked the process.
CREATE PERFETTO TABLE android_process_memory_intervals(
  id JOINID(counter.id), ts TIMESTAMP, dur DURATION, process_name STRING, upid JOINID(process.id),
  pid LONG, memory_track_name STRING, track_id JOINID(track.id), value LONG,
  zygote_adjusted_value LONG, track_has_spike_gt_100mib BOOL
) AS
WITH
  tracks AS (
    SELECT track_id, min(upid) AS upid, min(name) AS name
    FROM _android_memory_counters GROUP BY track_id
  ),
  intervals AS (SELECT * FROM counter_leading_intervals!(_android_memory_counters)),
  spikes AS (
    SELECT track_id, max(abs(delta_value)) > 100 * 1024 * 1024 AS has_spike
    FROM intervals GROUP BY track_id
  ),
  zygotes AS (
    SELECT p.upid, c.name, avg(c.value) AS value
    FROM process p JOIN _android_memory_counters c ON c.upid = p.upid
    WHERE p.name IN ('zygote', 'zygote64')
      AND c.name IN ('mem.rss.anon', 'mem.swap', 'mem.rss.file', 'mem.heap')
    GROUP BY p.upid, c.name
  ),
  clipped AS (
    SELECT i.id, max(i.ts, coalesce(p.start_ts, i.ts)) AS ts,
      min(i.ts + i.dur, coalesce(p.end_ts, i.ts + i.dur)) AS ts_end, p.name AS process_name, p.upid,
      p.pid, p.parent_upid, t.name AS memory_track_name, i.track_id, CAST(i.value AS INT) AS value,
      coalesce(s.has_spike, 0) AS has_spike
    FROM intervals i
    JOIN tracks t ON t.track_id = i.track_id
    JOIN process p ON p.upid = t.upid
    JOIN spikes s ON s.track_id = i.track_id
  )
SELECT c.id, c.ts, c.ts_end - c.ts AS dur, c.process_name, c.upid, c.pid, c.memory_track_name,
  c.track_id, c.value,
  CASE
    WHEN c.process_name IN ('zygote', 'zygote64') THEN c.value
    ELSE max(0, c.value - CAST(coalesce(z.value, 0) AS INT))
  END AS zygote_adjusted_value,
  c.has_spike AS track_has_spike_gt_100mib
FROM clipped c
LEFT JOIN zygotes z ON z.upid = c.parent_upid AND z.name = c.memory_track_name
WHERE c.ts_end > c.ts
ORDER BY c.track_id, c.ts;

CREATE PERFETTO VIEW _memory_breakdown_oom_intervals AS
SELECT t.track_id, o.ts, o.dur, o.bucket
FROM android_oom_adj_intervals o
JOIN (SELECT DISTINCT track_id, upid FROM android_process_memory_intervals) t ON t.upid = o.upid
WHERE o.dur > 0;

CREATE VIRTUAL TABLE _memory_breakdown_with_oom USING SPAN_LEFT_JOIN(
  android_process_memory_intervals PARTITIONED track_id,
  _memory_breakdown_oom_intervals PARTITIONED track_id
);

-- The memory of processes with the kind of process by its score of the out-of-memory killer.
CREATE PERFETTO TABLE android_process_memory_intervals_by_oom_bucket(
  id LONG, ts TIMESTAMP, dur DURATION, process_name STRING, upid JOINID(process.id), pid LONG,
  bucket STRING, memory_track_name STRING, track_id JOINID(track.id), counter_id JOINID(counter.id),
  value LONG, zygote_adjusted_value LONG, track_has_spike_gt_100mib BOOL
) AS
SELECT row_number() OVER (ORDER BY m.track_id, m.ts) AS id, m.ts, m.dur, m.process_name, m.upid,
  m.pid, coalesce(m.bucket, 'unknown') AS bucket, m.memory_track_name, m.track_id,
  m.id AS counter_id, m.value, m.zygote_adjusted_value, m.track_has_spike_gt_100mib
FROM _memory_breakdown_with_oom m
WHERE m.dur > 0;
