-- The functions of callsites, with inlined ones: the outermost has the depth 0.
CREATE PERFETTO TABLE _firefox_frames AS
SELECT c.id AS callsite_id, c.parent_id,
  row_number() OVER (PARTITION BY c.id ORDER BY y.id DESC) - 1 AS depth,
  coalesce(y.name, f.deobfuscated_name, f.name, '') AS name, y.line_number AS line
FROM stack_profile_callsite c JOIN stack_profile_frame f ON c.frame_id = f.id
LEFT JOIN stack_profile_symbol y ON y.symbol_set_id = f.symbol_set_id
ORDER BY c.id, 3;

-- The stacks: each function with its caller.
CREATE PERFETTO TABLE _firefox_stacks AS
WITH numbered AS (
  SELECT row_number() OVER (ORDER BY callsite_id, depth) - 1 AS number, *
  FROM _firefox_frames
), ends AS (
  SELECT callsite_id, max(number) AS number FROM numbered GROUP BY 1
)
SELECT n.number, n.callsite_id, n.name, n.line,
  iif(n.depth > 0, n.number - 1, e.number) AS prefix,
  dense_rank() OVER (ORDER BY n.name) - 1 AS text
FROM numbered n LEFT JOIN ends e ON e.callsite_id = n.parent_id
ORDER BY n.number;

CREATE PERFETTO TABLE _firefox_samples AS
WITH ends AS (SELECT callsite_id, max(number) AS stack FROM _firefox_stacks GROUP BY 1)
SELECT s.id, s.ts, s.utid, e.stack
FROM perf_sample s JOIN ends e USING (callsite_id)
ORDER BY s.utid, s.ts, s.id;

-- The stacks of each thread, with numbers of their own. Callers come before their callees.
CREATE PERFETTO TABLE _firefox_used AS
WITH RECURSIVE used(utid, number) AS (
  SELECT DISTINCT utid, stack FROM _firefox_samples WHERE utid IS NOT NULL
  UNION
  SELECT u.utid, s.prefix FROM used u JOIN _firefox_stacks s USING (number)
  WHERE s.prefix IS NOT NULL
)
SELECT u.utid, u.number, s.prefix, s.name, s.line,
  row_number() OVER (PARTITION BY u.utid ORDER BY u.number) - 1 AS place,
  dense_rank() OVER (PARTITION BY u.utid ORDER BY s.name) - 1 AS text
FROM used u JOIN _firefox_stacks s USING (number)
ORDER BY u.utid, u.number;

-- The samples of a thread in the format of Firefox' profiler.
CREATE PERFETTO FUNCTION _firefox_thread(utid JOINID(thread.id)) RETURNS STRING AS
WITH stacks AS MATERIALIZED (SELECT * FROM _firefox_used WHERE utid = $utid)
SELECT json_object(
  'name', coalesce(t.name, ''), 'processName', coalesce(p.name, ''), 'processType', 'default',
  'tid', t.tid, 'pid', coalesce(p.pid, t.tid), 'registerTime', 0, 'unregisterTime', NULL,
  'markers', json('{"schema":{"name":0,"startTime":1,"endTime":2,"phase":3,"category":4,"data":5},
    "data":[]}'),
  'samples', json_object(
    'schema', json('{"stack":0,"time":1,"responsiveness":2}'),
    'data', json((
      SELECT json_group_array(json_array(place, (ts - trace_start()) / 1e6, 0))
      FROM (
        SELECT k.place, s.ts FROM _firefox_samples s JOIN stacks k ON k.number = s.stack
        WHERE s.utid = $utid ORDER BY s.ts, s.id)))),
  'frameTable', json_object(
    'schema', json('{"location":0,"relevantForJS":1,"innerWindowID":2,"implementation":3,
      "line":4,"column":5,"category":6,"subcategory":7}'),
    'data', json((
      SELECT json_group_array(json_array(text, json('false'), 0, NULL, line, NULL, 0, 0))
      FROM (SELECT text, line FROM stacks ORDER BY place)))),
  'stackTable', json_object(
    'schema', json('{"prefix":0,"frame":1}'),
    'data', json((
      SELECT json_group_array(json_array(prefix, place))
      FROM (
        SELECT c.place AS prefix, k.place FROM stacks k LEFT JOIN stacks c ON c.number = k.prefix
        ORDER BY k.place)))),
  'stringTable', json((
    SELECT json_group_array(name) FROM (SELECT DISTINCT text, name FROM stacks ORDER BY text))))
FROM thread t LEFT JOIN process p USING (upid) WHERE t.utid = $utid;

-- The samples of all threads in the format of Firefox' profiler.
CREATE PERFETTO FUNCTION export_to_firefox_profile() RETURNS STRING AS
SELECT json_object(
  'meta', json('{"version":24,"interval":1,"startTime":0,"processType":0,"product":"Ferretto",
    "stackwalk":1,"debug":0,"gcpoison":0,"asyncstack":1,"shutdownTime":null,
    "presymbolicated":true,"markerSchema":[],
    "categories":[{"name":"Other","color":"grey","subcategories":["Other"]}]}'),
  'libs', json_array(), 'pages', json_array(), 'pausedRanges', json_array(),
  'processes', json_array(),
  'threads', json((
    SELECT json_group_array(json(_firefox_thread(utid)))
    FROM (SELECT DISTINCT utid FROM _firefox_samples WHERE utid IS NOT NULL ORDER BY utid))));
