-- `_interval_intersect!` and `interval_self_intersect!` are operators of the engine.

CREATE PERFETTO MACRO _ii_member(x ColumnName) RETURNS ColumnName AS $x;

-- The intersection of two tables, with the names of their columns as arguments.
CREATE PERFETTO MACRO _interval_intersect_with_col_names(
  left_table TableOrSubquery, left_id ColumnName, left_ts ColumnName, left_dur ColumnName,
  right_table TableOrSubquery, right_id ColumnName, right_ts ColumnName, right_dur ColumnName,
  keys ColumnNameList
)
RETURNS TableOrSubquery AS
_interval_intersect!(
  (
    (
      SELECT $left_id AS id, $left_ts AS ts, $left_dur AS dur
        __intrinsic_token_apply_prefix!(_ii_member, $keys)
      FROM $left_table
    ),
    (
      SELECT $right_id AS id, $right_ts AS ts, $right_dur AS dur
        __intrinsic_token_apply_prefix!(_ii_member, $keys)
      FROM $right_table
    )
  ),
  $keys
);

-- The parts of intervals within one interval.
CREATE PERFETTO MACRO _interval_intersect_single(ts Expr, dur Expr, intervals TableOrSubquery)
RETURNS TableOrSubquery AS
(
  SELECT id, max(ts, $ts) AS ts, min(ts + dur, $ts + $dur) - max(ts, $ts) AS dur
  FROM $intervals
  WHERE ts < $ts + $dur AND (ts + dur > $ts OR (dur = 0 AND ts = $ts))
);
