INCLUDE PERFETTO MODULE android.frames.timeline;
INCLUDE PERFETTO MODULE time.conversion;

-- The time between the expected and the actual end of a frame. It is negative for early frames.
CREATE PERFETTO TABLE android_frames_overrun(frame_id LONG, overrun LONG) AS
WITH actual AS (
  SELECT CAST(name AS INT) AS frame_id, min(id) AS id FROM actual_frame_timeline_slice GROUP BY 1
),
expected AS (
  SELECT CAST(name AS INT) AS frame_id, min(id) AS id FROM expected_frame_timeline_slice GROUP BY 1
)
SELECT frame_id, a.ts + a.dur - e.ts - e.dur AS overrun
FROM actual
JOIN expected USING (frame_id)
JOIN slice a ON a.id = actual.id
JOIN slice e ON e.id = expected.id
ORDER BY frame_id;

-- The time that the thread of the user interface needed for a frame.
CREATE PERFETTO TABLE android_frames_ui_time(frame_id LONG, ui_time LONG) AS
SELECT f.frame_id, s.dur AS ui_time
FROM android_frames_choreographer_do_frame f JOIN slice s USING (id)
ORDER BY f.id;

-- The delay of the begin of a frame.
CREATE PERFETTO TABLE android_app_vsync_delay_per_frame(frame_id LONG, app_vsync_delay LONG) AS
SELECT f.frame_id, a.ts - e.ts AS app_vsync_delay
FROM (
  SELECT frame_id, min(actual_frame_timeline_id) AS actual_id,
    min(expected_frame_timeline_id) AS expected_id
  FROM android_frames GROUP BY frame_id
) f
JOIN slice e ON e.id = f.expected_id
JOIN slice a ON a.id = f.actual_id
ORDER BY f.frame_id;

-- The time of a frame: its delay, making it, and drawing it.
CREATE PERFETTO TABLE android_cpu_time_per_frame(
  frame_id LONG, app_vsync_delay LONG, do_frame_dur DURATION, draw_frame_dur DURATION,
  cpu_time LONG
) AS
WITH drawn AS (
  SELECT d.frame_id, sum(s.dur) AS dur
  FROM android_frames_draw_frame d JOIN slice s USING (id) GROUP BY d.frame_id
),
made AS (
  SELECT frame_id, min(do_frame_id) AS id FROM android_frames GROUP BY frame_id
)
SELECT v.frame_id, v.app_vsync_delay, s.dur AS do_frame_dur, drawn.dur AS draw_frame_dur,
  v.app_vsync_delay + s.dur + drawn.dur AS cpu_time
FROM android_app_vsync_delay_per_frame v
JOIN drawn USING (frame_id)
JOIN made USING (frame_id)
JOIN slice s ON s.id = made.id
ORDER BY v.frame_id;

-- What was wrong with frames. The time of a frame without a timeline is estimated: drawing takes
-- 5 ms.
CREATE PERFETTO TABLE android_frame_stats(
  frame_id LONG, overrun LONG, cpu_time LONG, ui_time LONG, was_jank BOOL, was_slow_frame BOOL,
  was_big_jank BOOL, was_huge_jank BOOL
) AS
SELECT o.frame_id, o.overrun, t.cpu_time, t.ui_time, iif(o.overrun > 0, 1, NULL) AS was_jank,
  iif(t.cpu_time > time_from_ms(20), 1, NULL) AS was_slow_frame,
  iif(t.cpu_time > time_from_ms(50), 1, NULL) AS was_big_jank,
  iif(t.cpu_time > time_from_ms(200), 1, NULL) AS was_huge_jank
FROM android_frames_overrun o
JOIN (
  SELECT u.frame_id, u.ui_time, coalesce(c.cpu_time, u.ui_time + time_from_ms(5)) AS cpu_time
  FROM android_frames_ui_time u LEFT JOIN android_cpu_time_per_frame c USING (frame_id)
) t USING (frame_id)
ORDER BY o.frame_id;
