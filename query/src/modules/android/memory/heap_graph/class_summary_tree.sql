INCLUDE PERFETTO MODULE android.memory.heap_graph.class_tree;
INCLUDE PERFETTO MODULE graphs.scan;

CREATE PERFETTO TABLE _heap_graph_class_tree_cumulatives AS
SELECT id, n AS cumulative_count, bytes AS cumulative_size
FROM _heap_graph_subtree_sums!(
  (
    SELECT id, parent_id, self_count AS n, self_size AS bytes, 0 AS native_bytes
    FROM _heap_graph_class_tree
  )
)
ORDER BY id;

-- The classes of objects as a tree from the roots, with what is below them.
CREATE PERFETTO TABLE android_heap_graph_class_summary_tree(
  graph_sample_ts TIMESTAMP, upid JOINID(process.id), id LONG, parent_id LONG, name STRING,
  root_type STRING, self_count LONG, self_size LONG, cumulative_count LONG, cumulative_size LONG
) AS
SELECT t.graph_sample_ts, t.upid, t.id, t.parent_id, t.name, t.root_type, t.self_count,
  t.self_size, s.cumulative_count, s.cumulative_size
FROM _heap_graph_class_tree t JOIN _heap_graph_class_tree_cumulatives s ON s.id = t.id
ORDER BY t.id;
