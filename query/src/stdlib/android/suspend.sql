INCLUDE PERFETTO MODULE intervals.fill_gaps;

-- The times at which a machine was suspended, and awake in between. A machine without suspensions
-- has no rows, except the recording one, which was awake.
CREATE PERFETTO TABLE android_suspend_state(
  ts TIMESTAMP, dur DURATION, power_state STRING, machine_id JOINID(machine.id)
) AS
WITH
  steps AS (
    SELECT s.ts, s.dur, t.machine_id, t.name = 'Suspend/Resume Minimal' AS is_minimal
    FROM slice s JOIN track t ON s.track_id = t.id
    WHERE t.name = 'Suspend/Resume Minimal'
      OR (
        t.name = 'Suspend/Resume Latency'
        AND s.name IN ('syscore_resume(0)', 'timekeeping_freeze(0)')
        AND s.dur <> -1
      )
  ),
  -- Only one source for each machine.
  sources AS (
    SELECT machine_id AS machine, max(is_minimal) AS is_minimal FROM steps GROUP BY machine_id
  ),
  chosen AS (
    SELECT
      ts,
      dur,
      machine_id,
      coalesce(lead(ts) OVER (PARTITION BY machine_id ORDER BY ts), trace_end()) AS next_ts
    FROM steps
    JOIN sources ON steps.machine_id = sources.machine AND steps.is_minimal = sources.is_minimal
  ),
  -- The end of a suspension that overlaps the next one was lost.
  suspended AS (
    SELECT ts, dur, machine_id, 'suspended' AS power_state
    FROM chosen
    WHERE ts + dur <= next_ts
    UNION ALL
    SELECT NULL, NULL, 0, NULL
  )
SELECT
  ts,
  dur,
  coalesce(power_state, 'awake') AS power_state,
  coalesce(machine_id, 0) AS machine_id
FROM _intervals_fill_gaps!((machine_id), (power_state), suspended)
ORDER BY ts;

-- The time of an interval in which its machine was not suspended.
CREATE PERFETTO FUNCTION _extract_duration_without_suspend(ts TIMESTAMP, dur DURATION)
RETURNS LONG AS
SELECT to_monotonic($ts + $dur) - to_monotonic($ts);
