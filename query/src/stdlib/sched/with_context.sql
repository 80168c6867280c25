-- The rows of `sched` with their threads and processes.
CREATE PERFETTO VIEW sched_with_thread_process AS
SELECT s.id, s.ts, s.dur, s.utid, t.name AS thread_name, t.upid, p.name AS process_name, s.cpu,
  s.end_state, s.priority
FROM sched s JOIN thread t ON s.utid = t.utid LEFT JOIN process p ON t.upid = p.upid;
