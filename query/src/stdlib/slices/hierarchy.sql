-- A slice and its ancestors.
CREATE PERFETTO FUNCTION _slice_ancestor_and_self(slice_id LONG)
RETURNS TABLE(
  id LONG, ts LONG, dur LONG, track_id LONG, category STRING, name STRING, depth LONG,
  parent_id LONG, arg_set_id LONG, thread_ts LONG, thread_dur LONG
) AS
SELECT s.id, s.ts, s.dur, s.track_id, s.category, s.name, s.depth, s.parent_id, s.arg_set_id,
  s.thread_ts, s.thread_dur
FROM __slice_and_ancestors p JOIN slice s ON s.id = p.other
WHERE p.origin = $slice_id
ORDER BY s.id <> $slice_id, s.id;

-- A slice and its descendants.
CREATE PERFETTO FUNCTION _slice_descendant_and_self(slice_id LONG)
RETURNS TABLE(
  id LONG, ts LONG, dur LONG, track_id LONG, category STRING, name STRING, depth LONG,
  parent_id LONG, arg_set_id LONG, thread_ts LONG, thread_dur LONG
) AS
SELECT s.id, s.ts, s.dur, s.track_id, s.category, s.name, s.depth, s.parent_id, s.arg_set_id,
  s.thread_ts, s.thread_dur
FROM __slice_and_descendants p JOIN slice s ON s.id = p.other
WHERE p.origin = $slice_id
ORDER BY s.id <> $slice_id, s.id;

-- Slices without those whose column is NULL. Children of removed slices get the next remaining
-- ancestor as parent.
CREATE PERFETTO MACRO _slice_remove_nulls_and_reparent(
  slice_table TableOrSubquery, column_name ColumnName
)
RETURNS TableOrSubquery AS
(
  SELECT s.id, p.id AS parent_id, coalesce(p.depth, 0) AS depth, s.$column_name
  FROM $slice_table s
  LEFT JOIN (
    SELECT a.origin, max(t.id) AS id
    FROM __slice_ancestors a JOIN $slice_table t ON t.id = a.other
    WHERE t.$column_name IS NOT NULL
    GROUP BY a.origin
  ) nearest ON nearest.origin = s.id
  LEFT JOIN $slice_table p ON p.id = nearest.id
  WHERE s.$column_name IS NOT NULL
  ORDER BY s.id
);
