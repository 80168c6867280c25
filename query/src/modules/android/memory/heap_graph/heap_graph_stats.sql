INCLUDE PERFETTO MODULE android.memory.dmabuf_spans;
INCLUDE PERFETTO MODULE android.memory.heap_graph.oome;
INCLUDE PERFETTO MODULE android.oom_adjuster;
INCLUDE PERFETTO MODULE linux.memory.process;

-- The value of a process at a time, or the first one in the half second after it.
CREATE PERFETTO MACRO _heap_graph_value_at(
  spans TableOrSubquery, value ColumnName, of_upid Expr, at Expr
)
RETURNS Expr AS
(
  SELECT v.$value FROM $spans v
  WHERE v.upid = $of_upid AND v.ts <= $at + 500000000
    AND (v.ts > $at OR v.ts + v.dur >= $at)
  ORDER BY abs(v.ts - $at) LIMIT 1
);

-- Heap graphs with the memory of their processes.
CREATE PERFETTO TABLE android_heap_graph_stats(
  upid JOINID(process.id), graph_sample_ts TIMESTAMP, process_uptime LONG, total_heap_size LONG,
  total_native_alloc_registry_size LONG, total_obj_count LONG, reachable_heap_size LONG,
  reachable_native_alloc_registry_size LONG, reachable_obj_count LONG, oom_score_adj LONG,
  anon_rss_and_swap_size LONG, dmabuf_rss_size LONG, art_bytes_allocated LONG,
  is_out_of_memory_error BOOL, oome_failing_allocation_size LONG,
  oome_remaining_art_free_bytes LONG
) AS
WITH
  graph AS (
    SELECT upid, graph_sample_ts, sum(self_size) AS bytes, sum(native_size) AS native,
      count(*) AS n, ifnull(sum(self_size) FILTER (WHERE reachable), 0) AS live_bytes,
      ifnull(sum(native_size) FILTER (WHERE reachable), 0) AS live_native,
      count(*) FILTER (WHERE reachable) AS live_n
    FROM heap_graph_object GROUP BY upid, graph_sample_ts
  ),
  trigger AS (
    SELECT count(*) > 0 AS is_oome FROM metadata
    WHERE name = 'trace_trigger' AND str_value = 'com.android.telemetry.art-outofmemory'
  )
SELECT g.upid, g.graph_sample_ts, g.graph_sample_ts - p.start_ts AS process_uptime,
  g.bytes AS total_heap_size, g.native AS total_native_alloc_registry_size,
  g.n AS total_obj_count, g.live_bytes AS reachable_heap_size,
  g.live_native AS reachable_native_alloc_registry_size, g.live_n AS reachable_obj_count,
  _heap_graph_value_at!(android_oom_adj_intervals, score, g.upid, g.graph_sample_ts)
    AS oom_score_adj,
  _heap_graph_value_at!(
    memory_rss_and_swap_per_process, anon_rss_and_swap, g.upid, g.graph_sample_ts
  ) AS anon_rss_and_swap_size,
  _heap_graph_value_at!(_dmabuf_spans, dmabuf_rss, g.upid, g.graph_sample_ts) AS dmabuf_rss_size,
  h.heap_size AS art_bytes_allocated,
  iif((SELECT is_oome FROM trigger), 1, h.dump_reason = 'OOME') AS is_out_of_memory_error,
  d.allocation_size_bytes AS oome_failing_allocation_size,
  d.free_bytes_until_oom AS oome_remaining_art_free_bytes
FROM graph g
JOIN process p ON p.upid = g.upid
LEFT JOIN heap_graph h ON h.upid = g.upid AND h.ts = g.graph_sample_ts
LEFT JOIN android_heap_graph_java_oome_details d ON d.heap_graph_id = h.id;
