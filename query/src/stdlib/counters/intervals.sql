-- Values of counters as intervals. Of rows with the same value one after another, the first two and
-- the one before the next value are kept. The last value of a track lasts to the end of the trace.
CREATE PERFETTO MACRO counter_leading_intervals(counter_table TableOrSubquery)
RETURNS TableOrSubquery AS
(
  SELECT id, ts,
    coalesce(lead(ts) OVER (PARTITION BY track_id ORDER BY ts, id), trace_end()) - ts AS dur,
    track_id, value,
    lead(value) OVER (PARTITION BY track_id ORDER BY ts, id) AS next_value,
    value - before AS delta_value
  FROM (
    SELECT id, ts, track_id, CAST(value AS REAL) AS value,
      lag(CAST(value AS REAL)) OVER (PARTITION BY track_id ORDER BY ts, id) AS before,
      lag(CAST(value AS REAL), 2) OVER (PARTITION BY track_id ORDER BY ts, id) AS before_that,
      lead(CAST(value AS REAL)) OVER (PARTITION BY track_id ORDER BY ts, id) AS after
    FROM $counter_table
  )
  WHERE before_that IS NULL OR value <> before OR value <> before_that OR value <> after
);
