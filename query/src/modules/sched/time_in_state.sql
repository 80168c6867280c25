INCLUDE PERFETTO MODULE intervals.intersect;

CREATE PERFETTO TABLE sched_time_in_state_for_thread(
  utid JOINID(thread.id), total_runtime LONG, state STRING, time_in_state LONG,
  percentage_in_state LONG
) AS
SELECT utid, total AS total_runtime, state, dur AS time_in_state,
  dur * 100 / total AS percentage_in_state
FROM (
  SELECT utid, state, dur, sum(dur) OVER (PARTITION BY utid) AS total
  FROM (SELECT utid, state, sum(dur) AS dur FROM thread_state GROUP BY utid, state)
);

CREATE PERFETTO MACRO _percentage_in_state(state Expr) RETURNS Expr AS
max(percentage_in_state) FILTER (WHERE state = $state);

CREATE PERFETTO TABLE sched_percentage_of_time_in_state(
  utid JOINID(thread.id), running LONG, runnable LONG, runnable_preempted LONG, sleeping LONG,
  uninterruptible_sleep LONG, other LONG
) AS
SELECT utid, _percentage_in_state!('Running') AS running, _percentage_in_state!('R') AS runnable,
  _percentage_in_state!('R+') AS runnable_preempted, _percentage_in_state!('S') AS sleeping,
  _percentage_in_state!('D') AS uninterruptible_sleep,
  sum(time_in_state) FILTER (
    WHERE state IN ('T', 't', 'X', 'Z', 'x', 'I', 'K', 'W', 'P', 'N')
  ) * 100 / total_runtime AS other
FROM sched_time_in_state_for_thread
GROUP BY utid;

CREATE PERFETTO FUNCTION sched_time_in_state_for_thread_in_interval(
  ts TIMESTAMP, dur DURATION, utid JOINID(thread.id)
)
RETURNS TABLE(state STRING, io_wait BOOL, blocked_function LONG, dur DURATION) AS
SELECT t.state, t.io_wait, t.blocked_function, sum(i.dur) AS dur
FROM _interval_intersect_single!(
  $ts, $dur, (SELECT id, ts, dur FROM thread_state WHERE utid = $utid AND dur > 0)
) i
JOIN thread_state t ON t.id = i.id
GROUP BY t.state, t.io_wait, t.blocked_function
ORDER BY sum(i.dur) DESC;

CREATE PERFETTO FUNCTION sched_time_in_state_and_cpu_for_thread_in_interval(
  ts TIMESTAMP, dur DURATION, utid JOINID(thread.id)
)
RETURNS TABLE(state STRING, io_wait BOOL, cpu LONG, blocked_function LONG, dur DURATION) AS
SELECT t.state, t.io_wait, t.cpu, t.blocked_function, sum(i.dur) AS dur
FROM _interval_intersect_single!(
  $ts, $dur, (SELECT id, ts, dur FROM thread_state WHERE utid = $utid AND dur > 0)
) i
JOIN thread_state t ON t.id = i.id
GROUP BY t.state, t.io_wait, t.cpu, t.blocked_function
ORDER BY sum(i.dur) DESC;

CREATE PERFETTO FUNCTION sched_time_in_state_for_cpu_in_interval(
  cpu LONG, ts TIMESTAMP, dur LONG
)
RETURNS TABLE(end_state STRING, dur LONG) AS
SELECT s.end_state, sum(i.dur) AS dur
FROM _interval_intersect_single!(
  $ts, $dur, (SELECT id, ts, dur FROM sched WHERE cpu = $cpu AND dur <> -1)
) i
JOIN sched s ON s.id = i.id
GROUP BY s.end_state;
