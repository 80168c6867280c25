INCLUDE PERFETTO MODULE android.memory.heap_graph.class_tree;
INCLUDE PERFETTO MODULE graphs.scan;

-- Each object with all below it on shortest ways from roots.
CREATE PERFETTO TABLE _heap_graph_object_tree_aggregation AS
SELECT id, bytes AS cumulative_size, native_bytes AS cumulative_native_size, n AS cumulative_count
FROM _heap_graph_subtree_sums!(
  (
    SELECT o.id, t.parent_id, 1 AS n, o.self_size AS bytes, o.native_size AS native_bytes
    FROM heap_graph_object o LEFT JOIN _heap_graph_object_min_depth_tree t ON t.id = o.id
  )
)
ORDER BY id;

-- The objects of some nodes.
CREATE PERFETTO MACRO _heap_graph_object_references_agg(
  path_hashes TableOrSubquery, path_hash_values TableOrSubquery
)
RETURNS TableOrSubquery AS
(
  SELECT h.path_hash, n.name AS class_name, count(r.owned_id) AS outgoing_reference_count,
    s.cumulative_native_size + s.cumulative_size AS total_cumulative_size, s.cumulative_size,
    s.cumulative_native_size, s.cumulative_count, o.*
  FROM _heap_graph_objects_of!($path_hashes, $path_hash_values) h
  JOIN heap_graph_object o ON o.id = h.node_id
  JOIN heap_graph_reference r ON r.owner_id = o.id
  JOIN _heap_graph_object_tree_aggregation s ON s.id = o.id
  JOIN _heap_graph_class_name n ON n.id = o.type_id
  GROUP BY o.id
  ORDER BY total_cumulative_size DESC
);

-- References between objects of some nodes, `this`, and others.
CREATE PERFETTO MACRO _heap_graph_references_of(
  path_hashes TableOrSubquery, path_hash_values TableOrSubquery, this ColumnName,
  other ColumnName, summed ColumnName
)
RETURNS TableOrSubquery AS
(
  SELECT h.path_hash, n.name AS class_name,
    coalesce(r.deobfuscated_field_name, r.field_name) AS field_name, r.field_type_name,
    s.cumulative_native_size + s.cumulative_size AS total_cumulative_size, s.cumulative_size,
    s.cumulative_native_size, s.cumulative_count, o.*
  FROM _heap_graph_objects_of!($path_hashes, $path_hash_values) h
  JOIN heap_graph_reference r ON r.$this = h.node_id
  JOIN heap_graph_object o ON o.id = r.$other
  JOIN _heap_graph_object_tree_aggregation s ON s.id = r.$summed
  JOIN _heap_graph_class_name n ON n.id = o.type_id
  ORDER BY total_cumulative_size DESC
);

-- What refers to the objects of some nodes.
CREATE PERFETTO MACRO _heap_graph_incoming_references_agg(
  path_hashes TableOrSubquery, path_hash_values TableOrSubquery
)
RETURNS TableOrSubquery AS
(
  SELECT * FROM _heap_graph_references_of!(
    $path_hashes, $path_hash_values, owned_id, owner_id, owned_id
  )
);

-- What the objects of some nodes refer to.
CREATE PERFETTO MACRO _heap_graph_outgoing_references_agg(
  path_hashes TableOrSubquery, path_hash_values TableOrSubquery
)
RETURNS TableOrSubquery AS
(
  SELECT * FROM _heap_graph_references_of!(
    $path_hashes, $path_hash_values, owner_id, owned_id, owner_id
  )
);
