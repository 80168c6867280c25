-- Threads with their processes.
CREATE PERFETTO VIEW _thread_with_process AS
SELECT t.utid, t.tid, t.name AS thread_name, t.is_main_thread, t.upid, p.pid,
  p.name AS process_name
FROM thread t LEFT JOIN process p ON t.upid = p.upid;
