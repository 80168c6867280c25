INCLUDE PERFETTO MODULE callstacks.stack_profile;
INCLUDE PERFETTO MODULE graphs.scan;

CREATE PERFETTO TABLE _android_heap_profile_raw_callstacks AS
WITH total AS MATERIALIZED (
  SELECT callsite_id, sum(size) AS size, sum(max(size, 0)) AS alloc_size
  FROM heap_profile_allocation GROUP BY callsite_id
)
SELECT c.id, c.parent_id, c.name, c.mapping_name, c.source_file, c.line_number,
  ifnull(t.size, 0) AS self_size, ifnull(t.alloc_size, 0) AS self_alloc_size
FROM _callstacks_for_stack_profile_samples!(total) c
LEFT JOIN total t ON t.callsite_id = c.callsite_id;

-- The memory of each frame, with that of all frames that it has called.
CREATE PERFETTO TABLE android_heap_profile_summary_tree(
  id LONG, parent_id LONG, name STRING, mapping_name STRING, source_file STRING, line_number LONG,
  self_size LONG, cumulative_size LONG, self_alloc_size LONG, cumulative_alloc_size LONG
) AS
SELECT f.id, f.parent_id, f.name, f.mapping_name, f.source_file, f.line_number, f.self_size,
  s.cumulative_size, f.self_alloc_size, s.cumulative_alloc_size
FROM _graph_aggregating_scan!(
  (
    SELECT id AS source_node_id, parent_id AS dest_node_id
    FROM _android_heap_profile_raw_callstacks WHERE parent_id IS NOT NULL
  ),
  (
    SELECT id, self_size AS cumulative_size, self_alloc_size AS cumulative_alloc_size
    FROM _android_heap_profile_raw_callstacks
    WHERE id NOT IN (
      SELECT parent_id FROM _android_heap_profile_raw_callstacks WHERE parent_id IS NOT NULL
    )
  ),
  (cumulative_size, cumulative_alloc_size),
  (
    SELECT f.id, sum(t.cumulative_size) + f.self_size AS cumulative_size,
      sum(t.cumulative_alloc_size) + f.self_alloc_size AS cumulative_alloc_size
    FROM $table t JOIN _android_heap_profile_raw_callstacks f ON f.id = t.id
    GROUP BY f.id
  )
) s
JOIN _android_heap_profile_raw_callstacks f ON f.id = s.id;
