-- Changes of DMA buffers. Buffers that an allocator allocates while it replies to a binder
-- transaction belong to the thread that sent the transaction, and releases to the thread of the
-- allocation.
CREATE PERFETTO TABLE android_dmabuf_allocs(
  ts TIMESTAMP, buf_size LONG, inode LONG, utid JOINID(thread.id), tid LONG, thread_name STRING,
  upid JOINID(process.id), pid LONG, process_name STRING
) AS
WITH
  changes AS (
    SELECT c.ts, CAST(c.value AS INT) AS buf_size,
      CAST(extract_arg(c.arg_set_id, 'inode') AS INT) AS inode, t.utid
    FROM counter c JOIN thread_counter_track t ON c.track_id = t.id
    WHERE t.name = 'mem.dma_heap_change'
  ),
  replies AS (
    SELECT s.ts, s.dur, k.utid, sender.utid AS sender_utid
    FROM slice s
    JOIN thread_track k ON s.track_id = k.id
    JOIN thread t ON k.utid = t.utid
    JOIN process p ON t.upid = p.upid
    JOIN flow f ON f.slice_in = s.id
    JOIN slice o ON f.slice_out = o.id
    JOIN thread_track sender ON o.track_id = sender.id
    WHERE s.name = 'binder reply'
      AND (
        p.name GLOB '/vendor/bin/hw/android.hardware.graphics.allocator*'
        OR p.name GLOB '/vendor/bin/hw/*gralloc.allocator*'
      )
  ),
  owned AS (
    SELECT c.ts, c.buf_size, c.inode, coalesce(r.sender_utid, c.utid) AS owner
    FROM changes c
    LEFT JOIN replies r ON c.utid = r.utid AND c.ts >= r.ts AND c.ts <= r.ts + r.dur
  ),
  attributed AS (
    SELECT ts, buf_size, inode,
      CASE WHEN buf_size > 0 THEN owner ELSE lag(owner) OVER (PARTITION BY inode ORDER BY ts) END
        AS utid
    FROM owned
  )
SELECT a.ts, a.buf_size, a.inode, a.utid, t.tid, t.name AS thread_name, t.upid, p.pid,
  p.name AS process_name
FROM attributed a
JOIN thread t ON a.utid = t.utid
LEFT JOIN process p ON t.upid = p.upid
ORDER BY a.ts;

-- The DMA buffers of each process, or of each thread without one, after each change.
CREATE PERFETTO TABLE android_memory_cumulative_dmabuf(
  upid JOINID(process.id), process_name STRING, utid JOINID(thread.id), thread_name STRING,
  ts TIMESTAMP, value LONG
) AS
SELECT upid, process_name, utid, thread_name, ts,
  sum(buf_size) OVER (
    PARTITION BY upid, CASE WHEN upid IS NULL THEN utid END ORDER BY ts
  ) AS value
FROM android_dmabuf_allocs
ORDER BY ts;
