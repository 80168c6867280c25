INCLUDE PERFETTO MODULE android.memory.heap_graph.excluded_refs;
INCLUDE PERFETTO MODULE graphs.dominator_tree;

-- The node above all roots, which makes one graph of all objects.
CREATE PERFETTO FUNCTION _heap_graph_super_root_fn() RETURNS LONG AS
SELECT max(id) + 1 FROM heap_graph_object;

-- The object without which each reachable object could not be reached; NULL if there is none.
CREATE PERFETTO TABLE _raw_heap_graph_dominator_tree AS
WITH super_root AS MATERIALIZED (SELECT _heap_graph_super_root_fn() AS id)
SELECT t.node_id AS id, nullif(t.dominator_node_id, (SELECT id FROM super_root)) AS idom_id
FROM graph_dominator_tree!(
  (
    SELECT (SELECT _heap_graph_super_root_fn()) AS source_node_id, o.id AS dest_node_id
    FROM heap_graph_object o WHERE o.root_type IS NOT NULL
    UNION ALL
    SELECT r.owner_id, r.owned_id
    FROM heap_graph_object o JOIN heap_graph_reference r ON r.owner_id = o.id
    WHERE o.reachable AND r.owned_id IS NOT NULL AND r.id NOT IN (SELECT id FROM _excluded_refs)
  ),
  (SELECT _heap_graph_super_root_fn())
) t
WHERE t.dominator_node_id IS NOT NULL
ORDER BY t.node_id;
