-- For each running state the last runnable one of its thread, and the last that began with a wakeup
-- by a thread.
CREATE PERFETTO TABLE sched_previous_runnable_on_thread(
  id JOINID(thread_state.id), prev_runnable_id JOINID(thread_state.id),
  prev_wakeup_runnable_id JOINID(thread_state.id)
) AS
SELECT id, prev_runnable_id, prev_wakeup_runnable_id
FROM (
  SELECT id, state,
    max(iif(state = 'Running', NULL, id)) OVER thread AS prev_runnable_id,
    max(iif(waker_utid IS NOT NULL AND coalesce(irq_context, 0) <> 1, id, NULL)) OVER thread
      AS prev_wakeup_runnable_id
  FROM thread_state
  WHERE dur <> -1 AND state GLOB 'R*'
  WINDOW thread AS (PARTITION BY utid ORDER BY id)
)
WHERE state = 'Running'
ORDER BY id;
