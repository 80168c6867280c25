-- The process with this number at a time.
CREATE PERFETTO FUNCTION _android_bitmap_resolve_sender_upid(pid LONG, at_ts TIMESTAMP)
RETURNS LONG AS
SELECT max(p.upid) FROM process p
WHERE p.pid = $pid AND ifnull(p.start_ts, trace_start()) <= $at_ts
  AND ifnull(p.end_ts, trace_end()) >= $at_ts;

-- The name of the memory of pixels.
CREATE PERFETTO FUNCTION _android_bitmap_storage_type_name(storage_type LONG)
RETURNS STRING AS
SELECT column2
FROM (VALUES (0, 'wrapped_pixel_ref'), (1, 'heap'), (2, 'ashmem'), (3, 'hardware'))
WHERE column1 = $storage_type;

-- Bitmaps of heap graphs. Their ids consist of the process, the kind of memory and a counter.
CREATE PERFETTO TABLE heap_graph_bitmaps(
  object_id JOINID(heap_graph_object.id), upid JOINID(process.upid), graph_sample_ts TIMESTAMP,
  width LONG, height LONG, density LONG, bitmap_id LONG, bitmap_pid LONG,
  bitmap_storage_type STRING, source_id LONG, source_pid LONG, source_storage_type STRING,
  source_upid JOINID(process.upid), source_process_name STRING, self_size LONG, native_size LONG,
  reachable BOOL
) AS
WITH
  field AS (
    SELECT o.id, o.upid, o.graph_sample_ts, o.self_size, o.native_size, o.reachable,
      max(p.int_value) FILTER (WHERE p.field_name = 'android.graphics.Bitmap.mWidth') AS width,
      max(p.int_value) FILTER (WHERE p.field_name = 'android.graphics.Bitmap.mHeight') AS height,
      max(p.int_value) FILTER (WHERE p.field_name = 'android.graphics.Bitmap.mDensity') AS density,
      max(p.long_value) FILTER (WHERE p.field_name = 'android.graphics.Bitmap.mId') AS bitmap_id,
      nullif(
        max(p.long_value) FILTER (WHERE p.field_name = 'android.graphics.Bitmap.mSourceId'), -1
      ) AS source_id
    FROM heap_graph_class c
    JOIN heap_graph_object o ON o.type_id = c.id
    LEFT JOIN heap_graph_object_data d ON d.id = o.object_data_id
    LEFT JOIN heap_graph_primitive p ON p.field_set_id = d.field_set_id
    WHERE 'android.graphics.Bitmap' IN (c.name, c.deobfuscated_name)
    GROUP BY o.id
  ),
  resolved AS (
    SELECT *,
      _android_bitmap_resolve_sender_upid(source_id / 10000000, graph_sample_ts) AS source_upid
    FROM field
  )
SELECT f.id AS object_id, f.upid, f.graph_sample_ts, f.width, f.height, f.density, f.bitmap_id,
  f.bitmap_id / 10000000 AS bitmap_pid,
  _android_bitmap_storage_type_name(f.bitmap_id / 1000000 % 10) AS bitmap_storage_type,
  f.source_id, f.source_id / 10000000 AS source_pid,
  _android_bitmap_storage_type_name(f.source_id / 1000000 % 10) AS source_storage_type,
  f.source_upid, p.name AS source_process_name, f.self_size, f.native_size, f.reachable
FROM resolved f LEFT JOIN process p ON p.upid = f.source_upid
ORDER BY f.id;
