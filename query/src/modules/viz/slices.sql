INCLUDE PERFETTO MODULE graphs.scan;
INCLUDE PERFETTO MODULE slices.with_context;

-- The slices of a selection with those above them: the time that belongs to each itself.
CREATE PERFETTO MACRO _viz_slice_ancestor_agg(inits TableOrSubquery, nodes TableOrSubquery)
RETURNS TableOrSubquery AS
(
  SELECT n.id, n.parent_id AS parentId, n.name, g.self_dur, g.self_count, 1 AS simple_count
  FROM _graph_aggregating_scan!(
    (
      SELECT id AS source_node_id, parent_id AS dest_node_id FROM $nodes
      WHERE parent_id IS NOT NULL
    ),
    (SELECT id, dur, dur AS self_dur, 1 AS self_count FROM $inits),
    (dur, self_dur, self_count),
    (
      SELECT n.id, n.dur, n.dur - sum(t.dur) AS self_dur, 0 AS self_count
      FROM $table t JOIN $nodes n ON n.id = t.id
      GROUP BY n.id
    )
  ) g
  JOIN $nodes n ON n.id = g.id
);

CREATE PERFETTO VIEW _viz_slices_for_ui_table AS
SELECT id, ts, dur, category, name, track_id, track_name, thread_name, utid, tid, process_name, upid,
  pid, depth, parent_id, arg_set_id
FROM thread_or_process_slice
UNION ALL
SELECT s.id, s.ts, s.dur, s.category, s.name, s.track_id, t.name, NULL, NULL, NULL, NULL, NULL, NULL,
  s.depth, s.parent_id, s.arg_set_id
FROM slice s JOIN track t ON t.id = s.track_id
WHERE s.track_id NOT IN (
  SELECT id FROM thread_track
  UNION ALL
  SELECT id FROM process_track
);
