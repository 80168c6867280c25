-- For each running row of a thread, the runnable row before it, and the one that started with a
-- wakeup.
CREATE PERFETTO VIEW sched_previous_runnable_on_thread AS
SELECT id, prev_runnable_id, prev_wakeup_runnable_id
FROM (
  SELECT id, state,
    last_non_null(CASE WHEN state IN ('R', 'R+') THEN id END) OVER before AS prev_runnable_id,
    last_non_null(CASE WHEN state = 'R' AND waker_utid IS NOT NULL THEN id END) OVER before
      AS prev_wakeup_runnable_id
  FROM thread_state
  WINDOW before AS (
    PARTITION BY utid ORDER BY ts, id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
  )
)
WHERE state = 'Running' AND prev_runnable_id IS NOT NULL;
