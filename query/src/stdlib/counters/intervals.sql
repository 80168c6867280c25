-- Values of counters as intervals. Rows that repeat the value before them are left out. The last
-- value of a track lasts to the end of the trace.
CREATE PERFETTO MACRO counter_leading_intervals(counter_table TableOrSubquery)
RETURNS TableOrSubquery AS
(
  SELECT id, ts,
    coalesce(lead(ts) OVER (PARTITION BY track_id ORDER BY ts, id), trace_end()) - ts AS dur,
    track_id, value,
    lead(value) OVER (PARTITION BY track_id ORDER BY ts, id) AS next_value,
    value - previous_value AS delta_value
  FROM (
    SELECT id, ts, track_id, CAST(value AS REAL) AS value,
      lag(CAST(value AS REAL)) OVER (PARTITION BY track_id ORDER BY ts, id) AS previous_value
    FROM $counter_table
  )
  WHERE previous_value IS NULL OR value <> previous_value
);
