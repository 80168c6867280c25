-- The number of open intervals, at each time at which it changes.
CREATE PERFETTO MACRO intervals_overlap_count(
  segments TableOrSubquery, ts_column ColumnName, dur_column ColumnName
)
RETURNS TableOrSubquery AS
(
  SELECT ts, sum(change) OVER (ORDER BY ts) AS value
  FROM (
    SELECT ts, sum(change) AS change
    FROM (
      SELECT $ts_column AS ts, 1 AS change FROM $segments
      UNION ALL
      SELECT $ts_column + $dur_column AS ts, -1 AS change FROM $segments WHERE $dur_column <> -1
    )
    GROUP BY ts
  )
  ORDER BY ts
);

-- The number of open intervals of each group, at each time at which it changes.
CREATE PERFETTO MACRO intervals_overlap_count_by_group(
  segments TableOrSubquery, ts_column ColumnName, dur_column ColumnName, group_column ColumnName
)
RETURNS TableOrSubquery AS
(
  SELECT ts, sum(change) OVER (PARTITION BY group_name ORDER BY ts) AS value, group_name
  FROM (
    SELECT ts, group_name, sum(change) AS change
    FROM (
      SELECT $ts_column AS ts, 1 AS change, $group_column AS group_name FROM $segments
      UNION ALL
      SELECT $ts_column + $dur_column AS ts, -1 AS change, $group_column AS group_name
      FROM $segments WHERE $dur_column <> -1
    )
    GROUP BY group_name, ts
  )
  ORDER BY ts
);

-- Merges intervals that overlap or are at most `epsilon` apart.
CREATE PERFETTO MACRO interval_merge_overlapping(intervals TableOrSubquery, epsilon Expr)
RETURNS TableOrSubquery AS
(
  SELECT min(ts) AS ts, max(ts_end) - min(ts) AS dur
  FROM (
    SELECT ts, ts_end, sum(is_first) OVER (ORDER BY ts, ts_end) AS run
    FROM (
      SELECT ts, ts + dur AS ts_end,
        CASE WHEN ts <= max(ts + dur) OVER (
          ORDER BY ts, dur ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) + $epsilon THEN 0 ELSE 1 END AS is_first
      FROM $intervals
    )
  )
  GROUP BY run
  ORDER BY ts
);

-- Merges intervals that overlap or touch, separately for each value of the columns.
CREATE PERFETTO MACRO interval_merge_overlapping_partitioned(
  intervals TableOrSubquery, columns ColumnNameList
)
RETURNS TableOrSubquery AS
(
  SELECT min(ts) AS ts, max(ts_end) - min(ts) AS dur, metasql_unparenthesize_exprlist!($columns)
  FROM (
    SELECT *, sum(is_first) OVER (
      PARTITION BY metasql_unparenthesize_exprlist!($columns) ORDER BY ts, ts_end
    ) AS run
    FROM (
      SELECT ts, ts + dur AS ts_end, metasql_unparenthesize_exprlist!($columns),
        CASE WHEN ts <= max(ts + dur) OVER (
          PARTITION BY metasql_unparenthesize_exprlist!($columns)
          ORDER BY ts, dur ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) THEN 0 ELSE 1 END AS is_first
      FROM $intervals
    )
  )
  GROUP BY metasql_unparenthesize_exprlist!($columns), run
);

-- Returns one row: 1 if two of the intervals overlap, otherwise 0.
CREATE PERFETTO MACRO _intervals_overlap_in_table(intervals TableOrSubquery)
RETURNS TableOrSubquery AS
(
  SELECT coalesce(max(overlaps), 0) AS has_overlaps
  FROM (
    SELECT CASE WHEN ts < lag(ts + dur) OVER (ORDER BY ts, dur) THEN 1 ELSE 0 END AS overlaps
    FROM $intervals
  )
);

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
