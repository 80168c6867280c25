INCLUDE PERFETTO MODULE counters.intervals;

CREATE PERFETTO VIEW _memory_intervals AS
SELECT i.id, i.ts, i.dur, t.upid, t.name, CAST(i.value AS INT) AS value
FROM counter_leading_intervals!((
  SELECT * FROM counter
  WHERE track_id IN (
    SELECT id FROM process_counter_track
    WHERE name IN ('mem.rss.anon', 'mem.rss.file', 'mem.rss.shmem', 'mem.swap')
  )
)) i
JOIN process_counter_track t ON i.track_id = t.id;

-- All times at which one of a process's counters changes, with the values of all of them.
CREATE PERFETTO VIEW _memory_changes AS
SELECT upid, ts,
  max(CASE name WHEN 'mem.rss.anon' THEN value END) AS anon_rss,
  max(CASE name WHEN 'mem.rss.file' THEN value END) AS file_rss,
  max(CASE name WHEN 'mem.rss.shmem' THEN value END) AS shmem_rss,
  max(CASE name WHEN 'mem.swap' THEN value END) AS swap
FROM _memory_intervals
GROUP BY upid, ts;

CREATE PERFETTO VIEW _memory_filled AS
SELECT upid, ts,
  coalesce(lead(ts) OVER (PARTITION BY upid ORDER BY ts), trace_end()) - ts AS dur,
  last_non_null(anon_rss) OVER (PARTITION BY upid ORDER BY ts) AS anon_rss,
  last_non_null(file_rss) OVER (PARTITION BY upid ORDER BY ts) AS file_rss,
  last_non_null(shmem_rss) OVER (PARTITION BY upid ORDER BY ts) AS shmem_rss,
  last_non_null(swap) OVER (PARTITION BY upid ORDER BY ts) AS swap
FROM _memory_changes;

CREATE PERFETTO VIEW memory_rss_and_swap_per_process AS
SELECT m.ts, m.dur, m.upid, p.pid, p.name AS process_name, anon_rss, file_rss, shmem_rss,
  coalesce(file_rss, 0) + coalesce(anon_rss, 0) + coalesce(shmem_rss, 0) AS rss, swap,
  coalesce(anon_rss, 0) + coalesce(swap, 0) AS anon_rss_and_swap,
  coalesce(file_rss, 0) + coalesce(anon_rss, 0) + coalesce(shmem_rss, 0) + coalesce(swap, 0)
    AS rss_and_swap
FROM _memory_filled m JOIN process p ON m.upid = p.upid;
