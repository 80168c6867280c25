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
