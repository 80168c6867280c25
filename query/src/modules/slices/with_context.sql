INCLUDE PERFETTO MODULE std.thread.with_context;

-- Slices of threads with their thread and its process.
CREATE PERFETTO VIEW thread_slice(
  id ID(slice.id), ts TIMESTAMP, dur DURATION, category STRING, name STRING,
  track_id JOINID(track.id), track_name STRING, thread_name STRING, utid JOINID(thread.id), tid LONG,
  is_main_thread BOOL, process_name STRING, upid JOINID(process.id), pid LONG, depth LONG,
  parent_id JOINID(slice.id), arg_set_id ARGSETID, thread_ts TIMESTAMP, thread_dur LONG
) AS
-- Inner joins from the small tables to the slices let a condition on any of them come first.
SELECT s.id, s.ts, s.dur, s.category, s.name, s.track_id, t.name AS track_name, c.thread_name,
  c.utid, c.tid, c.is_main_thread, c.process_name, c.upid, c.pid, s.depth, s.parent_id,
  s.arg_set_id, s.thread_ts, s.thread_dur
FROM thread_track t
JOIN _thread_with_process c ON c.utid = t.utid
JOIN slice s ON s.track_id = t.id;

-- Slices of processes with their process.
CREATE PERFETTO VIEW process_slice(
  id ID(slice.id), ts TIMESTAMP, dur DURATION, category STRING, name STRING,
  track_id JOINID(track.id), track_name STRING, process_name STRING, upid JOINID(process.id),
  pid LONG, depth LONG, parent_id JOINID(slice.id), arg_set_id ARGSETID, thread_ts TIMESTAMP,
  thread_dur LONG
) AS
SELECT s.id, s.ts, s.dur, s.category, s.name, s.track_id, t.name AS track_name,
  p.name AS process_name, p.upid, p.pid, s.depth, s.parent_id, s.arg_set_id, s.thread_ts,
  s.thread_dur
FROM slice s
JOIN process_track t ON t.id = s.track_id
JOIN process p ON p.upid = t.upid;

-- Slices of threads and of processes.
CREATE PERFETTO VIEW thread_or_process_slice(
  id JOINID(slice.id), ts TIMESTAMP, dur DURATION, category STRING, name STRING,
  track_id JOINID(track.id), track_name STRING, thread_name STRING, utid JOINID(thread.id), tid LONG,
  process_name STRING, upid JOINID(process.id), pid LONG, depth LONG, parent_id JOINID(slice.id),
  arg_set_id ARGSETID
) AS
SELECT id, ts, dur, category, name, track_id, track_name, thread_name, utid, tid, process_name, upid,
  pid, depth, parent_id, arg_set_id
FROM thread_slice
UNION ALL
SELECT id, ts, dur, category, name, track_id, track_name, NULL, NULL, NULL, process_name, upid, pid,
  depth, parent_id, arg_set_id
FROM process_slice;
