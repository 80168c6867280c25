INCLUDE PERFETTO MODULE slices.flat_slices;

CREATE VIRTUAL TABLE __span_joined_thread
USING SPAN_JOIN(_slice_flattened PARTITIONED utid, thread_state PARTITIONED utid);

-- The states of a thread in the time of a slice, cut where the innermost slice changes.
CREATE PERFETTO FUNCTION _get_flattened_thread_state(
  slice_id JOINID(slice.id), utid JOINID(thread.id)
)
RETURNS TABLE(
  ts TIMESTAMP, dur DURATION, utid JOINID(thread.id), depth LONG, name STRING,
  slice_id JOINID(slice.id), track_id JOINID(track.id), cpu LONG, state STRING, io_wait LONG,
  blocked_function STRING, waker_utid JOINID(thread.id), irq_context LONG
) AS
WITH wanted AS (
  SELECT s.ts, s.ts + s.dur AS ts_end, s.track_id
  FROM slice s JOIN thread_track t ON t.id = s.track_id
  WHERE ($slice_id IS NULL OR s.id = $slice_id) AND ($utid IS NULL OR t.utid = $utid)
  LIMIT 1
)
SELECT j.ts, j.dur, j.utid, j.depth, j.name, j.slice_id, j.track_id, j.cpu, j.state, j.io_wait,
  j.blocked_function, j.waker_utid, j.irq_context
FROM __span_joined_thread j JOIN wanted w
  ON j.track_id = w.track_id AND j.ts >= w.ts AND j.ts < w.ts_end;

CREATE PERFETTO MACRO _time_in_state(state Expr) RETURNS Expr AS
sum(dur) FILTER (WHERE state = $state);

-- The time of each slice within a slice in each state.
CREATE PERFETTO FUNCTION _get_flattened_thread_state_aggregated(
  slice_id JOINID(slice.id), utid JOINID(thread.id)
)
RETURNS TABLE(
  slice_id JOINID(slice.id), slice_name STRING, uninterruptible_sleep_nonio LONG,
  uninterruptible_sleep_io LONG, runnable LONG, sleeping LONG, stopped LONG, traced LONG,
  exit_dead LONG, exit_zombie LONG, task_dead LONG, wake_kill LONG, waking LONG, parked LONG,
  no_load LONG, runnable_preempted LONG, running LONG, idle LONG, dur DURATION, depth LONG
) AS
SELECT slice_id, name AS slice_name,
  sum(dur) FILTER (WHERE state = 'D' AND io_wait = 0) AS uninterruptible_sleep_nonio,
  sum(dur) FILTER (WHERE state = 'D' AND io_wait = 1) AS uninterruptible_sleep_io,
  _time_in_state!('R') AS runnable, _time_in_state!('S') AS sleeping,
  _time_in_state!('T') AS stopped, _time_in_state!('t') AS traced,
  _time_in_state!('X') AS exit_dead, _time_in_state!('Z') AS exit_zombie,
  _time_in_state!('x') AS task_dead, _time_in_state!('K') AS wake_kill,
  _time_in_state!('W') AS waking, _time_in_state!('P') AS parked, _time_in_state!('N') AS no_load,
  _time_in_state!('R+') AS runnable_preempted, _time_in_state!('Running') AS running,
  _time_in_state!('I') AS idle, sum(dur) AS dur, depth
FROM _get_flattened_thread_state($slice_id, $utid)
GROUP BY slice_id;
