INCLUDE PERFETTO MODULE sched.runnable;

-- For each time on a CPU how long the thread was runnable before.
CREATE PERFETTO TABLE sched_latency_for_running_interval(
  thread_state_id JOINID(thread_state.id), sched_id JOINID(sched.id), utid JOINID(thread.id),
  runnable_latency_id JOINID(thread_state.id), latency_dur LONG
) AS
SELECT r.id AS thread_state_id, s.id AS sched_id, before.utid,
  r.prev_runnable_id AS runnable_latency_id, before.dur AS latency_dur
FROM sched_previous_runnable_on_thread r
JOIN thread_state before ON before.id = r.prev_runnable_id
JOIN thread_state t ON t.id = r.id
JOIN sched s ON s.utid = t.utid AND s.ts = t.ts AND s.dur = t.dur;
