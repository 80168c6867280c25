INCLUDE PERFETTO MODULE intervals.intersect;
INCLUDE PERFETTO MODULE sched.thread_executing_span;
INCLUDE PERFETTO MODULE slices.flat_slices;

-- The critical path of each thread over the whole trace.
CREATE PERFETTO TABLE _critical_path_all AS
SELECT row_number() OVER (ORDER BY p.ts) AS id, p.ts, p.dur, p.ts + p.dur AS ts_end, n.utid,
  r.utid AS root_utid
FROM _critical_path_by_roots!((SELECT id AS root_node_id FROM _wakeup_graph), _wakeup_graph) p
JOIN _wakeup_graph n ON n.id = p.id
JOIN _wakeup_graph r ON r.id = p.root_id
ORDER BY p.ts;

CREATE PERFETTO VIEW _span_thread_state_view AS
SELECT id AS thread_state_id, ts, dur, utid, state, blocked_function AS function, io_wait, cpu
FROM thread_state;

CREATE PERFETTO VIEW _span_slice_view AS
SELECT slice_id, depth AS slice_depth, ts, dur, utid FROM _slice_flattened;

CREATE VIRTUAL TABLE _span_thread_state_slice_sp
USING SPAN_LEFT_JOIN(_span_thread_state_view PARTITIONED utid, _span_slice_view PARTITIONED utid);

-- States of threads, cut where their innermost slice changes.
CREATE PERFETTO TABLE _span_thread_state_slice AS
SELECT row_number() OVER (ORDER BY ts) AS id, ts, dur, ts + dur AS ts_end, utid, thread_state_id,
  state, function, cpu, io_wait, slice_id, slice_depth
FROM _span_thread_state_slice_sp WHERE dur > 0 ORDER BY ts;

CREATE PERFETTO TABLE _critical_path_thread_state_slice AS
SELECT i.ts, i.dur, p.utid, s.thread_state_id, s.state, s.function, s.cpu, s.io_wait, s.slice_id,
  s.slice_depth, p.root_utid
FROM _interval_intersect!((_critical_path_all, _span_thread_state_slice), (utid)) i
JOIN _critical_path_all p ON p.id = i.id_0
JOIN _span_thread_state_slice s ON s.id = i.id_1;

CREATE PERFETTO VIEW _self_view AS
SELECT thread_state_id AS self_thread_state_id, slice_id AS self_slice_id, ts, dur,
  utid AS root_utid, state AS self_state, function AS self_function, cpu AS self_cpu,
  io_wait AS self_io_wait, slice_depth AS self_slice_depth
FROM _span_thread_state_slice;

CREATE VIRTUAL TABLE _self_and_critical_path_sp USING SPAN_JOIN(
  _self_view PARTITIONED root_utid, _critical_path_thread_state_slice PARTITIONED root_utid
);

