INCLUDE PERFETTO MODULE android.memory.heap_graph.dominator_tree;
INCLUDE PERFETTO MODULE graphs.partition;

-- Returns true for classes of the standard libraries and for arrays.
CREATE PERFETTO FUNCTION _is_libcore_or_array(obj_name STRING) RETURNS BOOL AS
SELECT
  ($obj_name GLOB 'java.*' AND $obj_name NOT GLOB 'java.lang.Class<*>')
  OR EXISTS (
    SELECT 1
    FROM (VALUES ('j$.*'), ('android.util.*Array*'), ('kotlinx.coroutines.*'),
      ('kotlinx.atomicfu.*'))
    WHERE $obj_name GLOB column1
  )
  OR EXISTS (
    SELECT 1
    FROM (VALUES ('boolean'), ('byte'), ('char'), ('short'), ('int'), ('long'), ('float'),
      ('double'))
    WHERE $obj_name GLOB column1 || '[[]*'
  );

-- The objects that no object of their class dominates: the others are counted with these.
CREATE PERFETTO TABLE _heap_object_marked_for_dominated_stats AS
WITH
  tree AS (
    SELECT t.id, ifnull(t.idom_id, -1) AS parent_id, o.type_id AS group_key
    FROM heap_graph_dominator_tree t JOIN heap_graph_object o ON o.id = t.id
    UNION ALL
    SELECT -1, NULL, -1 WHERE EXISTS (SELECT 1 FROM heap_graph_dominator_tree)
  )
SELECT p.id, p.parent_id IS NULL AS marked
FROM tree_structural_partition_by_group!((SELECT * FROM tree)) p
WHERE p.id >= 0
ORDER BY p.id;

-- The objects of each class, and what would be freed with them.
CREATE PERFETTO TABLE android_heap_graph_class_aggregation(
  upid JOINID(process.id), graph_sample_ts TIMESTAMP, type_id LONG, type_name STRING,
  is_libcore_or_array BOOL, obj_count LONG, size_bytes LONG, native_size_bytes LONG,
  reachable_obj_count LONG, reachable_size_bytes LONG, reachable_native_size_bytes LONG,
  dominated_obj_count LONG, dominated_size_bytes LONG, dominated_native_size_bytes LONG
) AS
WITH
  per_class AS (
    SELECT o.upid, o.graph_sample_ts, o.type_id, count(*) AS n, sum(o.self_size) AS bytes,
      sum(o.native_size) AS native, count(*) FILTER (WHERE o.reachable) AS live_n,
      ifnull(sum(o.self_size) FILTER (WHERE o.reachable), 0) AS live_bytes,
      ifnull(sum(o.native_size) FILTER (WHERE o.reachable), 0) AS live_native,
      ifnull(sum(d.dominated_obj_count) FILTER (WHERE m.marked), 0) AS below_n,
      ifnull(sum(d.dominated_size_bytes) FILTER (WHERE m.marked), 0) AS below_bytes,
      ifnull(sum(d.dominated_native_size_bytes) FILTER (WHERE m.marked), 0) AS below_native
    FROM heap_graph_object o
    LEFT JOIN heap_graph_dominator_tree d ON d.id = o.id
    LEFT JOIN _heap_object_marked_for_dominated_stats m ON m.id = o.id
    GROUP BY o.upid, o.graph_sample_ts, o.type_id
  )
SELECT p.upid, p.graph_sample_ts, p.type_id, coalesce(c.deobfuscated_name, c.name) AS type_name,
  _is_libcore_or_array(coalesce(c.deobfuscated_name, c.name)) AS is_libcore_or_array,
  p.n AS obj_count, p.bytes AS size_bytes, p.native AS native_size_bytes,
  p.live_n AS reachable_obj_count, p.live_bytes AS reachable_size_bytes,
  p.live_native AS reachable_native_size_bytes, p.below_n AS dominated_obj_count,
  p.below_bytes AS dominated_size_bytes, p.below_native AS dominated_native_size_bytes
FROM per_class p JOIN heap_graph_class c ON c.id = p.type_id
ORDER BY p.upid, p.graph_sample_ts, p.type_id;
