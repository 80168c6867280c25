INCLUDE PERFETTO MODULE callstacks.stack_profile;

-- The callstacks of all samples as a tree, with the number of samples at and below each function.
CREATE PERFETTO VIEW linux_perf_samples_summary_tree AS
SELECT c.id, c.parent_id, c.name, c.mapping_name, c.source_file, c.line_number, c.self_count,
  t.cumulative_count
FROM _callstacks_for_callsites!((SELECT callsite_id FROM perf_sample)) c
JOIN _callstacks_self_to_cumulative!((
  SELECT id, parent_id, self_count
  FROM _callstacks_for_callsites!((SELECT callsite_id FROM perf_sample))
)) t ON t.id = c.id
ORDER BY c.id;