-- The state of a thread, and of the one that it waited for, as rows that are drawn one below
-- another. Rows of the thread itself come first, then those of the other one, then the CPU.
CREATE PERFETTO FUNCTION _critical_path_stack(
  root_utid JOINID(thread.id), ts TIMESTAMP, dur DURATION, enable_process_name LONG,
  enable_thread_name LONG, enable_self_slice LONG, enable_critical_path_slice LONG
)
RETURNS TABLE(
  id LONG, ts TIMESTAMP, dur DURATION, utid JOINID(thread.id), stack_depth LONG, name STRING,
  table_name STRING, root_utid JOINID(thread.id)
) AS
WITH
  span AS MATERIALIZED (
    SELECT *
    FROM (
      SELECT self_thread_state_id, self_state, self_slice_id, self_slice_depth, self_function,
        self_io_wait, thread_state_id, state, function, io_wait, slice_id, slice_depth, cpu, utid,
        root_utid, max(ts, $ts) AS ts, min(ts + dur, $ts + $dur) - max(ts, $ts) AS dur
      FROM _self_and_critical_path_sp
      WHERE root_utid = $root_utid AND dur > 0
    )
    WHERE dur > 0
  ),
  line(line) AS (VALUES (0), (1), (2), (3), (4)),
  self AS MATERIALIZED (
    SELECT s.self_thread_state_id AS id, s.ts, s.dur, s.root_utid AS utid, l.line AS stack_depth,
      CASE l.line
        WHEN 0 THEN 'thread_state: ' || s.self_state
        WHEN 1 THEN iif(s.self_state GLOB 'R*', NULL, 'kernel function: ' || s.self_function)
        WHEN 2 THEN iif(s.self_state GLOB 'R*', NULL, 'io_wait: ' || s.self_io_wait)
        WHEN 3 THEN iif($enable_process_name, 'process_name: ' || p.name, NULL)
        ELSE iif($enable_thread_name, 'thread_name: ' || t.name, NULL)
      END AS name, 'thread_state' AS table_name, s.root_utid
    FROM span s
    CROSS JOIN line l
    LEFT JOIN thread t ON t.utid = s.root_utid
    LEFT JOIN process p ON p.upid = t.upid
    WHERE l.line < 4 OR p.upid IS NOT NULL
    UNION ALL
    SELECT a.id, s.ts, s.dur, s.root_utid, a.depth + 5, iif($enable_self_slice, a.name, NULL),
      'slice', s.root_utid
    FROM span s JOIN ancestor_slice(s.self_slice_id) a
    WHERE a.dur <> -1
    UNION ALL
    SELECT s.self_slice_id, s.ts, s.dur, s.root_utid, s.self_slice_depth + 5,
      iif($enable_self_slice, c.name, NULL), 'slice', s.root_utid
    FROM span s LEFT JOIN slice c ON c.id = s.self_slice_id
  ),
  below_self AS MATERIALIZED (
    SELECT ts, max(stack_depth) + 1 AS depth FROM self GROUP BY ts
  ),
  blocking AS MATERIALIZED (
    SELECT s.*, b.depth FROM span s JOIN below_self b ON b.ts = s.ts WHERE s.utid <> s.root_utid
  ),
  path AS MATERIALIZED (
    SELECT s.thread_state_id AS id, s.ts, s.dur, s.utid, s.depth + l.line AS stack_depth,
      CASE l.line
        WHEN 0 THEN 'blocking thread_state: ' || s.state
        WHEN 1 THEN 'blocking process_name: ' || p.name
        WHEN 2 THEN 'blocking thread_name: ' || t.name
        WHEN 3 THEN 'blocking kernel_function: ' || s.function
        ELSE 'blocking io_wait: ' || s.io_wait
      END AS name, 'thread_state' AS table_name, s.root_utid
    FROM blocking s
    CROSS JOIN line l
    LEFT JOIN thread t ON t.utid = s.utid
    LEFT JOIN process p ON p.upid = t.upid
    UNION ALL
    SELECT a.id, s.ts, s.dur, s.utid, a.depth + s.depth + 5,
      iif($enable_critical_path_slice, a.name, NULL), 'slice', s.root_utid
    FROM blocking s JOIN ancestor_slice(s.slice_id) a
    WHERE a.dur <> -1
    UNION ALL
    SELECT s.slice_id, s.ts, s.dur, s.utid, s.slice_depth + s.depth + 5,
      iif($enable_critical_path_slice, c.name, NULL), 'slice', s.root_utid
    FROM blocking s LEFT JOIN slice c ON c.id = s.slice_id
  ),
  below_all AS (
    SELECT ts, max(depth) AS depth
    FROM (
      SELECT ts, depth FROM below_self
      UNION ALL
      SELECT ts, max(stack_depth) + 1 FROM path GROUP BY ts
    )
    GROUP BY ts
  )
SELECT * FROM self WHERE id IS NOT NULL
UNION ALL
SELECT * FROM path WHERE id IS NOT NULL
UNION ALL
SELECT s.thread_state_id, s.ts, s.dur, s.utid, b.depth, 'cpu: ' || s.cpu, 'thread_state',
  s.root_utid
FROM span s JOIN below_all b ON b.ts = s.ts
WHERE s.thread_state_id IS NOT NULL AND 'Running' IN (s.state, s.self_state);

CREATE PERFETTO FUNCTION _thread_executing_span_critical_path_stack(
  root_utid JOINID(thread.id), ts TIMESTAMP, dur DURATION
)
RETURNS TABLE(
  id LONG, ts TIMESTAMP, dur DURATION, utid JOINID(thread.id), stack_depth LONG, name STRING,
  table_name STRING, root_utid JOINID(thread.id)
) AS
SELECT * FROM _critical_path_stack($root_utid, $ts, $dur, 1, 1, 1, 1);

-- The stacks as a profile in pprof's format, in which each row has its own time.
CREATE PERFETTO FUNCTION _critical_path_graph(
  graph_title STRING, root_utid JOINID(thread.id), ts TIMESTAMP, dur DURATION,
  enable_process_name LONG, enable_thread_name LONG, enable_self_slice LONG,
  enable_critical_path_slice LONG
)
RETURNS TABLE(pprof BYTES) AS
WITH RECURSIVE
  line AS MATERIALIZED (
    SELECT ts, name, stack_depth,
      dur - coalesce(lead(dur) OVER (PARTITION BY ts ORDER BY stack_depth), 0) AS dur
    FROM _critical_path_stack(
      $root_utid, $ts, $dur, $enable_process_name, $enable_thread_name, $enable_self_slice,
      $enable_critical_path_slice
    )
  ),
  stack(ts, depth, stack, dur) AS (
    SELECT ts, 0, cat_stacks(cat_stacks($graph_title), name), dur FROM line WHERE stack_depth = 0
    UNION ALL
    SELECT l.ts, l.stack_depth, cat_stacks(s.stack, l.name), l.dur
    FROM stack s JOIN line l ON l.ts = s.ts AND l.stack_depth = s.depth + 1
  )
SELECT experimental_profile(stack, 'duration', 'ns', dur) AS pprof FROM stack;

CREATE PERFETTO FUNCTION _thread_executing_span_critical_path_graph(
  graph_title STRING, root_utid JOINID(thread.id), ts TIMESTAMP, dur DURATION
)
RETURNS TABLE(pprof BYTES) AS
SELECT pprof FROM _critical_path_graph($graph_title, $root_utid, $ts, $dur, 1, 1, 1, 1);
