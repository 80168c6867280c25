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
