-- Busy time of all CPUs in each period of so many nanoseconds. A period takes what of each row
-- lies in it: a row is cut at every border that it crosses.
CREATE PERFETTO FUNCTION cpu_utilization_per_period(interval LONG)
RETURNS TABLE(ts LONG, utilization DOUBLE, unnormalized_utilization DOUBLE) AS
SELECT period AS ts,
  sum(min(row_end, period + $interval) - max(row_ts, period)) * 1.0 / $interval
    / (SELECT max(ucpu) + 1 FROM sched) AS utilization,
  sum(min(row_end, period + $interval) - max(row_ts, period)) * 1.0 / $interval
    AS unnormalized_utilization
FROM (
  SELECT s.ts AS row_ts, s.ts + s.dur AS row_end, unnest(generate_series(
    s.ts / $interval * $interval, (s.ts + s.dur - 1) / $interval * $interval, $interval
  )) AS period
  FROM sched s JOIN thread t ON s.utid = t.utid
  WHERE s.dur > 0 AND t.is_idle = 0
)
GROUP BY period
ORDER BY period;

CREATE PERFETTO VIEW cpu_utilization_per_second AS
SELECT ts, utilization, unnormalized_utilization FROM cpu_utilization_per_period(1000000000);
