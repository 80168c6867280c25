-- The values of counters at each sample.
CREATE PERFETTO VIEW linux_perf_sample_with_counters AS
SELECT s.id AS sample_id, s.ts, t.utid, c.cpu, coalesce(e.cpu_mode, 'unknown') AS cpu_mode,
  s.callsite_id, s.unwind_error, s.session_id AS perf_session_id, m.counter_id, v.track_id,
  v.value AS counter_value
FROM __intrinsic_profiler_sample s
JOIN __intrinsic_profiler_counter_set m ON m.counter_set_id = s.counter_set_id
JOIN counter v ON v.id = m.counter_id
LEFT JOIN __intrinsic_profiler_task_context t ON t.id = s.task_context_id
LEFT JOIN __intrinsic_profiler_execution_context e ON e.id = s.execution_context_id
LEFT JOIN __intrinsic_cpu c ON c.id = e.ucpu
WHERE s.source = 'linux.perf';

-- The value of a counter at a sample.
CREATE PERFETTO FUNCTION linux_perf_counter_for_sample(
  sample_id JOINID(perf_sample.id), counter_name STRING
) RETURNS DOUBLE AS
SELECT v.value
FROM __intrinsic_profiler_sample s
JOIN __intrinsic_profiler_counter_set m ON m.counter_set_id = s.counter_set_id
JOIN counter v ON v.id = m.counter_id
JOIN track t ON t.id = v.track_id
WHERE s.id = $sample_id AND t.name = $counter_name
LIMIT 1;
