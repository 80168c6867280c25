CREATE PERFETTO MACRO _cycles_member(x ColumnName) RETURNS ColumnName AS $x;

-- Sums of cycles, time and frequencies (kHz), for each value of the columns. A thousandth of a cycle
-- is a microsecond at 1 kHz.
CREATE PERFETTO MACRO _cycles_by(spans TableOrSubquery, columns ColumnNameList)
RETURNS TableOrSubquery AS
(
  SELECT metasql_unparenthesize_exprlist!($columns), sum(dur * freq / 1000) AS millicycles,
    sum(dur * freq / 1000) / 1000000000 AS megacycles, sum(dur) AS runtime, min(freq) AS min_freq,
    max(freq) AS max_freq,
    CAST(sum(CAST(dur AS REAL) * freq) / sum(CASE WHEN freq IS NOT NULL THEN dur END) AS INT)
      AS avg_freq
  FROM $spans
  GROUP BY metasql_unparenthesize_exprlist!($columns)
);
