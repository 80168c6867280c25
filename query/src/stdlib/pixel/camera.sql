INCLUDE PERFETTO MODULE slices.with_context;

-- The work of the camera's nodes on frames: slices `camCAMERA_NODE:GROUP (frame NUMBER)`.
CREATE PERFETTO TABLE pixel_camera_frames(
  id ID(slice.id), ts TIMESTAMP, dur DURATION, track_id JOINID(track.id), utid JOINID(thread.id),
  thread_name STRING, node STRING, port_group STRING, frame_number LONG, cam_id LONG
) AS
SELECT id, ts, dur, track_id, utid, thread_name,
  regexp_extract(name, '^cam[^_]*_([^:]*)') AS node,
  regexp_extract(name, ':(.*) \(frame') AS port_group,
  CAST(regexp_extract(name, '\(frame ([0-9]+)') AS INT) AS frame_number,
  CAST(regexp_extract(name, '^cam([0-9]+)_') AS INT) AS cam_id
FROM thread_slice
WHERE name GLOB 'cam*_*:* (frame *)' AND dur <> -1;
