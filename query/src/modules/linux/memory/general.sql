-- Values of the counters of processes as intervals, until the process ends.
CREATE PERFETTO VIEW _all_counters_per_process AS
SELECT c.ts,
  lead(c.ts, 1, coalesce(p.end_ts, trace_end()) + 1) OVER (PARTITION BY c.track_id ORDER BY c.ts)
    - c.ts AS dur,
  t.upid, c.value, c.track_id, t.name
FROM process_counter_track t
JOIN counter c ON c.track_id = t.id
LEFT JOIN process p ON p.upid = t.upid
WHERE t.upid IS NOT NULL;
