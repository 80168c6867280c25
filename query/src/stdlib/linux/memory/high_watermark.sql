INCLUDE PERFETTO MODULE linux.memory.process;

-- The times at which the resident memory of a process reached a new maximum.
CREATE PERFETTO VIEW memory_rss_high_watermark_per_process AS
SELECT ts, coalesce(lead(ts) OVER (PARTITION BY upid ORDER BY ts), trace_end()) - ts AS dur,
  upid, pid, process_name, rss AS rss_high_watermark
FROM (
  SELECT ts, upid, pid, process_name, rss, max(rss) OVER (
    PARTITION BY upid ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
  ) AS before
  FROM memory_rss_and_swap_per_process
)
WHERE before IS NULL OR rss > before;
