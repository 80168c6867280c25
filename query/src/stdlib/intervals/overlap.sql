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
