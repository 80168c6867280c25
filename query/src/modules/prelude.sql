-- Functions that only this engine has, which exist without a module.

CREATE PERFETTO FUNCTION __intrinsic_winscope_surfaceflinger_hierarchy_path()
RETURNS TABLE(id LONG, snapshot_id LONG, layer_id LONG, ancestor_id LONG) AS
WITH RECURSIVE
  layer AS MATERIALIZED (
    SELECT id, snapshot_id, layer_id, parent FROM __intrinsic_surfaceflinger_layer
    WHERE layer_id IS NOT NULL
  ),
  -- The layers with an id that several have are the first ones.
  parents AS MATERIALIZED (
    SELECT snapshot_id, layer_id, min(id) AS id, parent FROM layer GROUP BY 1, 2
  ),
  path(row, snapshot_id, layer_id, ancestor_id, parent, steps) AS (
    SELECT id, snapshot_id, layer_id, layer_id, parent, 0 FROM layer
    UNION ALL
    SELECT p.row, p.snapshot_id, p.layer_id, a.layer_id, a.parent, p.steps + 1
    FROM path p
    JOIN parents a ON a.snapshot_id = p.snapshot_id AND a.layer_id = coalesce(p.parent, 0)
    WHERE a.layer_id IS NOT coalesce(a.parent, 0) AND p.steps < 1000
  )
SELECT row_number() OVER (ORDER BY row, steps DESC) - 1 AS id, snapshot_id,
  layer_id & 4294967295 AS layer_id, ancestor_id & 4294967295 AS ancestor_id
FROM path
ORDER BY row, steps DESC;
