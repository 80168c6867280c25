-- References that keep no object alive: the referents of weak references and their like.
CREATE PERFETTO TABLE _ref_type_ids AS
SELECT c.id AS type_id FROM heap_graph_class c
WHERE c.kind = 'KIND_WEAK_REFERENCE' OR c.kind = 'KIND_PHANTOM_REFERENCE'
  OR c.kind = 'KIND_FINALIZER_REFERENCE';

CREATE PERFETTO TABLE _excluded_refs AS
SELECT r.id
FROM heap_graph_reference r
WHERE r.field_name = 'java.lang.ref.Reference.referent'
  AND (SELECT o.type_id FROM heap_graph_object o WHERE o.id = r.owner_id)
    IN (SELECT type_id FROM _ref_type_ids);
