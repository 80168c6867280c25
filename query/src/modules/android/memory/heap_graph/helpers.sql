INCLUDE PERFETTO MODULE graphs.scan;

-- Classes by name: one name may be that of several class loaders' classes.
CREATE PERFETTO TABLE _heap_graph_class_name AS
SELECT c.id, coalesce(c.deobfuscated_name, c.name) AS name,
  hash(coalesce(c.deobfuscated_name, c.name, '')) AS name_hash
FROM heap_graph_class c;

-- The sums of each node of a tree of `id`, `parent_id`, `n`, `bytes` and `native_bytes`, with all
-- nodes below it. The values of a node are those of another one below it: even numbers are nodes.
CREATE PERFETTO MACRO _heap_graph_subtree_sums(tree TableOrSubquery)
RETURNS TableOrSubquery AS
(
  SELECT id / 2 AS id, n, bytes, native_bytes
  FROM _graph_aggregating_scan!(
    (
      SELECT 2 * id AS source_node_id, 2 * parent_id AS dest_node_id
      FROM $tree WHERE parent_id IS NOT NULL
      UNION ALL
      SELECT 2 * id + 1, 2 * id FROM $tree
    ),
    (SELECT 2 * id + 1 AS id, n, bytes, native_bytes FROM $tree),
    (n, bytes, native_bytes),
    (
      SELECT id, sum(n) AS n, sum(bytes) AS bytes, sum(native_bytes) AS native_bytes
      FROM $table GROUP BY id
    )
  )
  WHERE id % 2 = 0
);

-- A hash of the names of classes above each object of a tree, `path_hash`, and that of the node
-- above. Objects below others of the same class belong to the same node.
CREATE PERFETTO MACRO _heap_graph_type_path_hash(tab TableOrSubquery)
RETURNS TableOrSubquery AS
(
  WITH RECURSIVE
    node AS MATERIALIZED (
      SELECT t.id, t.parent_id, n.name_hash AS class, ifnull(o.heap_type, '') AS heap,
        iif(t.parent_id IS NULL,
          hash(o.upid, o.graph_sample_ts, n.name_hash, ifnull(o.root_type, ''),
            ifnull(o.heap_type, '')),
          NULL) AS first_hash
      FROM $tab t
      JOIN heap_graph_object o ON o.id = t.id
      JOIN _heap_graph_class_name n ON n.id = o.type_id
    ),
    way(id, class, path_hash, parent_path_hash) AS (
      SELECT id, class, first_hash, 0 FROM node WHERE parent_id IS NULL
      UNION ALL
      SELECT n.id, n.class,
        iif(n.class = w.class, w.path_hash, hash(w.path_hash, n.class, n.heap)),
        iif(n.class = w.class, w.parent_path_hash, w.path_hash)
      FROM way w JOIN node n ON n.parent_id = w.id
    )
  SELECT id, path_hash, parent_path_hash FROM way ORDER BY id
);

-- The nodes of a class tree: objects with the same hash, and below them their native memory.
CREATE PERFETTO MACRO _heap_graph_path_hash_aggregate(tab TableOrSubquery)
RETURNS TableOrSubquery AS
(
  WITH
    member AS (
      SELECT o.graph_sample_ts, o.upid, h.path_hash, h.parent_path_hash, n.name, o.root_type,
        o.heap_type, o.self_size, o.native_size
      FROM $tab h
      JOIN heap_graph_object o ON o.id = h.id
      JOIN _heap_graph_class_name n ON n.id = o.type_id
    )
  SELECT graph_sample_ts, upid, path_hash, parent_path_hash, name, root_type, heap_type,
    count(*) AS self_count, sum(self_size) AS self_size
  FROM member GROUP BY path_hash
  UNION ALL
  SELECT graph_sample_ts, upid, hash(path_hash, 'native', ''), path_hash, '[native] ' || name,
    root_type, 'HEAP_TYPE_NATIVE', count(*), sum(native_size)
  FROM member WHERE native_size > 0 GROUP BY path_hash
  ORDER BY path_hash
);

-- The class tree of such nodes, with ids.
CREATE PERFETTO MACRO _heap_graph_path_hashes_to_class_tree(tab TableOrSubquery)
RETURNS TableOrSubquery AS
(
  WITH
    numbered AS MATERIALIZED (
      SELECT *, row_number() OVER (ORDER BY path_hash) - 1 AS id FROM $tab
    )
  SELECT n.graph_sample_ts, n.upid, n.id, above.id AS parent_id, n.name, n.root_type, n.heap_type,
    n.self_count, n.self_size, n.path_hash AS path_hash_stable
  FROM numbered n LEFT JOIN numbered above ON above.path_hash = n.parent_path_hash
  ORDER BY n.id
);

-- The objects of some nodes, and what they refer to or what refers to them along a tree of
-- objects, by class.
CREATE PERFETTO MACRO _heap_graph_counts_by_class(objects TableOrSubquery)
RETURNS TableOrSubquery AS
(
  SELECT n.name AS class_name, o.heap_type, o.root_type, o.reachable,
    sum(o.self_size) AS total_size, sum(o.native_size) AS total_native_size, count(*) AS count
  FROM $objects f
  JOIN heap_graph_object o ON o.id = f.node_id
  JOIN _heap_graph_class_name n ON n.id = o.type_id
  GROUP BY n.name, o.heap_type, o.root_type, o.reachable
  ORDER BY count DESC
);

-- The objects of the nodes with these hashes.
CREATE PERFETTO MACRO _heap_graph_objects_of(
  path_hashes TableOrSubquery, path_hash_values TableOrSubquery
)
RETURNS TableOrSubquery AS
(
  SELECT h.id AS node_id, h.path_hash FROM $path_hashes h
  WHERE h.path_hash IN (SELECT v.path_hash FROM $path_hash_values v)
);
