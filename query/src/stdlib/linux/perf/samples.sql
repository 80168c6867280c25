-- All callstacks of samples as a tree, with the number of samples at and below each frame.
CREATE PERFETTO VIEW linux_perf_samples_summary_tree AS
SELECT c.id, c.parent_id,
  coalesce(y.name, f.deobfuscated_name, f.name) AS name, m.name AS mapping_name, y.source_file,
  y.line_number, coalesce(s.self_count, 0) AS self_count, t.cumulative_count
FROM stack_profile_callsite c
JOIN (
  SELECT id, sum(samples) AS cumulative_count
  FROM (
    SELECT callsite_id AS id, count(*) AS samples FROM perf_sample
    WHERE callsite_id IS NOT NULL GROUP BY callsite_id
    UNION ALL
    SELECT a.other AS id, count(*) AS samples
    FROM perf_sample p JOIN __callsite_ancestors a ON a.origin = p.callsite_id GROUP BY a.other
  )
  GROUP BY id
) t ON t.id = c.id
LEFT JOIN (
  SELECT callsite_id, count(*) AS self_count FROM perf_sample GROUP BY callsite_id
) s ON s.callsite_id = c.id
JOIN stack_profile_frame f ON c.frame_id = f.id
JOIN stack_profile_mapping m ON f.mapping = m.id
LEFT JOIN (
  SELECT symbol_set_id, name, source_file, line_number FROM stack_profile_symbol
  WHERE id IN (SELECT min(id) FROM stack_profile_symbol GROUP BY symbol_set_id)
) y ON y.symbol_set_id = f.symbol_set_id;
