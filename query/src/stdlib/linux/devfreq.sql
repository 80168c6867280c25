INCLUDE PERFETTO MODULE counters.intervals;

-- The frequency of a device over time.
CREATE PERFETTO FUNCTION _get_devfreq_counters(device_name STRING)
RETURNS TABLE(id LONG, ts LONG, dur LONG, freq LONG) AS
SELECT id, ts, dur, CAST(value AS INT) AS freq
FROM counter_leading_intervals!((
  SELECT c.* FROM counter c JOIN track t ON c.track_id = t.id
  WHERE t.type = 'linux_device_frequency'
    AND extract_arg(t.dimension_arg_set_id, 'linux_device') GLOB $device_name
));

-- The frequency of the shared unit (DSU) of the CPUs.
CREATE PERFETTO VIEW linux_devfreq_dsu_counter AS
SELECT id, ts, dur, freq AS dsu_freq FROM _get_devfreq_counters('*devfreq_dsu');
