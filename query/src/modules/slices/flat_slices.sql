INCLUDE PERFETTO MODULE intervals.overlap;
INCLUDE PERFETTO MODULE slices.with_context;

-- For each time of a thread the innermost slice: slices without the time of those within.
CREATE PERFETTO TABLE _slice_flattened AS
WITH nested(id, root_id) AS (
  SELECT id, id FROM slice WHERE parent_id IS NULL
  UNION ALL
  SELECT s.id, n.root_id FROM nested n JOIN slice s ON s.parent_id = n.id
)
SELECT f.id AS slice_id, f.ts, f.dur, s.depth, s.name, f.root_id, s.track_id, s.utid, s.tid,
  s.thread_name, s.upid, s.pid, s.process_name
FROM _intervals_flatten!(
  _intervals_merge_root_and_children!(
    (SELECT id, ts, dur FROM slice WHERE parent_id IS NULL),
    (
      SELECT n.root_id, s.id, s.parent_id, s.ts, s.dur
      FROM nested n JOIN slice s ON s.id = n.id
      WHERE s.parent_id IS NOT NULL
    )
  )
) f
JOIN thread_slice s ON s.id = f.id;

CREATE PERFETTO INDEX _slice_flattened_id_idx ON _slice_flattened(slice_id);
CREATE PERFETTO INDEX _slice_flattened_ts_idx ON _slice_flattened(ts);
