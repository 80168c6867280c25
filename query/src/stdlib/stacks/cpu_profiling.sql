INCLUDE PERFETTO MODULE callstacks.stack_profile;

-- The callstack samples of all CPU profilers.
CREATE PERFETTO VIEW cpu_profiling_samples AS
SELECT s.id, s.ts, c.utid, t.tid, t.name AS thread_name, e.ucpu, p.cpu, s.callsite_id, s.source
FROM stack_sample s
LEFT JOIN __intrinsic_profiler_task_context c ON c.id = s.task_context_id
LEFT JOIN __intrinsic_profiler_execution_context e ON e.id = s.execution_context_id
LEFT JOIN __intrinsic_profiler_session n ON n.id = s.session_id
LEFT JOIN thread t ON t.utid = c.utid
LEFT JOIN cpu p ON p.id = e.ucpu
WHERE n.timebase_unit IS NULL OR n.timebase_unit IN ('ns', 'cycles', 'instructions')
ORDER BY s.ts, s.id;

-- The callstacks of the samples as a tree, with the numbers of samples at and below each function.
CREATE PERFETTO VIEW cpu_profiling_summary_tree AS
SELECT c.id, c.parent_id, c.name, c.mapping_name, c.source_file, c.line_number, c.self_count,
  t.cumulative_count
FROM _callstacks_for_callsites!((SELECT callsite_id FROM cpu_profiling_samples)) c
JOIN _callstacks_self_to_cumulative!((
  SELECT id, parent_id, self_count
  FROM _callstacks_for_callsites!((SELECT callsite_id FROM cpu_profiling_samples))
)) t ON t.id = c.id
ORDER BY c.id;
