INCLUDE PERFETTO MODULE std.thread.with_context;

CREATE PERFETTO VIEW sched_with_thread_process(
  id ID(sched.id), ts TIMESTAMP, dur DURATION, utid JOINID(thread.id), thread_name STRING,
  upid JOINID(process.id), process_name STRING, cpu LONG, end_state STRING, priority LONG
) AS
SELECT s.id, s.ts, s.dur, s.utid, t.upid, t.name AS thread_name, p.name AS process_name, s.cpu,
  s.end_state, s.priority
FROM sched s JOIN thread t ON t.utid = s.utid LEFT JOIN process p ON p.upid = t.upid;
