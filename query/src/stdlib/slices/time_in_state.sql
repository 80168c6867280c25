INCLUDE PERFETTO MODULE intervals.intersect;
INCLUDE PERFETTO MODULE slices.with_context;

-- The time of each slice that its thread spent in each state.
CREATE PERFETTO VIEW thread_slice_time_in_state AS
SELECT s.id, s.name, s.utid, s.thread_name, s.upid, s.process_name, t.state, t.io_wait,
  t.blocked_function, p.dur
FROM (
  SELECT slice_id, state_id, sum(dur) AS dur
  FROM (
    SELECT i.id AS slice_id, t.id AS state_id,
      min(i.ts + i.dur, t.ts + t.dur) - max(i.ts, t.ts) AS dur
    FROM thread_slice i JOIN thread_state t
      ON i.utid = t.utid AND t.ts < i.ts + i.dur AND t.ts + t.dur > i.ts
    WHERE i.dur > 0 AND t.dur > 0
  )
  GROUP BY slice_id, state_id
) p
JOIN thread_slice s ON s.id = p.slice_id
JOIN thread_state t ON t.id = p.state_id;
