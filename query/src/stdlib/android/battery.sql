-- The values of the battery's counters at each time with one of them.
CREATE PERFETTO VIEW android_battery_charge(
  ts TIMESTAMP, current_avg_ua DOUBLE, capacity_percent DOUBLE, charge_uah DOUBLE,
  current_ua DOUBLE, voltage_uv DOUBLE, energy_counter_uwh DOUBLE, power_mw DOUBLE
) AS
SELECT c.ts,
  max(CASE WHEN t.name = 'batt.current.avg_ua' THEN c.value END) AS current_avg_ua,
  max(CASE WHEN t.name = 'batt.capacity_pct' THEN c.value END) AS capacity_percent,
  max(CASE WHEN t.name = 'batt.charge_uah' THEN c.value END) AS charge_uah,
  max(CASE WHEN t.name = 'batt.current_ua' THEN c.value END) AS current_ua,
  max(CASE WHEN t.name = 'batt.voltage_uv' THEN c.value END) AS voltage_uv,
  max(CASE WHEN t.name = 'batt.energy_counter_uwh' THEN c.value END) AS energy_counter_uwh,
  max(CASE WHEN t.name = 'batt.power_mw' THEN c.value END) AS power_mw
FROM counter c JOIN counter_track t ON c.track_id = t.id
WHERE t.name GLOB 'batt.*'
GROUP BY c.ts
ORDER BY c.ts;
