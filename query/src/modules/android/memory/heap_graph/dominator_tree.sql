INCLUDE PERFETTO MODULE android.memory.heap_graph.helpers;
INCLUDE PERFETTO MODULE android.memory.heap_graph.raw_dominator_tree;
INCLUDE PERFETTO MODULE graphs.scan;

-- The depth of each object in the tree; that of roots is 1.
CREATE PERFETTO TABLE _heap_graph_dominator_depth AS
WITH RECURSIVE
  edge AS MATERIALIZED (SELECT idom_id, id FROM _raw_heap_graph_dominator_tree),
  node(id, depth) AS (
    SELECT id, 1 FROM edge WHERE idom_id IS NULL
    UNION ALL
    SELECT e.id, n.depth + 1 FROM node n JOIN edge e ON e.idom_id = n.id
  )
SELECT id, depth FROM node ORDER BY id;

-- Reachable objects, and the number and size of what would be freed with them.
CREATE PERFETTO TABLE heap_graph_dominator_tree(
  id LONG, idom_id LONG, dominated_obj_count LONG, dominated_size_bytes LONG,
  dominated_native_size_bytes LONG, depth LONG
) AS
SELECT t.id, t.idom_id, s.n AS dominated_obj_count, s.bytes AS dominated_size_bytes,
  s.native_bytes AS dominated_native_size_bytes, d.depth
FROM _raw_heap_graph_dominator_tree t
JOIN _heap_graph_subtree_sums!(
  (
    SELECT t.id, t.idom_id AS parent_id, 1 AS n, o.self_size AS bytes, o.native_size AS native_bytes
    FROM _raw_heap_graph_dominator_tree t JOIN heap_graph_object o ON o.id = t.id
  )
) s ON s.id = t.id
JOIN _heap_graph_dominator_depth d ON d.id = t.id
ORDER BY t.id;
