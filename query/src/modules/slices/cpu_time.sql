-- The CPU time of the slice's thread during each slice.
CREATE PERFETTO VIEW thread_slice_cpu_time AS
SELECT s.id, s.name, t.utid, t.name AS thread_name, p.upid, p.name AS process_name, c.cpu_time
FROM (
  SELECT slice_id AS id, sum(overlap) AS cpu_time
  FROM __slice_sched
  GROUP BY slice_id
) c
JOIN slice s ON s.id = c.id
JOIN thread_track k ON s.track_id = k.id
JOIN thread t ON k.utid = t.utid
LEFT JOIN process p ON t.upid = p.upid;

INCLUDE PERFETTO MODULE linux.cpu.utilization.slice;

-- The cycles of the slice's thread during each slice.
CREATE PERFETTO VIEW thread_slice_cpu_cycles(
  id JOINID(slice.id), name STRING, utid JOINID(thread.id), thread_name STRING,
  upid JOINID(process.id), process_name STRING, millicycles LONG, megacycles LONG
) AS
SELECT id, name, utid, thread_name, upid, process_name, millicycles, megacycles
FROM cpu_cycles_per_thread_slice;
