INCLUDE PERFETTO MODULE graphs.scan;

CREATE PERFETTO MACRO _viz_flamegraph_key(x ColumnName) RETURNS Expr AS ifnull($x, 0);
CREATE PERFETTO MACRO _viz_flamegraph_of_source(x ColumnName) RETURNS Expr AS s.$x;

-- Frames with the result of each filter. Bits are those of filters that a stack must fulfil.
CREATE PERFETTO MACRO _viz_flamegraph_prepare_filter(
  tab TableOrSubquery, show_stack Expr, hide_stack Expr, show_from_frame Expr, hide_frame Expr,
  pivot Expr, impossible_stack_bits Expr, grouping ColumnNameList
)
RETURNS TableOrSubquery AS
(
  SELECT *, CASE WHEN $hide_stack THEN $impossible_stack_bits ELSE $show_stack END AS stackBits,
    $show_from_frame AS showFromFrameBits, $hide_frame = 0 AS showFrame, $pivot AS isPivot,
    hash(name, __intrinsic_token_apply!(_viz_flamegraph_key, $grouping)) AS groupingHash
  FROM $tab
  ORDER BY id
);

-- The frames that are shown. The values of hidden ones belong to the next frame above.
CREATE PERFETTO MACRO _viz_flamegraph_filter_frames(
  source TableOrSubquery, show_from_frame_bits Expr
)
RETURNS TableOrSubquery AS
(
  WITH RECURSIVE
    frame AS (
      SELECT id, parentId, value, isPivot, stackBits,
        iif(showFrame, showFromFrameBits, 0) AS fromBits, showFrame
      FROM $source
    ),
    way(id, value, shown, above, unpivoted, fromBits, bits) AS (
      SELECT id, value, iif(showFrame AND fromBits = $show_from_frame_bits, id, NULL), NULL, NULL,
        fromBits, iif(showFrame AND fromBits = $show_from_frame_bits, stackBits, 0)
      FROM frame WHERE parentId IS NULL
      UNION ALL
      SELECT f.id, f.value,
        iif(f.showFrame AND (w.fromBits | f.fromBits) = $show_from_frame_bits, f.id, w.shown),
        CASE
          WHEN NOT f.showFrame OR (w.fromBits | f.fromBits) <> $show_from_frame_bits THEN w.above
          WHEN NOT f.isPivot THEN w.shown
        END,
        iif(f.showFrame AND (w.fromBits | f.fromBits) = $show_from_frame_bits, w.shown,
          w.unpivoted),
        w.fromBits | f.fromBits,
        w.bits
        | iif(f.showFrame AND (w.fromBits | f.fromBits) = $show_from_frame_bits, f.stackBits, 0)
      FROM way w JOIN frame f ON f.parentId = w.id
    )
  SELECT shown AS id, above AS parentId, unpivoted AS unpivotedParentId, bits AS stackBits,
    sum(value) AS value
  FROM way
  WHERE shown IS NOT NULL
  GROUP BY shown
  ORDER BY shown
);

-- The values of frames with those of all frames below.
CREATE PERFETTO MACRO _viz_flamegraph_accumulate(filtered TableOrSubquery, showStackBits Expr)
RETURNS TableOrSubquery AS
(
  SELECT id, cumulativeValue
  FROM _graph_aggregating_scan!(
    (
      SELECT id AS source_node_id, parentId AS dest_node_id FROM $filtered
      WHERE parentId IS NOT NULL
    ),
    (
      SELECT id, value AS cumulativeValue FROM $filtered
      WHERE stackBits = $showStackBits
        AND id NOT IN (SELECT parentId FROM $filtered WHERE parentId IS NOT NULL)
    ),
    (cumulativeValue),
    (
      SELECT f.id,
        sum(t.cumulativeValue) + iif(f.stackBits = $showStackBits, f.value, 0) AS cumulativeValue
      FROM $table t JOIN $filtered f ON f.id = t.id
      GROUP BY f.id
    )
  )
  ORDER BY id
);

-- The callers of frames that the graph is turned around.
CREATE PERFETTO MACRO _viz_flamegraph_upwards_hash(
  source TableOrSubquery, filtered TableOrSubquery, accumulated TableOrSubquery,
  grouping ColumnNameList, grouped ColumnNameList
)
RETURNS TableOrSubquery AS
(
  WITH RECURSIVE way(id, hash, parentHash, depth, cumulativeValue) AS (
    SELECT s.id, hash(-1, s.groupingHash), NULL, -1, a.cumulativeValue
    FROM $source s JOIN $filtered f ON f.id = s.id JOIN $accumulated a ON a.id = s.id
    WHERE s.isPivot AND a.cumulativeValue > 0
    UNION ALL
    SELECT s.id, hash(w.hash, s.groupingHash), w.hash, w.depth - 1, w.cumulativeValue
    FROM way w JOIN $filtered f ON f.id = w.id JOIN $source s ON s.id = f.unpivotedParentId
  )
  SELECT w.id, w.hash, w.parentHash, w.depth, s.name,
    __intrinsic_token_apply!(_viz_flamegraph_of_source, $grouping),
    __intrinsic_token_apply!(_viz_flamegraph_of_source, $grouped), f.value, w.cumulativeValue
  FROM way w JOIN $source s ON s.id = w.id JOIN $filtered f ON f.id = w.id
);

