-- Roots and their descendants, in the format of the argument of `_intervals_flatten!`.
CREATE PERFETTO MACRO _intervals_merge_root_and_children(
  roots TableOrSubquery, children TableOrSubquery
)
RETURNS TableOrSubquery AS
(
  SELECT r.id AS root_id, r.ts AS root_ts, r.dur AS root_dur, c.id, c.parent_id, c.ts, c.dur
  FROM $roots r LEFT JOIN (SELECT * FROM $children WHERE dur > 0) c ON c.root_id = r.id
  WHERE r.dur > 0
);

-- Roots with the children that overlap them and have the same key, cut to the root, in the same
-- format.
CREATE PERFETTO MACRO _intervals_merge_root_and_children_by_intersection(
  roots TableOrSubquery, children TableOrSubquery, key ColumnName
)
RETURNS TableOrSubquery AS
(
  SELECT i.ts, i.dur, c.id, coalesce(c.parent_id, r.id) AS parent_id, r.id AS root_id,
    r.ts AS root_ts, r.dur AS root_dur, i.$key
  FROM _interval_intersect!(
    (
      (SELECT id, ts, dur, $key FROM $children WHERE dur > 0),
      (SELECT id, ts, dur, $key FROM $roots WHERE dur > 0)
    ),
    ($key)
  ) i
  JOIN $children c ON c.id = i.id_0
  JOIN $roots r ON r.id = i.id_1
);
