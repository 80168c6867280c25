-- A row for each function of each callsite's frame. Inlined functions share a frame, with the
-- innermost one first.
CREATE PERFETTO TABLE _callstack_functions AS
SELECT row_number() OVER (ORDER BY c.id, s.id) - 1 AS id, c.id AS callsite_id,
  c.parent_id AS parent_callsite_id, f.mapping AS mapping_id,
  coalesce(s.name, f.deobfuscated_name, f.name) AS raw_name, s.source_file, s.line_number,
  s.inlined, s.id IS y.first_symbol AS is_innermost, s.id IS y.last_symbol AS is_outermost
FROM stack_profile_callsite c
JOIN stack_profile_frame f ON c.frame_id = f.id
LEFT JOIN stack_profile_symbol s ON s.symbol_set_id = f.symbol_set_id
LEFT JOIN (
  SELECT symbol_set_id, min(id) AS first_symbol, max(id) AS last_symbol
  FROM stack_profile_symbol GROUP BY symbol_set_id
) y ON y.symbol_set_id = f.symbol_set_id;

-- All callstacks as a forest of functions.
CREATE PERFETTO TABLE _callstack_spc_forest AS
SELECT c.id, CASE WHEN c.is_outermost THEN p.id ELSE c.id + 1 END AS parent_id,
  coalesce(demangle(c.raw_name), c.raw_name, 'unknown') AS name, c.mapping_id, c.source_file,
  c.line_number, 0 AS column_number, c.inlined, c.callsite_id,
  c.is_innermost AS is_leaf_function_in_callsite_frame
FROM _callstack_functions c
LEFT JOIN (SELECT id, callsite_id FROM _callstack_functions WHERE is_innermost) p
  ON p.callsite_id = c.parent_callsite_id
ORDER BY c.id;

-- Each node of the forest with itself and each of its ancestors.
CREATE PERFETTO TABLE _callstack_spc_ancestors AS
WITH RECURSIVE up(id, ancestor) AS (
  SELECT id, id FROM _callstack_spc_forest
  UNION ALL
  SELECT up.id, f.parent_id
  FROM up JOIN _callstack_spc_forest f ON f.id = up.ancestor
  WHERE f.parent_id IS NOT NULL
)
SELECT id, ancestor FROM up;

-- The part of the forest with the callsites of samples and their callers, from rows with
-- `callsite_id`.
CREATE PERFETTO MACRO _callstacks_for_stack_profile_samples(spc_samples TableOrSubquery)
RETURNS TableOrSubquery AS
(
  SELECT f.id, f.parent_id, f.callsite_id, f.name, m.name AS mapping_name, f.source_file,
    f.line_number, f.inlined, f.is_leaf_function_in_callsite_frame
  FROM _callstack_spc_forest f
  JOIN stack_profile_mapping m ON f.mapping_id = m.id
  WHERE f.id IN (
    SELECT a.ancestor
    FROM _callstack_spc_ancestors a JOIN _callstack_spc_forest leaf ON leaf.id = a.id
    WHERE leaf.is_leaf_function_in_callsite_frame
      AND leaf.callsite_id IN (SELECT s.callsite_id FROM $spc_samples s)
  )
  ORDER BY f.id
);

-- The part of the forest with samples, with the number of samples of each node itself.
CREATE PERFETTO MACRO _callstacks_for_callsites(samples TableOrSubquery)
RETURNS TableOrSubquery AS
(
  SELECT c.id, c.parent_id, c.name, c.mapping_name, c.source_file, c.line_number,
    CASE WHEN c.is_leaf_function_in_callsite_frame THEN coalesce(n.samples, 0) ELSE 0 END
      AS self_count
  FROM _callstacks_for_stack_profile_samples!($samples) c
  LEFT JOIN (
    SELECT callsite_id, count(*) AS samples FROM $samples GROUP BY callsite_id
  ) n ON n.callsite_id = c.callsite_id
  ORDER BY c.id
);

-- The part of the forest with samples, with the sum of the samples' `value` of each node itself.
CREATE PERFETTO MACRO _callstacks_for_callsites_weighted(samples TableOrSubquery)
RETURNS TableOrSubquery AS
(
  SELECT c.id, c.parent_id, c.name, c.mapping_name, c.source_file, c.line_number,
    CASE WHEN c.is_leaf_function_in_callsite_frame THEN coalesce(n.total, 0) ELSE 0 END
      AS self_value
  FROM _callstacks_for_stack_profile_samples!((SELECT callsite_id FROM $samples)) c
  LEFT JOIN (
    SELECT callsite_id, sum(value) AS total FROM $samples GROUP BY callsite_id
  ) n ON n.callsite_id = c.callsite_id
  ORDER BY c.id
);

-- The sum of `self_count` of each node and its descendants.
CREATE PERFETTO MACRO _callstacks_self_to_cumulative(callstacks TableOrSubquery)
RETURNS TableOrSubquery AS
(
  SELECT a.ancestor AS id, sum(c.self_count) AS cumulative_count
  FROM $callstacks c JOIN _callstack_spc_ancestors a ON a.id = c.id
  GROUP BY a.ancestor
  ORDER BY a.ancestor
);
