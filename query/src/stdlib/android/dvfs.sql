-- The frequencies of units with dynamic scaling, each as an interval until the next one.
CREATE PERFETTO VIEW android_dvfs_counters(
  name STRING, ts TIMESTAMP, value DOUBLE, dur DURATION
) AS
SELECT
  t.name,
  c.ts,
  c.value,
  lead(c.ts, 1, trace_end()) OVER (PARTITION BY t.id ORDER BY c.ts) - c.ts AS dur
FROM counter c JOIN counter_track t ON c.track_id = t.id
WHERE t.name GLOB 'domain@[0-2] Frequency'
  OR t.name GLOB 'cpu[0-8]dsu Frequency'
  OR t.name GLOB 'gs_memlat_devfreq:devfreq_mif_cpu[0-8]_memlat@17000010 Frequency'
  OR t.name IN (
    '17000010.devfreq_mif Frequency',
    '17000020.devfreq_int Frequency',
    '17000090.devfreq_dsu Frequency',
    '170000a0.devfreq_bci Frequency',
    'dsu_throughput Frequency',
    'bus_throughput Frequency'
  )
ORDER BY c.ts;

-- The range of each frequency, and its average weighted by time.
CREATE PERFETTO TABLE android_dvfs_counter_stats(
  name STRING, max DOUBLE, min DOUBLE, dur DURATION, wgt_avg DOUBLE
) AS
SELECT
  name,
  max(value) AS max,
  min(value) AS min,
  max(ts) - min(ts) AS dur,
  sum(dur * value) / sum(dur) AS wgt_avg
FROM android_dvfs_counters
WHERE dur > 0
GROUP BY name;

-- The time at each frequency, also in percent.
CREATE PERFETTO VIEW android_dvfs_counter_residency(
  name STRING, value DOUBLE, dur DURATION, pct DOUBLE
) AS
SELECT name, value, dur, dur * 100.0 / sum(dur) OVER (PARTITION BY name) AS pct
FROM (
  SELECT name, value, sum(dur) AS dur
  FROM android_dvfs_counters
  WHERE dur > 0
  GROUP BY name, value
)
ORDER BY name, value;
