-- The names of the values of BatteryStats' counters.
CREATE PERFETTO TABLE _battery_stats_values AS
WITH
  names(kind, value, name) AS (
    VALUES
      ('activity', 0, 'inactive'), ('activity', 1, 'active'),
      ('switch', 0, 'off'), ('switch', 1, 'on'),
      ('phone', 0, 'in'), ('phone', 1, 'out'), ('phone', 2, 'emergency'), ('phone', 3, 'off'),
      ('signal', 0, '0/4'), ('signal', 1, '1/4'), ('signal', 2, '2/4'), ('signal', 3, '3/4'),
      ('signal', 4, '4/4'),
      ('supplicant', 0, 'invalid'), ('supplicant', 1, 'disconnected'),
      ('supplicant', 2, 'disabled'), ('supplicant', 3, 'inactive'), ('supplicant', 4, 'scanning'),
      ('supplicant', 5, 'authenticating'), ('supplicant', 6, 'associating'),
      ('supplicant', 7, 'associated'), ('supplicant', 8, '4-way-handshake'),
      ('supplicant', 9, 'group-handshake'), ('supplicant', 10, 'completed'),
      ('supplicant', 11, 'dormant'), ('supplicant', 12, 'uninitialized'),
      ('data', 0, 'Out of service'), ('data', 1, '2.5G (GPRS)'), ('data', 2, '2.7G (EDGE)'),
      ('data', 3, '3G (UMTS)'), ('data', 4, '3G (CDMA)'), ('data', 5, '3G (EVDO Rel 0)'),
      ('data', 6, '3G (EVDO Rev A)'), ('data', 7, '3G (LXRTT)'), ('data', 8, '3.5G (HSDPA)'),
      ('data', 9, '3.5G (HSUPA)'), ('data', 10, '3.5G (HSPA)'), ('data', 11, '2G (IDEN)'),
      ('data', 12, '3G (EVDO Rev B)'), ('data', 13, '4G (LTE)'), ('data', 14, '3.5G (eHRPD)'),
      ('data', 15, '3.7G (HSPA+)'), ('data', 16, '2G (GSM)'), ('data', 17, '3G (TD SCDMA)'),
      ('data', 18, 'Wifi calling (IWLAN)'), ('data', 19, '4.5G (LTE CA)'), ('data', 20, '5G (NR)'),
      ('data', 21, 'Emergency calls only'), ('data', 22, 'Other')
  ),
  tracks(track, kind) AS (
    VALUES
      ('wifi_scan', 'activity'), ('wifi_radio', 'activity'), ('mobile_radio', 'activity'),
      ('audio', 'activity'), ('video', 'activity'), ('camera', 'activity'),
      ('power_save', 'activity'), ('phone_in_call', 'activity'), ('wifi', 'switch'),
      ('phone_state', 'phone'), ('phone_signal_strength', 'signal'),
      ('wifi_signal_strength', 'signal'), ('wifi_suppl', 'supplicant'), ('data_conn', 'data')
  )
SELECT 'battery_stats.' || tracks.track AS track, names.value, names.name
FROM tracks JOIN names ON tracks.kind = names.kind;

-- The name of the value of a counter of BatteryStats; the value itself for unknown counters.
CREATE PERFETTO FUNCTION android_battery_stats_counter_to_string(track STRING, value DOUBLE)
RETURNS STRING AS
SELECT coalesce(
  (SELECT v.name FROM _battery_stats_values v WHERE v.track = $track AND v.value = $value),
  CASE
    WHEN (SELECT count(*) FROM _battery_stats_values w WHERE w.track = $track) > 0 THEN 'unknown'
    ELSE CAST($value AS TEXT)
  END
);

-- The values of the counters of BatteryStats, each until the next one.
CREATE PERFETTO VIEW android_battery_stats_state(
  ts TIMESTAMP, dur DURATION, safe_dur DURATION, track_name STRING, value LONG, value_name STRING
) AS
SELECT s.ts, coalesce(s.next_ts - s.ts, -1) AS dur, coalesce(s.next_ts, trace_end()) - s.ts AS safe_dur,
  s.track_name, CAST(s.value AS INT) AS value,
  coalesce(v.name, CASE WHEN k.track IS NULL THEN CAST(s.value AS TEXT) ELSE 'unknown' END)
    AS value_name
FROM (
  SELECT c.ts, lead(c.ts) OVER (PARTITION BY t.name ORDER BY c.ts) AS next_ts, t.name AS track_name,
    c.value
  FROM counter c JOIN counter_track t ON c.track_id = t.id
  WHERE t.name GLOB 'battery_stats.*'
) s
LEFT JOIN _battery_stats_values v ON v.track = s.track_name AND v.value = s.value
LEFT JOIN (SELECT DISTINCT track FROM _battery_stats_values) k ON k.track = s.track_name;

-- Intervals between the events of BatteryStats that begin with `+` and `-`, such as
-- `+top=123:"package"`. An event without a beginning began before the trace.
CREATE PERFETTO VIEW android_battery_stats_event_slices(
  ts TIMESTAMP, dur DURATION, safe_dur DURATION, track_name STRING, str_value STRING, int_value LONG
) AS
SELECT start_ts AS ts, coalesce(end_ts - start_ts, -1) AS dur,
  coalesce(end_ts, trace_end()) - start_ts AS safe_dur, track_name,
  str_split(what, '"', 1) AS str_value, CAST(str_split(what, ':', 0) AS INT) AS int_value
FROM (
  SELECT track_name, what, CASE WHEN starts THEN ts ELSE trace_start() END AS start_ts,
    CASE WHEN starts THEN next_ts ELSE ts END AS end_ts
  FROM (
    SELECT s.ts, t.name AS track_name, str_split(s.name, '=', 1) AS what,
      s.name GLOB '+*' AS starts,
      lag(s.ts) OVER (PARTITION BY t.name, str_split(s.name, '=', 1) ORDER BY s.ts) AS previous_ts,
      lead(s.ts) OVER (PARTITION BY t.name, str_split(s.name, '=', 1) ORDER BY s.ts) AS next_ts
    FROM slice s JOIN track t ON s.track_id = t.id
    WHERE t.name GLOB 'battery_stats.*' AND s.name GLOB '[-+]*'
  )
  WHERE starts OR previous_ts IS NULL
);
