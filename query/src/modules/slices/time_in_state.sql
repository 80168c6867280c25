INCLUDE PERFETTO MODULE intervals.intersect;
INCLUDE PERFETTO MODULE slices.with_context;

-- For each slice of a thread the time in each of its states.
CREATE PERFETTO TABLE thread_slice_time_in_state(
  id JOINID(slice.id), name STRING, utid JOINID(thread.id), thread_name STRING,
  upid JOINID(process.id), process_name STRING, state STRING, io_wait BOOL,
  blocked_function STRING, dur DURATION
) AS
SELECT s.id, s.name, s.utid, s.thread_name, s.upid, s.process_name, t.state, t.io_wait,
  t.blocked_function, sum(i.dur) AS dur
FROM _interval_intersect!(
  (
    (SELECT id, ts, dur, utid FROM thread_slice WHERE dur > 0 AND utid > 0),
    (SELECT id, ts, dur, utid FROM thread_state WHERE dur > 0)
  ),
  (utid)
) i
JOIN thread_slice s ON s.id = i.id_0
JOIN thread_state t ON t.id = i.id_1
GROUP BY s.id, t.state, t.io_wait, t.blocked_function
ORDER BY s.id;
