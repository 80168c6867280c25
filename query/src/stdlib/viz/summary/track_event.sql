-- Tracks of track events with the keys of their order among their siblings.
CREATE PERFETTO TABLE _track_event_tracks_unordered AS
SELECT t.id, t.name, t.parent_id,
  extract_arg(p.source_arg_set_id, 'child_ordering') AS parent_ordering,
  coalesce(__arg_int(t.source_arg_set_id, 'sibling_order_rank'), 0) AS rank,
  extract_arg(t.source_arg_set_id, 'description') AS description
FROM track t
LEFT JOIN track p ON t.parent_id = p.id AND p.type GLOB '*_track_event'
WHERE t.type GLOB '*_track_event';

-- The time of the first event of each track.
CREATE PERFETTO TABLE _min_ts_per_track AS
SELECT e.track_id AS id, min(e.ts) AS min_ts
FROM (
  SELECT track_id, ts FROM counter
  UNION ALL
  SELECT track_id, ts FROM slice
  UNION ALL
  SELECT track_id, ts FROM state
) e
JOIN _track_event_tracks_unordered t ON t.id = e.track_id
GROUP BY e.track_id;

-- Groups of tracks that are drawn as one, each with its position among its siblings.
CREATE PERFETTO TABLE _track_event_tracks_ordered_groups AS
SELECT __arg_int(t.dimension_arg_set_id, 'upid') AS upid,
  __arg_int(t.dimension_arg_set_id, 'utid') AS utid, t.parent_id,
  t.type GLOB '*counter*' AS is_counter, t.type GLOB '*state*' AS is_state, t.name,
  min(o.description) AS description, min(t.counter_unit) AS unit,
  min(extract_arg(t.source_arg_set_id, 'builtin_counter_type')) AS builtin_counter_type,
  min(extract_arg(t.source_arg_set_id, 'y_axis_share_key')) AS y_axis_share_key,
  max(CAST(o.min_ts IS NOT NULL AS INT)) AS has_data,
  max(CAST(c.id IS NOT NULL AS INT)) AS has_children, 0 AS has_callstacks,
  min(o.id) AS min_track_id, group_concat(o.id) AS track_ids, min(o.order_id) AS order_id
FROM (
  SELECT u.id, u.description, m.min_ts, row_number() OVER (
    PARTITION BY u.parent_id
    ORDER BY CASE u.parent_ordering WHEN 'explicit' THEN u.rank WHEN 'chronological' THEN m.min_ts END,
      CASE WHEN u.parent_ordering IS NULL OR u.parent_ordering = 'lexicographic' THEN u.name END,
      u.id
  ) AS order_id
  FROM _track_event_tracks_unordered u LEFT JOIN _min_ts_per_track m ON m.id = u.id
) o
JOIN __intrinsic_track t ON t.id = o.id
LEFT JOIN (SELECT DISTINCT parent_id AS id FROM track WHERE type GLOB '*_track_event') c
  ON c.id = o.id
GROUP BY t.track_group_id, coalesce(t.track_group_id, t.id)
ORDER BY t.parent_id, order_id;
