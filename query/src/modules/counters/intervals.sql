-- Values of counters as intervals. Of rows with the same value one after another, the first two and
-- the one before the next value are kept. The last value of a track lasts to the end of the trace.
CREATE PERFETTO MACRO counter_leading_intervals(counter_table TableOrSubquery)
RETURNS TableOrSubquery AS
(
  SELECT c0 AS id, c1 AS ts, c2 AS dur, c3 AS track_id, c4 AS value, c5 AS next_value,
    c6 AS delta_value
  FROM __intrinsic_table_ptr(
    __intrinsic_counter_intervals(
      'leading', trace_end(),
      (
        SELECT __intrinsic_counter_per_track_agg(id, ts, track_id, value)
        FROM (SELECT id, ts, track_id, value FROM $counter_table ORDER BY ts)
      )
    )
  )
  WHERE __intrinsic_table_ptr_bind(c0, 'id') AND __intrinsic_table_ptr_bind(c1, 'ts')
    AND __intrinsic_table_ptr_bind(c2, 'dur') AND __intrinsic_table_ptr_bind(c3, 'track_id')
    AND __intrinsic_table_ptr_bind(c4, 'value') AND __intrinsic_table_ptr_bind(c5, 'next_value')
    AND __intrinsic_table_ptr_bind(c6, 'delta_value')
);
