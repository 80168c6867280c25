-- True if nothing but its name tells a counter track from others.
CREATE PERFETTO FUNCTION _counter_track_is_only_name_dimension(track_id LONG) RETURNS BOOL AS
SELECT count(*) = 0
FROM counter_track t JOIN args a ON a.arg_set_id = t.dimension_arg_set_id
WHERE t.id = $track_id AND a.key <> 'name';
