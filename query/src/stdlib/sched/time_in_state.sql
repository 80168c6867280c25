-- The time that each thread spent in each state.
CREATE PERFETTO VIEW sched_time_in_state_for_thread AS
SELECT utid, sum(dur) OVER (PARTITION BY utid) AS total_runtime, state, dur AS time_in_state
FROM (
  SELECT utid, state, sum(dur) AS dur FROM thread_state WHERE dur >= 0 GROUP BY utid, state
);

-- The time that each thread spent in each state, in percent of the thread's time.
CREATE PERFETTO VIEW sched_percentage_of_time_in_state AS
SELECT utid,
  sum(CASE state WHEN 'Running' THEN dur ELSE 0 END) * 100 / sum(dur) AS running,
  sum(CASE state WHEN 'R' THEN dur ELSE 0 END) * 100 / sum(dur) AS runnable,
  sum(CASE state WHEN 'R+' THEN dur ELSE 0 END) * 100 / sum(dur) AS runnable_preempted,
  sum(CASE state WHEN 'S' THEN dur ELSE 0 END) * 100 / sum(dur) AS sleeping,
  sum(CASE state WHEN 'D' THEN dur ELSE 0 END) * 100 / sum(dur) AS uninterruptible_sleep,
  sum(CASE WHEN state IN ('Running', 'R', 'R+', 'S', 'D') THEN 0 ELSE dur END) * 100 / sum(dur)
    AS other
FROM thread_state WHERE dur >= 0
GROUP BY utid;

-- The states of a thread within an interval.
CREATE PERFETTO FUNCTION sched_time_in_state_for_thread_in_interval(ts LONG, dur LONG, utid LONG)
RETURNS TABLE(state STRING, io_wait BOOL, blocked_function STRING, dur LONG) AS
SELECT state, io_wait, blocked_function,
  sum(min(ts + dur, $ts + $dur) - max(ts, $ts)) AS dur
FROM thread_state
WHERE utid = $utid AND dur >= 0 AND ts < $ts + $dur AND ts + dur > $ts
GROUP BY state, io_wait, blocked_function;

-- The states of a thread within an interval, for each CPU.
CREATE PERFETTO FUNCTION sched_time_in_state_and_cpu_for_thread_in_interval(
  ts LONG, dur LONG, utid LONG
)
RETURNS TABLE(state STRING, io_wait BOOL, cpu LONG, blocked_function STRING, dur LONG) AS
SELECT state, io_wait, cpu, blocked_function,
  sum(min(ts + dur, $ts + $dur) - max(ts, $ts)) AS dur
FROM thread_state
WHERE utid = $utid AND dur >= 0 AND ts < $ts + $dur AND ts + dur > $ts
GROUP BY state, io_wait, cpu, blocked_function;

-- The end states of scheduling slices within an interval.
CREATE PERFETTO FUNCTION sched_time_in_state_for_cpu_in_interval(cpu LONG, ts LONG, dur LONG)
RETURNS TABLE(end_state STRING, dur LONG) AS
SELECT end_state, sum(min(ts + dur, $ts + $dur) - max(ts, $ts)) AS dur
FROM sched_slice
WHERE cpu = $cpu AND dur >= 0 AND ts < $ts + $dur AND ts + dur > $ts
GROUP BY end_state;
