-- Roots and their descendants, in the format of the argument of `_intervals_flatten!`.
CREATE PERFETTO MACRO _intervals_merge_root_and_children(
  roots TableOrSubquery, children TableOrSubquery
)
RETURNS TableOrSubquery AS
(
  SELECT id AS root_id, id, NULL AS parent_id, ts, dur FROM $roots
  UNION ALL
  SELECT root_id, id, parent_id, ts, dur FROM $children
);

-- Roots with the children that overlap them and have the same key, truncated to the root, in the
-- same format. Roots without such children are left out.
CREATE PERFETTO MACRO _intervals_merge_root_and_children_by_intersection(
  roots TableOrSubquery, children TableOrSubquery, key ColumnName
)
RETURNS TableOrSubquery AS
(
  SELECT r.id AS root_id, r.id, NULL AS parent_id, r.ts, r.dur, r.$key
  FROM $roots r WHERE r.$key IN (SELECT c.$key FROM $children c)
  UNION ALL
  SELECT r.id AS root_id, c.id, coalesce(c.parent_id, r.id) AS parent_id, max(r.ts, c.ts) AS ts,
    min(r.ts + r.dur, c.ts + c.dur) - max(r.ts, c.ts) AS dur, r.$key
  FROM $roots r JOIN $children c
    ON r.$key = c.$key AND c.ts < r.ts + r.dur AND c.ts + c.dur >= r.ts
);

-- The innermost intervals of each root over time: the times of each interval without those of its
-- children.
CREATE PERFETTO MACRO _intervals_flatten(intervals TableOrSubquery)
RETURNS TableOrSubquery AS
(
  SELECT root_id, id, ts, ts_end - ts AS dur
  FROM (
    -- The time before each child.
    SELECT p.root_id, p.id, c.ts AS ts_end,
      coalesce(
        lag(c.ts + c.dur) OVER (PARTITION BY c.root_id, c.parent_id ORDER BY c.ts, c.id), p.ts
      ) AS ts
    FROM $intervals p JOIN $intervals c ON c.root_id = p.root_id AND c.parent_id = p.id
    UNION ALL
    -- The time after the last child.
    SELECT p.root_id, p.id, p.ts + p.dur AS ts_end, coalesce(max(c.ts + c.dur), p.ts) AS ts
    FROM $intervals p LEFT JOIN $intervals c ON c.root_id = p.root_id AND c.parent_id = p.id
    GROUP BY p.root_id, p.id, p.ts, p.dur
  )
  WHERE ts < ts_end
);
