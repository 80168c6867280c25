INCLUDE PERFETTO MODULE intervals.overlap;
INCLUDE PERFETTO MODULE slices.with_context;

-- The innermost slices of each thread over time, as rows that do not overlap.
CREATE PERFETTO TABLE _slice_flattened AS
SELECT f.id AS slice_id, f.ts, f.dur, s.depth, s.name, f.root_id, s.track_id, s.utid, s.tid,
  s.thread_name, s.upid, s.pid, s.process_name
FROM _intervals_flatten!((
  SELECT track_id AS root_id, id, parent_id, ts, dur FROM thread_slice WHERE dur >= 0
)) f
JOIN thread_slice s ON s.id = f.id;
