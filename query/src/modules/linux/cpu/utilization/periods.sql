-- The busy time of rows with `ts` and `dur` in the period in which each begins.
CREATE PERFETTO MACRO _utilization_per_period(interval Expr, busy TableOrSubquery)
RETURNS TableOrSubquery AS
(
  SELECT period AS ts, busy * 1.0 / ($interval * (SELECT max(cpu) + 1 FROM sched)) AS utilization,
    busy * 1.0 / $interval AS unnormalized_utilization
  FROM (
    SELECT ts / $interval * $interval AS period,
      sum(min(ts + dur, ts / $interval * $interval + $interval) - ts) AS busy
    FROM $busy GROUP BY ts / $interval * $interval
  )
  ORDER BY period
);
