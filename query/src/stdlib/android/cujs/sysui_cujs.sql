-- Interactions of users with measured latency: slices `L<NAME>` of processes. Instants of the track
-- with the same name mark those that were canceled or timed out.
CREATE PERFETTO TABLE android_sysui_latency_cujs(
  cuj_id LONG, upid JOINID(process.id), process_name STRING, cuj_slice_name STRING, cuj_name STRING,
  slice_id JOINID(slice.id), ts TIMESTAMP, ts_end TIMESTAMP, dur DURATION, state STRING
) AS
SELECT row_number() OVER (ORDER BY s.ts, s.id) AS cuj_id, p.upid, p.name AS process_name,
  s.name AS cuj_slice_name, substr(s.name, 3, length(s.name) - 3) AS cuj_name, s.id AS slice_id, s.ts,
  s.ts + s.dur AS ts_end, s.dur,
  CASE m.mark WHEN 'cancel' THEN 'canceled' WHEN 'timeout' THEN 'timeout' ELSE 'completed' END
    AS state
FROM slice s
JOIN process_track k ON s.track_id = k.id
JOIN process p ON k.upid = p.upid
LEFT JOIN (
  SELECT c.id, min(i.name) AS mark
  FROM slice c
  JOIN track t ON t.name = c.name
  JOIN slice i ON i.track_id = t.id AND i.ts >= c.ts AND i.ts <= c.ts + c.dur
  WHERE c.name GLOB 'L<*>' AND i.dur = 0 AND i.name IN ('cancel', 'timeout')
  GROUP BY c.id
) m ON m.id = s.id
WHERE s.name GLOB 'L<*>' AND s.dur > 0
ORDER BY s.ts, s.id;
