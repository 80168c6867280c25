INCLUDE PERFETTO MODULE android.memory.heap_graph.excluded_refs;
INCLUDE PERFETTO MODULE android.memory.heap_graph.helpers;
INCLUDE PERFETTO MODULE graphs.search;

-- Each reachable object with the one above it on a shortest way from a root.
CREATE PERFETTO TABLE _heap_graph_object_min_depth_tree AS
SELECT w.node_id AS id, w.parent_node_id AS parent_id
FROM graph_reachable_bfs!(
  (
    SELECT r.owner_id AS source_node_id, r.owned_id AS dest_node_id
    FROM heap_graph_reference r
    WHERE r.owned_id IS NOT NULL AND r.id NOT IN (SELECT id FROM _excluded_refs)
    ORDER BY dest_node_id
  ),
  (
    SELECT o.id AS node_id
    FROM heap_graph_object o JOIN heap_graph_class c ON c.id = o.type_id
    WHERE o.root_type IS NOT NULL
    ORDER BY c.name, node_id
  )
) w
ORDER BY w.node_id;

CREATE PERFETTO TABLE _heap_graph_path_hashes AS
SELECT * FROM _heap_graph_type_path_hash!(_heap_graph_object_min_depth_tree);

CREATE PERFETTO TABLE _heap_graph_path_hashes_aggregated AS
SELECT * FROM _heap_graph_path_hash_aggregate!(_heap_graph_path_hashes);

CREATE PERFETTO TABLE _heap_graph_class_tree AS
SELECT * FROM _heap_graph_path_hashes_to_class_tree!(_heap_graph_path_hashes_aggregated);

-- What objects of some nodes keep alive, by class.
CREATE PERFETTO MACRO _heap_graph_retained_object_count_agg(
  path_hashes TableOrSubquery, path_hash_values TableOrSubquery
)
RETURNS TableOrSubquery AS
(
  SELECT * FROM _heap_graph_counts_by_class!(
    graph_reachable_bfs!(
      (
        SELECT ifnull(parent_id, id) AS source_node_id, id AS dest_node_id
        FROM _heap_graph_object_min_depth_tree
      ),
      _heap_graph_objects_of!($path_hashes, $path_hash_values)
    )
  )
);

-- What keeps objects of some nodes alive, by class.
CREATE PERFETTO MACRO _heap_graph_retaining_object_count_agg(
  path_hashes TableOrSubquery, path_hash_values TableOrSubquery
)
RETURNS TableOrSubquery AS
(
  SELECT * FROM _heap_graph_counts_by_class!(
    graph_reachable_bfs!(
      (
        SELECT id AS source_node_id, ifnull(parent_id, id) AS dest_node_id
        FROM _heap_graph_object_min_depth_tree
      ),
      _heap_graph_objects_of!($path_hashes, $path_hash_values)
    )
  )
);

-- The classes whose objects have the most different ways from roots.
CREATE PERFETTO MACRO _heap_graph_duplicate_objects_agg(path_hashes TableOrSubquery)
RETURNS TableOrSubquery AS
(
  SELECT count(DISTINCT h.path_hash) AS path_count, count(*) AS object_count,
    sum(o.self_size) AS total_size, sum(o.native_size) AS total_native_size, n.name AS class_name
  FROM $path_hashes h
  JOIN heap_graph_object o ON o.id = h.id
  JOIN _heap_graph_class_name n ON n.id = o.type_id
  GROUP BY n.name
  ORDER BY path_count DESC
);
