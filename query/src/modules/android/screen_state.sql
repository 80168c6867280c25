INCLUDE PERFETTO MODULE counters.intervals;
INCLUDE PERFETTO MODULE intervals.fill_gaps;

CREATE PERFETTO TABLE android_screen_state(
  id ID, ts TIMESTAMP, dur DURATION, simple_screen_state STRING, short_screen_state STRING,
  screen_state STRING
) AS
WITH
  name(value, simple, short, long) AS (
    VALUES (1, 'off', 'off', 'Screen off'), (2, 'on', 'on', 'Screen on'),
      (3, 'doze', 'doze', 'Always-on display (doze)'),
      (4, 'doze', 'doze-suspend', 'Always-on display (doze-suspend)'),
      (5, 'on', 'on-vr', 'Screen on (VR)'), (6, 'on', 'on-suspend', 'Screen on (suspend)')
  ),
  known AS (
    SELECT i.ts, i.dur, n.simple, n.short, n.long
    FROM counter_leading_intervals!((
      SELECT c.id, c.ts, 0 AS track_id, c.value
      FROM counter c JOIN counter_track t ON t.id = c.track_id
      WHERE t.name = 'ScreenState'
    )) i
    LEFT JOIN name n ON n.value = i.value
    WHERE i.dur > 0
  )
SELECT row_number() OVER () AS id, ts, dur, ifnull(simple, 'unknown') AS simple_screen_state,
  ifnull(short, 'unknown') AS short_screen_state, ifnull(long, 'Unknown') AS screen_state
FROM _intervals_fill_gaps!((NULL), (simple, short, long), known);
