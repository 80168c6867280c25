INCLUDE PERFETTO MODULE graphs.scan;

-- Classes with those of their superclasses that are given.
CREATE PERFETTO MACRO android_heap_graph_class_find_descendants(
  ancestor_class_ids TableOrSubquery
)
RETURNS TableOrSubquery AS
(
  WITH RECURSIVE
    found(id, ancestor_class_id) AS (
      SELECT a.id, a.id FROM $ancestor_class_ids a JOIN heap_graph_class c ON c.id = a.id
      UNION
      SELECT c.id, f.ancestor_class_id
      FROM found f JOIN heap_graph_class c ON c.superclass_id = f.id
    )
  SELECT f.id, f.ancestor_class_id, a.name AS ancestor_class_name
  FROM found f JOIN heap_graph_class a ON a.id = f.ancestor_class_id
);
