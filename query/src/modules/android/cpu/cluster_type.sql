INCLUDE PERFETTO MODULE intervals.overlap;

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
