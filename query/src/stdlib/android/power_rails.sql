INCLUDE PERFETTO MODULE counters.intervals;

-- The energy of power rails, each value until the next one.
CREATE PERFETTO TABLE android_power_rails_counters(
  id ID(counter.id), ts TIMESTAMP, dur DURATION, power_rail_name STRING, raw_power_rail_name STRING,
  energy_since_boot DOUBLE, energy_since_boot_at_end DOUBLE, average_power DOUBLE,
  energy_delta DOUBLE, track_id JOINID(track.id), value DOUBLE
) AS
SELECT c.id, c.ts, c.dur, t.name AS power_rail_name,
  CAST(extract_arg(t.source_arg_set_id, 'raw_name') AS TEXT) AS raw_power_rail_name,
  c.value AS energy_since_boot, c.next_value AS energy_since_boot_at_end,
  1000000 * (c.next_value - c.value) / c.dur AS average_power, c.delta_value AS energy_delta,
  c.track_id, c.value
FROM counter_leading_intervals!((
  SELECT v.* FROM counter v JOIN counter_track r ON v.track_id = r.id WHERE r.type = 'power_rails'
)) c
JOIN counter_track t ON c.track_id = t.id
ORDER BY c.track_id, c.ts;

-- The power rails.
CREATE PERFETTO TABLE android_power_rails_metadata(
  power_rail_name STRING, raw_power_rail_name STRING, friendly_name STRING,
  track_id JOINID(track.id), subsystem_name STRING, machine_id JOINID(machine.id)
) AS
SELECT name AS power_rail_name,
  CAST(extract_arg(source_arg_set_id, 'raw_name') AS TEXT) AS raw_power_rail_name,
  CASE WHEN name GLOB 'power.rails.*' THEN substr(name, length('power.rails.') + 1) END
    AS friendly_name,
  id AS track_id, CAST(extract_arg(source_arg_set_id, 'subsystem_name') AS TEXT) AS subsystem_name,
  machine_id
FROM counter_track
WHERE type = 'power_rails';
