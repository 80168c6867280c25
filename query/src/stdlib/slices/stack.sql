-- Slices with an id for the names and categories of the slice and its ancestors. Equal stacks have
-- equal ids.
CREATE PERFETTO VIEW slice_with_stack_id AS
SELECT s.id, s.ts, s.dur, s.track_id, s.category, s.name, s.depth, s.parent_id, s.arg_set_id,
  s.thread_ts, s.thread_dur, s.thread_instruction_count, s.thread_instruction_delta,
  own.stack_id, coalesce(above.stack_id, 0) AS parent_stack_id
FROM slice s
JOIN __slice_stack own ON own.slice_id = s.id
LEFT JOIN __slice_stack above ON above.slice_id = s.parent_id
ORDER BY s.id;

-- The slices of a stack and their ancestors.
CREATE PERFETTO FUNCTION ancestor_slice_by_stack(stack_hash LONG)
RETURNS TABLE(
  id LONG, ts LONG, dur LONG, track_id LONG, category STRING, name STRING, depth LONG,
  parent_id LONG, arg_set_id LONG, thread_ts LONG, thread_dur LONG
) AS
SELECT id, ts, dur, track_id, category, name, depth, parent_id, arg_set_id, thread_ts, thread_dur
FROM slice
WHERE id IN (
  SELECT a.other FROM __slice_and_ancestors a JOIN __slice_stack s ON s.slice_id = a.origin
  WHERE s.stack_id = $stack_hash
)
ORDER BY ts;

-- The slices of a stack and their descendants.
CREATE PERFETTO FUNCTION descendant_slice_by_stack(stack_hash LONG)
RETURNS TABLE(
  id LONG, ts LONG, dur LONG, track_id LONG, category STRING, name STRING, depth LONG,
  parent_id LONG, arg_set_id LONG, thread_ts LONG, thread_dur LONG
) AS
SELECT id, ts, dur, track_id, category, name, depth, parent_id, arg_set_id, thread_ts, thread_dur
FROM slice
WHERE id IN (
  SELECT a.other FROM __slice_and_descendants a JOIN __slice_stack s ON s.slice_id = a.origin
  WHERE s.stack_id = $stack_hash
)
ORDER BY ts;
