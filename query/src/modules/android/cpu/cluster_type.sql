INCLUDE PERFETTO MODULE intervals.intersect;
INCLUDE PERFETTO MODULE intervals.overlap;

-- The cluster type of each CPU, if there are two to four types: the slowest CPUs are 'little', the
-- fastest 'big', the others 'medium'.
CREATE PERFETTO TABLE android_cpu_cluster_mapping(ucpu LONG, cpu LONG, cluster_type STRING) AS
SELECT
  ucpu,
  cpu,
  CASE
    WHEN clusters NOT BETWEEN 2 AND 4 THEN NULL
    WHEN cluster_id = 0 THEN 'little'
    WHEN cluster_id = clusters - 1 THEN 'big'
    ELSE 'medium'
  END AS cluster_type
FROM cpu CROSS JOIN (SELECT count(DISTINCT cluster_id) AS clusters FROM cpu);

-- The number of CPUs of a cluster type that run a task, from each time at which it changes.
CREATE PERFETTO FUNCTION _active_cpu_count_for_cluster_type(cluster_type STRING)
RETURNS TABLE(ts TIMESTAMP, active_cpu_count LONG) AS
SELECT ts, value AS active_cpu_count
FROM intervals_overlap_count!(
  (
    SELECT s.ts, s.dur
    FROM sched s
    JOIN android_cpu_cluster_mapping m USING (ucpu)
    JOIN thread t USING (utid)
    WHERE m.cluster_type = $cluster_type AND NOT t.is_idle
  ),
  ts,
  dur
)
ORDER BY ts;
