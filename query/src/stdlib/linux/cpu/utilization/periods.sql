-- The busy time in each period, of rows with `ts` and `dur`. Rows are split at the borders of
-- periods.
CREATE PERFETTO MACRO _utilization_per_period(interval Expr, busy TableOrSubquery)
RETURNS TableOrSubquery AS
(
  SELECT period AS ts,
    sum(min(row_end, period + $interval) - max(row_ts, period)) * 1.0 / $interval
      / (SELECT max(ucpu) + 1 FROM sched) AS utilization,
    sum(min(row_end, period + $interval) - max(row_ts, period)) * 1.0 / $interval
      AS unnormalized_utilization
  FROM (
    SELECT ts AS row_ts, ts + dur AS row_end, unnest(__series(
      ts / $interval * $interval, (ts + dur - 1) / $interval * $interval, $interval
    )) AS period
    FROM $busy
  )
  GROUP BY period
  ORDER BY period
);
