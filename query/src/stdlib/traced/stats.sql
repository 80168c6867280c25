-- The time from the start of a clone to the end of each buffer's copy.
CREATE PERFETTO VIEW traced_clone_flush_latency AS
SELECT done.idx AS buffer_id, done.value - began.value AS duration_ns, done.machine_id,
  done.trace_id
FROM stats done JOIN stats began
  ON done.machine_id IS began.machine_id AND done.trace_id IS began.trace_id
WHERE done.name = 'traced_buf_clone_done_timestamp_ns'
  AND began.name = 'traced_clone_started_timestamp_ns' AND began.value <> 0
ORDER BY done.machine_id, done.trace_id, done.idx;

-- The time from the trigger of a clone to the end of each buffer's copy.
CREATE PERFETTO VIEW traced_trigger_clone_flush_latency AS
SELECT done.idx AS buffer_id, done.value - fired.value AS duration_ns, done.machine_id,
  done.trace_id
FROM stats done JOIN stats fired
  ON done.machine_id IS fired.machine_id AND done.trace_id IS fired.trace_id
WHERE done.name = 'traced_buf_clone_done_timestamp_ns'
  AND fired.name = 'traced_clone_trigger_timestamp_ns' AND fired.value <> 0
ORDER BY done.machine_id, done.trace_id, done.idx;
