INCLUDE PERFETTO MODULE android.oom_adjuster;

-- The name of a reason of the low memory killer.
CREATE PERFETTO FUNCTION _android_lmk_kill_reason_string(kill_reason LONG)
RETURNS STRING AS
SELECT CASE
  WHEN $kill_reason BETWEEN 1000 AND 1999 THEN 'VENDOR_REASON'
  ELSE CASE $kill_reason
    WHEN 0 THEN 'PRESSURE_AFTER_KILL'
    WHEN 1 THEN 'NOT_RESPONDING'
    WHEN 2 THEN 'LOW_SWAP_AND_THRASHING'
    WHEN 3 THEN 'LOW_MEM_AND_SWAP'
    WHEN 4 THEN 'LOW_MEM_AND_THRASHING'
    WHEN 5 THEN 'DIRECT_RECL_AND_THRASHING'
    WHEN 6 THEN 'LOW_MEM_AND_SWAP_UTIL'
    WHEN 7 THEN 'LOW_FILECACHE_AFTER_THRASHING'
    WHEN 8 THEN 'LOW_MEM'
    WHEN 9 THEN 'DIRECT_RECL_STUCK'
    ELSE 'UNKNOWN'
  END
END;

-- Kills in all formats: instants `lmk,PID,REASON,SCORE` of the killer's track, slices of this name
-- in older traces, and a counter with the PID in the oldest.
CREATE PERFETTO VIEW _android_lmk_events AS
WITH events AS (
  SELECT s.ts, 1 AS format, CAST(str_split(s.name, ',', 1) AS INT) AS pid,
    CAST(str_split(s.name, ',', 2) AS INT) AS kill_reason_raw,
    CAST(str_split(s.name, ',', 3) AS INT) AS oom_score_adj
  FROM slice s JOIN process_track t ON s.track_id = t.id
  WHERE t.name = 'lowmemorykiller' AND s.name GLOB 'lmk,*' AND s.dur = 0
  UNION ALL
  SELECT ts, 2 AS format, CAST(str_split(name, ',', 1) AS INT) AS pid,
    CAST(str_split(name, ',', 2) AS INT) AS kill_reason_raw,
    CAST(str_split(name, ',', 3) AS INT) AS oom_score_adj
  FROM slice
  WHERE name GLOB 'lmk,*' AND dur > 0
  UNION ALL
  SELECT k.ts, 3 AS format, k.pid, NULL AS kill_reason_raw, i.score AS oom_score_adj
  FROM (
    SELECT c.ts, CAST(c.value AS INT) AS pid
    FROM counter c JOIN counter_track t ON c.track_id = t.id
    WHERE t.name = 'kill_one_process' AND c.value > 0
  ) k
  LEFT JOIN (
    SELECT p.pid, o.ts, o.dur, o.score
    FROM android_oom_adj_intervals o JOIN process p ON p.upid = o.upid
  ) i ON k.pid = i.pid AND k.ts >= i.ts AND k.ts < i.ts + i.dur
)
SELECT ts, pid, kill_reason_raw, oom_score_adj FROM events
WHERE format = (SELECT min(format) FROM events);

-- Processes killed by the low memory killer.
CREATE PERFETTO TABLE android_lmk_events(
  ts TIMESTAMP, upid JOINID(process.id), pid LONG, process_name STRING, oom_score_adj LONG,
  kill_reason STRING, kill_reason_raw LONG
) AS
SELECT e.ts, p.upid, e.pid, p.name AS process_name, e.oom_score_adj,
  _android_lmk_kill_reason_string(e.kill_reason_raw) AS kill_reason, e.kill_reason_raw
FROM _android_lmk_events e
LEFT JOIN process p ON e.pid = p.pid AND e.ts >= coalesce(p.start_ts, trace_start())
  AND e.ts <= coalesce(p.end_ts, trace_end())
ORDER BY e.ts;
