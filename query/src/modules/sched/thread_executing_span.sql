INCLUDE PERFETTO MODULE intervals.intersect;

CREATE PERFETTO MACRO _is_runnable_state(state Expr) RETURNS Expr AS
-- Fuchsia has no runnable state before a thread runs for the first time.
$state = iif(
  $state = 'W' AND 'fuchsia' IN (SELECT str_value FROM metadata WHERE name = 'trace_type'), 'W', 'R'
);

-- The states that begin a thread executing span: runnable after sleep, or as the first state of the
-- thread. Such a span lasts until the thread sleeps again.
CREATE PERFETTO TABLE _wakeup AS
SELECT id, ts, utid, waker_id, waker_utid, before_ts AS prev_end_ts, before_state AS state,
  before_function AS blocked_function,
  CASE WHEN coalesce(irq_context, 0) = 0 THEN coalesce(io_wait, 0) ELSE 1 END AS is_irq
FROM (
  SELECT *, iif(is_sleep, before_at, NULL) AS before_ts,
    iif(is_sleep, before_name, NULL) AS before_state,
    iif(is_sleep, before_blocked, NULL) AS before_function
  FROM (
    SELECT *, before_name IN ('S', 'D', 'I') AND before_at + before_dur = ts
      AND before_dur <> -1 AS is_sleep
    FROM (
      SELECT id, ts, dur, utid, state, waker_id, waker_utid, irq_context, io_wait,
        row_number() OVER by_id AS place, lag(ts) OVER by_ts AS before_at,
        lag(dur) OVER by_ts AS before_dur, lag(state) OVER by_ts AS before_name,
        lag(blocked_function) OVER by_ts AS before_blocked
      FROM thread_state
      WINDOW by_id AS (PARTITION BY utid ORDER BY id), by_ts AS (PARTITION BY utid ORDER BY ts, id)
    )
  )
)
WHERE dur <> -1
  AND (
    (is_sleep AND waker_id IS NOT NULL)
    OR (place = 1 AND _is_runnable_state!(state))
  );

-- The wakeup of the span in which a thread was running.
CREATE PERFETTO TABLE _wakeup_map AS
SELECT runnable_id AS id, id AS waker_id
FROM (
  SELECT id, state, max(iif(_is_runnable_state!(state), id, NULL)) OVER (
    PARTITION BY utid ORDER BY id
  ) AS runnable_id
  FROM (
    SELECT id, utid, state, waker_id, row_number() OVER (PARTITION BY utid ORDER BY id) AS place
    FROM thread_state
    WHERE dur <> -1
  )
  WHERE state = 'Running' OR waker_id IS NOT NULL OR place = 1
)
WHERE state = 'Running'
ORDER BY waker_id;

-- Spans with their waker, the span of the same thread before, and the idle time before.
CREATE PERFETTO TABLE _wakeup_graph AS
SELECT w.utid, w.id, iif(w.is_irq, NULL, m.id) AS waker_id, w.ts,
  iif(w.is_irq, 'IRQ', w.state) AS idle_state, w.blocked_function AS idle_reason,
  w.ts - w.prev_end_ts AS idle_dur, lag(w.id) OVER thread AS prev_id,
  coalesce(lead(w.prev_end_ts) OVER thread, e.end_ts) - w.ts AS dur
FROM _wakeup w
LEFT JOIN _wakeup_map m ON m.waker_id = w.waker_id
LEFT JOIN (
  SELECT utid, max(ts) + dur AS end_ts FROM thread_state WHERE dur <> -1 GROUP BY utid
) e ON e.utid = w.utid
WINDOW thread AS (PARTITION BY w.utid ORDER BY w.ts)
ORDER BY w.id;

-- The spans that cover intervals `ts, dur, utid`.
CREATE PERFETTO MACRO _intervals_to_roots(source TableOrSubquery, nodes TableOrSubquery)
RETURNS TableOrSubquery AS
(
  SELECT DISTINCT n.id AS root_node_id, n.id - coalesce(n.prev_id, n.id) AS capacity
  FROM (
    SELECT b.utid,
      (SELECT max(n.id) FROM $nodes n WHERE n.utid = b.utid AND n.ts <= b.start_ts) AS first_id,
      (SELECT min(n.id) FROM $nodes n WHERE n.utid = b.utid AND n.ts >= b.end_ts) AS last_id
    FROM (
      SELECT s.utid, max(s.ts, t.first_ts) AS start_ts, min(s.ts + s.dur, t.last_ts) AS end_ts
      FROM $source s
      JOIN (
        SELECT utid, min(ts) AS first_ts, max(ts) AS last_ts FROM $nodes GROUP BY utid
      ) t ON t.utid = s.utid
    ) b
  ) r
  JOIN $nodes n ON n.utid = r.utid AND n.id BETWEEN r.first_id AND r.last_id
);

