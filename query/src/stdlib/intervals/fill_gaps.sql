CREATE PERFETTO MACRO _gap_member(x Expr) RETURNS Expr AS $x;
CREATE PERFETTO MACRO _gap_null(x Expr) RETURNS Expr AS NULL;

-- The intervals of each group, with rows for the gaps between them, from the start to the end of
-- the trace. The other columns of gaps are NULL.
CREATE PERFETTO MACRO _intervals_fill_gaps(
  groups ColumnNameList, columns ColumnNameList, intervals TableOrSubquery
)
RETURNS TableOrSubquery AS
(
  SELECT ts, dur __intrinsic_token_apply_prefix!(_gap_member, $groups)
    __intrinsic_token_apply_prefix!(_gap_member, $columns)
  FROM $intervals WHERE ts IS NOT NULL
  UNION ALL
  SELECT gap_ts, ts - gap_ts __intrinsic_token_apply_prefix!(_gap_member, $groups)
    __intrinsic_token_apply_prefix!(_gap_null, $columns)
  FROM (
    SELECT *, coalesce(
      lag(ts + dur) OVER (PARTITION BY metasql_unparenthesize_exprlist!($groups) ORDER BY ts),
      trace_start()
    ) AS gap_ts
    FROM $intervals WHERE ts IS NOT NULL
  )
  WHERE ts > gap_ts
  UNION ALL
  SELECT gap_ts, trace_end() - gap_ts __intrinsic_token_apply_prefix!(_gap_member, $groups)
    __intrinsic_token_apply_prefix!(_gap_null, $columns)
  FROM (
    SELECT *, coalesce(
        max(ts + dur) OVER (PARTITION BY metasql_unparenthesize_exprlist!($groups)), trace_start()
      ) AS gap_ts,
      row_number() OVER (PARTITION BY metasql_unparenthesize_exprlist!($groups)) AS place
    FROM $intervals
  )
  WHERE gap_ts < trace_end() AND place = 1
  UNION ALL
  SELECT trace_start(), trace_dur() __intrinsic_token_apply_prefix!(_gap_null, $groups)
    __intrinsic_token_apply_prefix!(_gap_null, $columns)
  WHERE NOT EXISTS (SELECT 1 FROM $intervals)
);
