INCLUDE PERFETTO MODULE counters.intervals;

-- The DMA buffers of processes over time.
CREATE PERFETTO TABLE _dmabuf_spans AS
SELECT i.ts, i.dur, t.upid, CAST(i.value AS INT) AS dmabuf_rss
FROM counter_leading_intervals!((
  SELECT c.* FROM counter c JOIN process_counter_track k ON k.id = c.track_id
  WHERE k.name = 'mem.dmabuf_rss'
)) i
JOIN process_counter_track t ON t.id = i.track_id;
