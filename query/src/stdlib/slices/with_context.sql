-- Slices of threads, with their threads and processes.
CREATE PERFETTO VIEW thread_slice AS
SELECT s.id, s.ts, s.dur, s.category, s.name, s.track_id, t.name AS track_name,
  thread.name AS thread_name, thread.utid, thread.tid, thread.is_main_thread,
  process.name AS process_name, process.upid, process.pid, s.depth, s.parent_id, s.arg_set_id,
  s.thread_ts, s.thread_dur
FROM slice s
JOIN thread_track t ON s.track_id = t.id
JOIN thread ON t.utid = thread.utid
LEFT JOIN process ON thread.upid = process.upid;

-- Slices of processes, with their processes.
CREATE PERFETTO VIEW process_slice AS
SELECT s.id, s.ts, s.dur, s.category, s.name, s.track_id, t.name AS track_name,
  process.name AS process_name, process.upid, process.pid, s.depth, s.parent_id, s.arg_set_id,
  s.thread_ts, s.thread_dur
FROM slice s
JOIN process_track t ON s.track_id = t.id
JOIN process ON t.upid = process.upid;

-- Slices of threads and of processes.
CREATE PERFETTO VIEW thread_or_process_slice AS
SELECT id, ts, dur, category, name, track_id, track_name, thread_name, utid, tid, is_main_thread,
  process_name, upid, pid, depth, parent_id, arg_set_id
FROM thread_slice
UNION ALL
SELECT id, ts, dur, category, name, track_id, track_name, NULL AS thread_name, NULL AS utid,
  NULL AS tid, NULL AS is_main_thread, process_name, upid, pid, depth, parent_id, arg_set_id
FROM process_slice;
