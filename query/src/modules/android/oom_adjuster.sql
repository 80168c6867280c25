INCLUDE PERFETTO MODULE counters.intervals;
INCLUDE PERFETTO MODULE slices.with_context;

-- The kind of process with a score of the out-of-memory killer.
CREATE PERFETTO FUNCTION android_oom_adj_score_to_bucket_name(oom_score LONG)
RETURNS STRING AS
SELECT CASE
  WHEN $oom_score >= 900 THEN 'cached'
  WHEN $oom_score >= 250 THEN 'background'
  WHEN $oom_score > 200 THEN 'job'
  WHEN $oom_score = 200 THEN 'foreground_service'
  WHEN $oom_score >= 100 THEN 'bfgs'
  WHEN $oom_score >= 0 THEN 'foreground'
  WHEN $oom_score < 0 THEN 'system'
END;

-- The scores of processes, each until the next one, with the last update of the system server
-- before it.
CREATE PERFETTO TABLE _oom_adjuster_intervals AS
SELECT c.ts, c.dur, CAST(c.value AS INT) AS score, p.upid, p.name AS process_name, c.oom_adj_id,
  c.oom_adj_ts, c.oom_adj_dur, c.oom_adj_track_id, c.oom_adj_thread_name, c.oom_adj_utid,
  c.oom_adj_reason, c.oom_adj_trigger, p.android_appid
FROM asof_join!(
  (
    SELECT i.ts, i.dur, i.value, t.upid
    FROM counter_leading_intervals!((
      SELECT v.* FROM counter v JOIN process_counter_track n ON v.track_id = n.id
      WHERE n.name = 'oom_score_adj'
    )) i
    JOIN process_counter_track t ON i.track_id = t.id
  ),
  (
    -- An update is the reason of later scores.
    SELECT u.ts + 1 AS ts, u.id AS oom_adj_id, u.ts AS oom_adj_ts, u.dur AS oom_adj_dur,
      u.track_id AS oom_adj_track_id, u.thread_name AS oom_adj_thread_name, u.utid AS oom_adj_utid,
      str_split(u.name, '_', 1) AS oom_adj_reason, around.name AS oom_adj_trigger
    FROM thread_slice u LEFT JOIN slice around ON around.id = u.parent_id AND around.dur <> -1
    WHERE u.name GLOB 'updateOomAdj_*' AND u.process_name = 'system_server'
  ),
  ()
) c
JOIN process p ON p.upid = c.upid;

-- The scores of processes with their kinds.
CREATE PERFETTO VIEW android_oom_adj_intervals(
  ts TIMESTAMP, dur DURATION, score LONG, bucket STRING, upid JOINID(process.id),
  process_name STRING, oom_adj_id LONG, oom_adj_ts TIMESTAMP, oom_adj_dur DURATION,
  oom_adj_track_id JOINID(track.id), oom_adj_thread_name STRING, oom_adj_reason STRING,
  oom_adj_trigger STRING
) AS
SELECT i.ts, i.dur, i.score, android_oom_adj_score_to_bucket_name(i.score) AS bucket, i.upid,
  i.process_name, i.oom_adj_id, i.oom_adj_ts, i.oom_adj_dur, i.oom_adj_track_id,
  i.oom_adj_thread_name, i.oom_adj_reason, i.oom_adj_trigger
FROM _oom_adjuster_intervals i;

-- The finer name of a score, for a program of this id.
CREATE PERFETTO FUNCTION android_oom_adj_score_to_detailed_bucket_name(
  value LONG, android_appid LONG
) RETURNS STRING AS
SELECT coalesce(
  (SELECT column3 FROM (VALUES
    (-1000, -1000, 'native'),
    (-900, -900, 'system'),
    (-800, -800, 'persistent_proc'),
    (-700, -700, 'persistent_service'),
    (-600, -600, 'logcat'),
    (0, 0, 'foreground_app'),
    (50, 50, 'perceptible_foreground_app'),
    (100, 199, 'visible_app'),
    (200, 224, 'perceptible_app'),
    (225, 249, 'perceptible_medium_app'),
    (250, 299, 'perceptible_low_app'),
    (300, 399, 'backup'),
    (400, 499, 'heavy_weight_app'),
    (500, 599, 'service'),
    (600, 699, 'home_app'),
    (700, 799, 'previous_app'),
    (800, 899, 'service_b'),
    (900, 949, 'cached_app'),
    (950, 9223372036854775807, 'cached_app_lmk_first'))
   WHERE $value BETWEEN column1 AND column2),
  iif($android_appid IS NULL, 'unknown',
    iif($android_appid < 10000, 'unknown_native', 'unknown_app')));
