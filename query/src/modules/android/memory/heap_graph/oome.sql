-- Allocations that failed, and so caused heap graphs.
CREATE PERFETTO VIEW android_heap_graph_java_oome_details(
  id ID, heap_graph_id JOINID(heap_graph.id), allocation_size_bytes LONG, total_bytes_free LONG,
  free_bytes_until_oom LONG, error_msg STRING
) AS
SELECT d.id, d.heap_graph_id, d.allocation_size_bytes, d.total_bytes_free, d.free_bytes_until_oom,
  d.error_msg
FROM __intrinsic_heap_graph_java_oome_details d;
