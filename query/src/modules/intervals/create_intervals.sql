-- An interval from each start to the first end after it.
CREATE PERFETTO MACRO _interval_create(starts_table TableOrSubquery, ends_table TableOrSubquery)
RETURNS TableOrSubquery AS
(
  SELECT c0 AS ts, c1 AS dur
  FROM __intrinsic_table_ptr(
    __intrinsic_interval_create(
      (SELECT __intrinsic_timestamp_set_agg(ts) FROM $starts_table),
      (SELECT __intrinsic_timestamp_set_agg(ts) FROM $ends_table)
    )
  )
  WHERE __intrinsic_table_ptr_bind(c0, 'ts') AND __intrinsic_table_ptr_bind(c1, 'dur')
);
