-- The time that entities, such as hardware units, spent in their states.
CREATE PERFETTO TABLE android_entity_state_residency(
  id ID(counter.id), ts TIMESTAMP, dur DURATION, entity_name STRING, state_name STRING,
  raw_name STRING, state_time_since_boot DURATION, state_time_since_boot_at_end DURATION,
  state_time_ratio DOUBLE, track_id JOINID(track.id)
) AS
SELECT id, ts, next_ts - ts AS dur, entity_name, state_name, raw_name, time AS state_time_since_boot,
  next_time AS state_time_since_boot_at_end, (next_time - time) * 1.0 / (next_ts - ts)
    AS state_time_ratio,
  track_id
FROM (
  SELECT c.id, c.ts, lead(c.ts) OVER (PARTITION BY c.track_id ORDER BY c.ts) AS next_ts,
    CAST(extract_arg(t.dimension_arg_set_id, 'entity_name') AS TEXT) AS entity_name,
    CAST(extract_arg(t.dimension_arg_set_id, 'state_name') AS TEXT) AS state_name,
    t.name AS raw_name, CAST(c.value * 1000000 AS INT) AS time,
    lead(CAST(c.value * 1000000 AS INT)) OVER (PARTITION BY c.track_id ORDER BY c.ts) AS next_time,
    c.track_id
  FROM counter c JOIN counter_track t ON c.track_id = t.id
  WHERE t.type = 'entity_state'
)
ORDER BY track_id, ts;