-- For each root the threads that it waited for, with the number of wakers between them.
CREATE PERFETTO MACRO _critical_path_with_depth_by_roots(
  roots TableOrSubquery, nodes TableOrSubquery
)
RETURNS TableOrSubquery AS
(
  SELECT c0 AS root_id, c1 AS depth, c2 AS ts, c3 AS dur, c4 AS id, c5 AS parent_id
  FROM __intrinsic_table_ptr(
    __intrinsic_critical_path_walk(
      (
        SELECT __intrinsic_wakeup_graph_agg(id, utid, ts, dur, idle_dur, waker_id, prev_id)
        FROM $nodes
      ),
      (SELECT __intrinsic_array_agg(root_node_id) FROM $roots)
    )
  )
  WHERE __intrinsic_table_ptr_bind(c0, 'root_id') AND __intrinsic_table_ptr_bind(c1, 'depth')
    AND __intrinsic_table_ptr_bind(c2, 'ts') AND __intrinsic_table_ptr_bind(c3, 'dur')
    AND __intrinsic_table_ptr_bind(c4, 'blocker_id') AND __intrinsic_table_ptr_bind(c5, 'parent_id')
);

-- For each root the span that it waited for at each time. No two rows of a root overlap; times that
-- nothing explains are the root's own.
CREATE PERFETTO MACRO _critical_path_by_roots(roots TableOrSubquery, nodes TableOrSubquery)
RETURNS TableOrSubquery AS
(
  WITH explained AS MATERIALIZED (
    SELECT root_id, id, ts, dur
    FROM _critical_path_with_depth_by_roots!($roots, $nodes)
  )
  SELECT root_id, id, ts, dur FROM explained
  UNION ALL
  SELECT root_id, root_id AS id, ts_end AS ts, next_ts - ts_end AS dur
  FROM (
    SELECT root_id, ts + dur AS ts_end, lead(ts) OVER (PARTITION BY root_id ORDER BY ts) AS next_ts
    FROM explained
  )
  WHERE next_ts > ts_end
);

-- The critical paths of threads in intervals `ts, dur, utid`.
CREATE PERFETTO MACRO _critical_path_by_intervals(
  intervals TableOrSubquery, nodes TableOrSubquery
)
RETURNS TableOrSubquery AS
(
  WITH
    node AS (SELECT id, utid FROM $nodes),
    path AS MATERIALIZED (
      SELECT row_number() OVER (ORDER BY p.ts) AS id, p.root_id, p.id AS span_id, p.ts, p.dur,
        r.utid AS root_utid, n.utid
      FROM _critical_path_by_roots!(_intervals_to_roots!($intervals, $nodes), $nodes) p
      JOIN node r ON r.id = p.root_id
      JOIN node n ON n.id = p.id
    ),
    wanted AS MATERIALIZED (
      SELECT row_number() OVER (ORDER BY ts) AS id, ts, dur, utid AS root_utid FROM $intervals
    )
  SELECT DISTINCT p.root_utid, p.utid, p.root_id, p.span_id AS id, i.ts, i.dur,
    w.ts AS interval_ts, w.dur AS interval_dur
  FROM _interval_intersect!((path, wanted), (root_utid)) i
  JOIN path p ON p.id = i.id_0
  JOIN wanted w ON w.id = i.id_1
);

CREATE PERFETTO FUNCTION _thread_executing_span_critical_path(
  root_utid JOINID(thread.id), ts TIMESTAMP, dur DURATION
)
RETURNS TABLE(
  root_utid JOINID(thread.id), root_id LONG, id LONG, ts TIMESTAMP, dur DURATION,
  utid JOINID(thread.id)
) AS
SELECT root_utid, root_id, id, ts, dur, utid
FROM _critical_path_by_intervals!(
  (SELECT $root_utid AS utid, $ts AS ts, $dur AS dur), _wakeup_graph
);
