INCLUDE PERFETTO MODULE intervals.intersect;

-- The range of each partition, and the number of buckets that cover it.
CREATE PERFETTO MACRO _mipmap_bucket_metadata(
  source TableOrSubquery, partition ColumnName, bucket_dur Expr
)
RETURNS TableOrSubquery AS
(
  SELECT $partition, trace_min_ts, trace_max_ts, bucket_duration_ns,
    (trace_max_ts - trace_min_ts + bucket_duration_ns - 1) / bucket_duration_ns AS bucket_count
  FROM (
    SELECT $partition, min(ts) AS trace_min_ts, max(ts + dur) AS trace_max_ts,
      $bucket_dur AS bucket_duration_ns
    FROM $source GROUP BY $partition
  )
);

-- The buckets of each partition, with a number of their own.
CREATE PERFETTO MACRO _mipmap_buckets_table(
  source TableOrSubquery, partition ColumnName, bucket_dur Expr
)
RETURNS TableOrSubquery AS
(
  SELECT row_number() OVER (ORDER BY m.$partition, n.value) AS id, m.$partition,
    n.value AS bucket_index, CAST(m.trace_min_ts + n.value * m.bucket_duration_ns AS INT) AS ts,
    m.bucket_duration_ns AS dur
  FROM _mipmap_bucket_metadata!($source, $partition, $bucket_dur) m
  JOIN generate_series(0, max(m.bucket_count, 1) - 1) n
);

-- For each bucket the group with the longest time in it; neighbours with the same one are merged.
CREATE PERFETTO MACRO _mipmap_merged(
  source TableOrSubquery, buckets TableOrSubquery, partition ColumnName, bucket_dur Expr
)
RETURNS TableOrSubquery AS
(
  WITH
    piece AS (
      SELECT s.$partition AS part, b.bucket_index AS bucket, b.ts AS bucket_ts, s.group_hash,
        min(s.id) AS id, sum(i.dur) AS dur, min(s.ts) AS first_ts
      FROM _interval_intersect!(($buckets, $source), ($partition)) i
      JOIN $buckets b ON b.id = i.id_0
      JOIN $source s ON s.id = i.id_1
      GROUP BY s.$partition, b.bucket_index, b.ts, s.group_hash
    ),
    winner AS (
      SELECT *
      FROM (
        SELECT *, row_number() OVER (
          PARTITION BY part, bucket ORDER BY dur DESC, first_ts, group_hash
        ) AS place
        FROM piece
      )
      WHERE place = 1
    ),
    run AS (
      SELECT *, sum(is_first) OVER (
        PARTITION BY part ORDER BY bucket ROWS UNBOUNDED PRECEDING
      ) AS run
      FROM (
        SELECT *, group_hash <> coalesce(lag(group_hash) OVER (PARTITION BY part ORDER BY bucket), '')
          AS is_first
        FROM winner
      )
    )
  SELECT part AS $partition, min(id) AS id, CAST(min(bucket_ts) AS INT) AS ts,
    (max(bucket) - min(bucket) + 1) * $bucket_dur AS dur, group_hash
  FROM run
  GROUP BY part, run, group_hash
  ORDER BY ts
);
