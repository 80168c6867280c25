INCLUDE PERFETTO MODULE linux.cpu.utilization.slice;

-- The cycles of the slice's thread during each slice.
CREATE PERFETTO VIEW thread_slice_cpu_cycles(
  id JOINID(slice.id), name STRING, utid JOINID(thread.id), thread_name STRING,
  upid JOINID(process.id), process_name STRING, millicycles LONG, megacycles LONG
) AS
SELECT id, name, utid, thread_name, upid, process_name, millicycles, megacycles
FROM cpu_cycles_per_thread_slice;