-- Frames with the hash of their way from the root.
CREATE PERFETTO MACRO _viz_flamegraph_downwards_hash(
  source TableOrSubquery, filtered TableOrSubquery, accumulated TableOrSubquery,
  grouping ColumnNameList, grouped ColumnNameList, showDownward Expr
)
RETURNS TableOrSubquery AS
(
  WITH RECURSIVE way(id, hash, parentHash, depth) AS (
    SELECT f.id, hash(1, s.groupingHash), NULL, 1
    FROM $filtered f JOIN $source s ON s.id = f.id
    WHERE f.parentId IS NULL AND $showDownward
    UNION ALL
    SELECT f.id, hash(w.hash, s.groupingHash), w.hash, w.depth + 1
    FROM way w JOIN $filtered f ON f.parentId = w.id JOIN $source s ON s.id = f.id
  )
  SELECT w.id, w.hash, w.parentHash, w.depth, s.name,
    __intrinsic_token_apply!(_viz_flamegraph_of_source, $grouping),
    __intrinsic_token_apply!(_viz_flamegraph_of_source, $grouped), f.value, a.cumulativeValue
  FROM way w JOIN $source s ON s.id = w.id JOIN $filtered f ON f.id = w.id
  JOIN $accumulated a ON a.id = w.id
  ORDER BY w.hash
);

-- Frames with the same way as one.
CREATE PERFETTO MACRO _viz_flamegraph_merge_hashes(
  hashed TableOrSubquery, grouping ColumnNameList, grouped_agged_exprs ColumnNameList
)
RETURNS TableOrSubquery AS
(
  SELECT min(c._auto_id) AS id,
    (SELECT min(p._auto_id) FROM $hashed p WHERE p.hash = c.parentHash) AS parentId, depth, name,
    metasql_unparenthesize_exprlist!($grouping),
    metasql_unparenthesize_exprlist!($grouped_agged_exprs), sum(value) AS value,
    sum(cumulativeValue) AS cumulativeValue
  FROM $hashed c
  GROUP BY hash
);

-- The range of each frame within the one above.
CREATE PERFETTO MACRO _viz_flamegraph_local_layout(merged TableOrSubquery)
RETURNS TableOrSubquery AS
(
  SELECT id, xEnd - cumulativeValue AS xStart, xEnd
  FROM (
    SELECT id, cumulativeValue, sum(cumulativeValue) OVER (
      PARTITION BY parentId, depth ORDER BY cumulativeValue DESC ROWS UNBOUNDED PRECEDING
    ) AS xEnd
    FROM $merged WHERE cumulativeValue > 0
  )
  ORDER BY id
);

-- The range of each frame in the graph.
CREATE PERFETTO MACRO _viz_flamegraph_global_layout(
  merged TableOrSubquery, layout TableOrSubquery, grouping ColumnNameList, grouped ColumnNameList
)
RETURNS TableOrSubquery AS
(
  WITH RECURSIVE placed(id, distance, xStart, xEnd) AS (
    SELECT s.id, 1, l.xStart, l.xEnd
    FROM $merged s JOIN $layout l ON l.id = s.id
    WHERE s.parentId IS NULL
    UNION ALL
    SELECT s.id, p.distance + 1, p.xStart + l.xStart, p.xStart + l.xEnd
    FROM placed p JOIN $merged s ON s.parentId = p.id JOIN $layout l ON l.id = s.id
  )
  SELECT s.id, ifnull(s.parentId, -1) AS parentId, iif(s.name = '', 'unknown', s.name) AS name,
    __intrinsic_token_apply!(_viz_flamegraph_of_source, $grouping),
    __intrinsic_token_apply!(_viz_flamegraph_of_source, $grouped), s.value AS selfValue,
    s.cumulativeValue, a.cumulativeValue AS parentCumulativeValue, s.depth, p.xStart, p.xEnd
  FROM placed p JOIN $merged s ON s.id = p.id LEFT JOIN $merged a ON a.id = s.parentId
  ORDER BY p.distance, p.xStart
);
