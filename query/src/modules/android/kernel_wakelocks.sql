INCLUDE PERFETTO MODULE android.suspend;
INCLUDE PERFETTO MODULE counters.intervals;

-- The intervals between two values of wake locks. `track` distinguishes them in the join.
CREATE PERFETTO TABLE _kernel_wakelock_intervals AS
SELECT i.ts, i.dur, i.ts AS begin, i.track_id AS track, t.name,
  extract_arg(t.dimension_arg_set_id, 'wakelock_type') AS type, i.next_value - i.value AS held
FROM counter_leading_intervals!((
  SELECT c.id, c.ts, c.track_id, c.value
  FROM track t JOIN counter c ON c.track_id = t.id WHERE t.type = 'android_kernel_wakelock'
)) i
JOIN track t ON t.id = i.track_id;

CREATE VIRTUAL TABLE _kernel_wakelock_states
USING SPAN_JOIN(_kernel_wakelock_intervals PARTITIONED track, android_suspend_state);

-- The times for which wake locks were held, and their share of the time awake.
CREATE PERFETTO TABLE android_kernel_wakelocks(
  ts TIMESTAMP, dur DURATION, awake_dur DURATION, name STRING, type STRING, held_dur DURATION,
  held_ratio DOUBLE
) AS
SELECT begin AS ts, sum(dur) AS dur, sum(iif(power_state = 'awake', dur, 0)) AS awake_dur, name,
  type, CAST(held AS INT) AS held_dur,
  max(0.0, min(1.0, held / sum(iif(power_state = 'awake', dur, 0)))) AS held_ratio
FROM _kernel_wakelock_states
GROUP BY begin, name, type, held;
