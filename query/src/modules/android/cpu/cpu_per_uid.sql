INCLUDE PERFETTO MODULE counters.intervals;

-- The CPU time of users, by cluster. The package is one of those of the user.
CREATE PERFETTO TABLE android_cpu_per_uid_track(
  id LONG, uid LONG, cluster LONG, total_cpu_millis LONG, package_name STRING
) AS
SELECT t.track_id AS id, t.uid, t.cluster, t.total_cpu_millis,
  (
    SELECT p.package_name FROM package_list p
    WHERE p.uid = t.uid % 100000 AND p.uid >= 10000 LIMIT 1
  ) AS package_name
FROM __intrinsic_android_cpu_per_uid_track t;

-- The CPU time in each interval between two values. A ratio of 1 is one CPU.
CREATE PERFETTO VIEW android_cpu_per_uid_counter(
  id LONG, ts LONG, dur LONG, track_id LONG, diff_ms LONG, cpu_ratio DOUBLE
) AS
SELECT i.id, i.ts, i.dur, i.track_id, i.next_value - i.value AS diff_ms,
  (i.next_value - i.value) * 1e6 / i.dur AS cpu_ratio
FROM counter_leading_intervals!((
  SELECT c.id, c.ts, c.track_id, c.value
  FROM android_cpu_per_uid_track t JOIN counter c ON c.track_id = t.id
)) i
WHERE i.next_value IS NOT NULL;
