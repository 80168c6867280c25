-- The counters of F2FS: the part of their names after the device.
CREATE PERFETTO VIEW _android_io_f2fs_counter_stats(
  name STRING, sum DOUBLE, max DOUBLE, min DOUBLE, dur DURATION, count LONG, avg DOUBLE
) AS
SELECT str_split(t.name, '].', 1) AS name, sum(c.value) AS sum, max(c.value) AS max,
  min(c.value) AS min, max(c.ts) - min(c.ts) AS dur, count() AS count, avg(c.value) AS avg
FROM counter_track t JOIN counter c ON c.track_id = t.id
WHERE t.name GLOB '*f2fs*'
GROUP BY 1 ORDER BY 2 DESC;

-- The bytes that threads wrote to files.
CREATE PERFETTO VIEW _android_io_f2fs_write_stats(
  utid JOINID(thread.id), tid LONG, thread_name STRING, upid JOINID(process.id), pid LONG,
  process_name STRING, ino LONG, dev LONG, bytes LONG, write_count LONG
) AS
SELECT t.utid, t.tid, t.name AS thread_name, p.upid, p.pid, p.name AS process_name, w.ino, w.dev,
  sum(w.copied) AS bytes, count(w.len) AS write_count
FROM (
  SELECT utid, extract_arg(arg_set_id, 'ino') AS ino, extract_arg(arg_set_id, 'dev') AS dev,
    extract_arg(arg_set_id, 'copied') AS copied, extract_arg(arg_set_id, 'len') AS len
  FROM ftrace_event WHERE name GLOB 'f2fs_write_end*'
) w
JOIN thread t USING (utid) JOIN process p USING (upid)
GROUP BY t.utid, w.ino, w.dev ORDER BY bytes DESC;

CREATE PERFETTO VIEW _android_io_f2fs_aggregate_write_stats(
  total_write_count LONG, distinct_processes LONG, total_bytes_written LONG,
  distinct_device_count LONG, distinct_inode_count LONG, distinct_thread_count LONG
) AS
SELECT sum(write_count) AS total_write_count, count(DISTINCT pid) AS distinct_processes,
  sum(bytes) AS total_bytes_written, count(DISTINCT dev) AS distinct_device_count,
  count(DISTINCT ino) AS distinct_inode_count, count(DISTINCT tid) AS distinct_thread_count
FROM _android_io_f2fs_write_stats;
