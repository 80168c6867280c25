-- An interval from each start to the first end after it. Times are negated, since as-of joins find
-- earlier times.
CREATE PERFETTO MACRO _interval_create(starts_table TableOrSubquery, ends_table TableOrSubquery)
RETURNS TableOrSubquery AS
(
  SELECT -1 - ts AS ts, ts + 1 - right_ts AS dur
  FROM asof_join!(
    (SELECT -1 - ts AS ts FROM $starts_table), (SELECT -ts AS ts FROM $ends_table), ()
  )
  WHERE right_ts IS NOT NULL
  ORDER BY 1
);
