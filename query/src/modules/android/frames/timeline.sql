INCLUDE PERFETTO MODULE android.frames.timeline_maxsdk28;
INCLUDE PERFETTO MODULE slices.with_context;

-- Slices of threads whose name ends with the number of a frame.
CREATE PERFETTO FUNCTION _get_frame_table_with_id(glob_str STRING) RETURNS TABLE(
  id ID(slice.id), frame_id LONG, utid JOINID(thread.id), upid JOINID(process.id), ts TIMESTAMP
) AS
SELECT id, frame_id, utid, upid, ts
FROM (
  SELECT id, CAST(str_split(name, ' ', 1) AS INT) AS frame_id, utid, upid, ts
  FROM thread_slice WHERE name GLOB $glob_str
)
WHERE frame_id NOT IN (0, -1);

-- Slices of threads of user interfaces that make a frame: `Choreographer#doFrame NUMBER`.
CREATE PERFETTO TABLE android_frames_choreographer_do_frame(
  id ID(slice.id), frame_id LONG, ui_thread_utid JOINID(thread.id), upid JOINID(process.id),
  ts TIMESTAMP
) AS
SELECT id, frame_id, utid AS ui_thread_utid, upid, ts
FROM _get_frame_table_with_id('Choreographer#doFrame*') ORDER BY id;

-- Slices of threads that draw a frame: `DrawFrame NUMBER` or `DrawFrames NUMBER`.
CREATE PERFETTO TABLE android_frames_draw_frame(
  id ID(slice.id), frame_id LONG, render_thread_utid JOINID(thread.id), upid JOINID(process.id)
) AS
SELECT id, frame_id, utid AS render_thread_utid, upid
FROM _get_frame_table_with_id('DrawFrame*') ORDER BY id;

-- The actual frames of applications and layers.
CREATE PERFETTO TABLE _distinct_layer_actual_timeline_slice_per_process AS
SELECT CAST(name AS INT) AS frame_id, CAST(str_split(layer_name, '#', 1) AS INT) AS layer_id,
  layer_name, id AS slice_id, ts, dur, upid
FROM actual_frame_timeline_slice;

-- The expected frames.
CREATE PERFETTO TABLE _distinct_from_expected_timeline_slice_per_process AS
SELECT CAST(name AS INT) AS frame_id, upid, id FROM expected_frame_timeline_slice;

-- The display frames in which callbacks were late.
CREATE PERFETTO TABLE _vsync_missed_callback AS
SELECT CAST(str_split(name, 'Callback#', 1) AS INT) AS vsync,
  max(name GLOB '*SF*') AS sf_callback_missed, max(name GLOB '*HWUI*') AS hwui_callback_missed
FROM slice WHERE name GLOB '*FT#Missed*Callback*'
GROUP BY vsync;

-- Frames of applications, for each of their layers and drawing slices. Where there are no frame
-- timelines at all, frames are those of old versions of Android.
CREATE PERFETTO TABLE android_frames_layers(
  frame_id LONG, ts TIMESTAMP, dur DURATION, ts_end TIMESTAMP, do_frame_id JOINID(slice.id),
  draw_frame_id JOINID(slice.id), actual_frame_timeline_id JOINID(slice.id),
  expected_frame_timeline_id JOINID(slice.id), render_thread_utid JOINID(thread.id),
  ui_thread_utid JOINID(thread.id), layer_id LONG, layer_name STRING, upid JOINID(process.id),
  process_name STRING
) AS
WITH timelines(has_any) AS MATERIALIZED (
  SELECT EXISTS (SELECT 1 FROM actual_frame_timeline_slice)
),
-- The duration without a timeline: from making to the end of drawing.
drawn AS (
  SELECT m.frame_id, ms.ts, ds.ts + ds.dur - ms.ts AS dur, m.id AS do_frame_id,
    d.id AS draw_frame_id, d.render_thread_utid, m.ui_thread_utid, m.upid
  FROM android_frames_choreographer_do_frame m
  JOIN android_frames_draw_frame d USING (frame_id, upid)
  JOIN slice ms ON ms.id = m.id
  JOIN slice ds ON ds.id = d.id
),
frames AS (
  SELECT d.frame_id, coalesce(a.ts, d.ts) AS ts, coalesce(a.dur, d.dur) AS dur, d.do_frame_id,
    d.draw_frame_id, a.slice_id AS actual_frame_timeline_id, e.id AS expected_frame_timeline_id,
    d.render_thread_utid, d.ui_thread_utid, a.layer_id, a.layer_name, d.upid,
    p.name AS process_name
  FROM drawn d
  JOIN process p USING (upid)
  LEFT JOIN _distinct_layer_actual_timeline_slice_per_process a USING (frame_id, upid)
  LEFT JOIN _distinct_from_expected_timeline_slice_per_process e USING (frame_id, upid)
  WHERE (SELECT has_any FROM timelines)
  UNION ALL
  SELECT frame_id, ts, dur, do_frame_id, draw_frame_id, NULL, NULL, render_thread_utid,
    ui_thread_utid, NULL, NULL, upid, process_name
  FROM _frames_maxsdk_28 WHERE NOT (SELECT has_any FROM timelines)
)
SELECT DISTINCT frame_id, ts, dur, ts + dur AS ts_end, do_frame_id, draw_frame_id,
  actual_frame_timeline_id, expected_frame_timeline_id, render_thread_utid, ui_thread_utid,
  layer_id, layer_name, upid, process_name
FROM frames
ORDER BY frame_id, ts, dur, do_frame_id, draw_frame_id;

-- Frames of applications.
CREATE PERFETTO TABLE android_frames(
  frame_id LONG, ts TIMESTAMP, dur DURATION, do_frame_id JOINID(slice.id),
  draw_frame_id JOINID(slice.id), actual_frame_timeline_id JOINID(slice.id),
  expected_frame_timeline_id JOINID(slice.id), render_thread_utid JOINID(thread.id),
  ui_thread_utid JOINID(thread.id), actual_frame_timeline_count LONG,
  expected_frame_timeline_count LONG, draw_frame_count LONG, upid JOINID(process.id),
  process_name STRING
) AS
SELECT frame_id, min(ts) AS ts, max(dur) AS dur, min(do_frame_id) AS do_frame_id,
  min(draw_frame_id) AS draw_frame_id, min(actual_frame_timeline_id) AS actual_frame_timeline_id,
  min(expected_frame_timeline_id) AS expected_frame_timeline_id,
  min(render_thread_utid) AS render_thread_utid, min(ui_thread_utid) AS ui_thread_utid,
  count(DISTINCT actual_frame_timeline_id) AS actual_frame_timeline_count,
  1 AS expected_frame_timeline_count, count(DISTINCT draw_frame_id) AS draw_frame_count, upid,
  process_name
FROM android_frames_layers
GROUP BY frame_id, upid
ORDER BY frame_id, upid;

-- The first frame after a time.
CREATE PERFETTO FUNCTION android_first_frame_after(ts TIMESTAMP) RETURNS TABLE(
  frame_id LONG, ts TIMESTAMP, dur DURATION, do_frame_id JOINID(slice.id),
  draw_frame_id JOINID(slice.id), actual_frame_timeline_id JOINID(slice.id),
  expected_frame_timeline_id JOINID(slice.id), render_thread_utid JOINID(thread.id),
  ui_thread_utid JOINID(thread.id)
) AS
SELECT frame_id, ts, dur, do_frame_id, draw_frame_id, actual_frame_timeline_id,
  expected_frame_timeline_id, render_thread_utid, ui_thread_utid
FROM android_frames WHERE ts > $ts ORDER BY ts LIMIT 1;
