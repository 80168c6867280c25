INCLUDE PERFETTO MODULE callstacks.stack_profile;

-- The frames of allocations with the sums of those that end in each.
CREATE PERFETTO MACRO _android_heap_profile_callstacks_for_allocations(allocations TableOrSubquery)
RETURNS TableOrSubquery AS
(
  WITH total AS MATERIALIZED (
    SELECT callsite_id, sum(size) AS size, sum(count) AS n, sum(alloc_size) AS alloc_size,
      sum(alloc_count) AS alloc_n
    FROM $allocations GROUP BY callsite_id
  )
  SELECT c.id, c.parent_id, c.name, c.mapping_name, c.source_file, c.line_number,
    ifnull(t.size, 0) AS self_size, ifnull(t.n, 0) AS self_count,
    ifnull(t.alloc_size, 0) AS self_alloc_size, ifnull(t.alloc_n, 0) AS self_alloc_count
  FROM _callstacks_for_stack_profile_samples!(total) c
  LEFT JOIN total t ON t.callsite_id = c.callsite_id
);
