-- The interval of each heap dump, with the bytes that were allocated in it, the part of them that
-- was not freed in it, and the growth of the heap. The interval of a dump without a start is the
-- time since the previous dump.
CREATE PERFETTO TABLE _android_heap_profile_intervals AS
WITH
  stacks AS (
    SELECT
      upid,
      heap_name,
      ts AS ts_end,
      min(id) AS id,
      sum(size) AS delta,
      sum(max(size, 0)) AS allocated,
      iif(sum(count) > 0, sum(size), 0) AS retained
    FROM heap_profile_allocation
    GROUP BY upid, heap_name, ts, callsite_id
  ),
  dumps AS (
    SELECT
      min(s.id) AS id,
      s.upid,
      s.heap_name,
      s.ts_end,
      min(p.ts) AS begin_ts,
      sum(s.retained) AS retained,
      sum(s.allocated) AS allocated,
      sum(s.delta) AS delta
    FROM stacks s JOIN heap_profile p ON p.upid = s.upid AND p.ts_end = s.ts_end
    GROUP BY s.upid, s.heap_name, s.ts_end
  ),
  bounded AS (
    SELECT
      *,
      lag(ts_end, 1, trace_start()) OVER (PARTITION BY upid, heap_name ORDER BY ts_end) AS before
    FROM dumps
  ),
  placed AS (
    SELECT *, iif(begin_ts < ts_end, begin_ts, min(before + 1, ts_end)) AS ts FROM bounded
  )
SELECT id, upid, heap_name, ts, ts_end - ts AS dur, retained, allocated, delta FROM placed;
