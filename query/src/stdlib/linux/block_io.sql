CREATE PERFETTO FUNCTION linux_device_major_id(dev LONG) RETURNS LONG AS
SELECT ($dev >> 20) & 4095;

CREATE PERFETTO FUNCTION linux_device_minor_id(dev LONG) RETURNS LONG AS
SELECT $dev & 1048575;

-- The number of pending operations of each block device.
CREATE PERFETTO VIEW linux_active_block_io_operations_by_device AS
SELECT ts, sum(change) OVER (PARTITION BY dev ORDER BY ts) AS ops_in_queue_or_device, dev
FROM (
  SELECT ts, dev, sum(change) AS change
  FROM (
    SELECT s.ts AS ts, __arg_int(t.dimension_arg_set_id, 'block_device') AS dev, 1 AS change
    FROM slice s JOIN track t ON s.track_id = t.id WHERE t.type = 'block_io'
    UNION ALL
    SELECT s.ts + s.dur AS ts, __arg_int(t.dimension_arg_set_id, 'block_device') AS dev,
      -1 AS change
    FROM slice s JOIN track t ON s.track_id = t.id WHERE t.type = 'block_io' AND s.dur <> -1
  )
  GROUP BY dev, ts
);
