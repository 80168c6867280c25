INCLUDE PERFETTO MODULE counters.intervals;

-- The values of a counter of the device as intervals.
CREATE PERFETTO MACRO _doze_intervals(counter_name Expr) RETURNS TableOrSubquery AS
(
  SELECT id, ts, dur, value
  FROM counter_leading_intervals!((
    SELECT c.id, c.ts, 0 AS track_id, c.value
    FROM counter c JOIN counter_track t ON t.id = c.track_id
    WHERE t.name = $counter_name
  ))
);

CREATE PERFETTO TABLE android_light_idle_state(
  id LONG, ts TIMESTAMP, dur DURATION, light_idle_state STRING
) AS
WITH name(value, name) AS (
  VALUES (0, 'active'), (1, 'inactive'), (4, 'idle'), (5, 'waiting_for_network'),
    (6, 'idle_maintenance'), (7, 'override')
)
SELECT i.id, i.ts, i.dur, ifnull(n.name, 'unmapped') AS light_idle_state
FROM _doze_intervals!('DozeLightState') i LEFT JOIN name n ON n.value = i.value;

CREATE PERFETTO TABLE android_deep_idle_state(
  id LONG, ts TIMESTAMP, dur DURATION, deep_idle_state STRING
) AS
WITH name(value, name) AS (
  VALUES (0, 'active'), (1, 'inactive'), (2, 'idle_pending'), (3, 'sensing'), (4, 'locating'),
    (5, 'idle'), (6, 'idle_maintenance'), (7, 'quick_doze_delay')
)
SELECT i.id, i.ts, i.dur, ifnull(n.name, 'unmapped') AS deep_idle_state
FROM _doze_intervals!('DozeDeepState') i LEFT JOIN name n ON n.value = i.value;
