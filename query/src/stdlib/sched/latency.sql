-- The time that a thread waited for a CPU before each time it ran.
CREATE PERFETTO VIEW sched_latency_for_running_interval AS
SELECT id AS thread_state_id, sched_id, utid, before_id AS runnable_latency_id,
  before_dur AS latency_dur
FROM (
  SELECT t.id, t.utid, t.state, s.id AS sched_id,
    lag(t.id) OVER (PARTITION BY t.utid ORDER BY t.ts, t.id) AS before_id,
    lag(t.dur) OVER (PARTITION BY t.utid ORDER BY t.ts, t.id) AS before_dur,
    lag(t.state) OVER (PARTITION BY t.utid ORDER BY t.ts, t.id) AS before_state
  FROM thread_state t LEFT JOIN sched s ON s.utid = t.utid AND s.ts = t.ts
)
WHERE state = 'Running' AND before_state IN ('R', 'R+');
