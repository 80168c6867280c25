INCLUDE PERFETTO MODULE slices.with_context;

-- Frames of versions of Android whose slices have no number of a frame: each frame is drawn before
-- the next one of its process begins.
CREATE PERFETTO TABLE _frames_maxsdk_28(
  frame_id LONG, ts TIMESTAMP, dur DURATION, do_frame_id JOINID(slice.id),
  draw_frame_id JOINID(slice.id), render_thread_utid JOINID(thread.id),
  ui_thread_utid JOINID(thread.id), sdk STRING, upid JOINID(process.id), process_name STRING
) AS
WITH begun AS (
  SELECT id, ts, utid, upid, process_name,
    lead(ts, 1, trace_end()) OVER (PARTITION BY upid ORDER BY ts) AS next_ts
  FROM thread_slice
  WHERE is_main_thread = 1 AND name = 'Choreographer#doFrame'
)
SELECT row_number() OVER (ORDER BY b.ts, d.ts, d.id) AS frame_id, b.ts,
  max(d.ts + d.dur) OVER (PARTITION BY b.id) - b.ts AS dur, b.id AS do_frame_id,
  d.id AS draw_frame_id, d.utid AS render_thread_utid, b.utid AS ui_thread_utid,
  'maxsdk28' AS sdk, b.upid, b.process_name
FROM begun b
JOIN thread_slice d ON d.upid = b.upid AND d.name = 'DrawFrame'
  AND d.ts >= b.ts AND d.ts < b.next_ts
ORDER BY b.ts, d.ts, d.id;
