INCLUDE PERFETTO MODULE stacks.cpu_profiling;

-- The identity of a Chrome library in the format of crash reports: the first eight bytes of the
-- build id in the byte order of a GUID, eight more bytes, and the age 0.
CREATE PERFETTO FUNCTION _to_breakpad_module(mapping STRING, build_id STRING) RETURNS STRING AS
SELECT CASE
  WHEN length($build_id) >= 40 AND regexp(
    'lib(monochrome_64|chrome|monochrome|webviewchromium|chromium_android_linker)\.so$', $mapping
  ) THEN substr($build_id, 7, 2) || substr($build_id, 5, 2) || substr($build_id, 3, 2)
    || substr($build_id, 1, 2) || substr($build_id, 11, 2) || substr($build_id, 9, 2)
    || substr($build_id, 15, 2) || substr($build_id, 13, 2) || substr($build_id, 17, 16) || '0'
END;

-- Addresses of callstacks without a symbol, by process and library.
CREATE PERFETTO VIEW _stacks_symbolization_candidates AS
SELECT c.upid, m.name AS module, m.build_id, c.rel_pc,
  _to_breakpad_module(m.name, m.build_id) AS breakpad_module_id
FROM (
  SELECT DISTINCT s.upid, f.mapping, f.rel_pc
  FROM (
    SELECT t.upid, p.callsite_id FROM cpu_profiling_samples p JOIN thread t ON p.utid = t.utid
    UNION
    SELECT upid, callsite_id FROM heap_profile_allocation
  ) s
  JOIN (
    SELECT origin, other FROM __callsite_ancestors
    UNION ALL
    SELECT id, id FROM stack_profile_callsite
  ) a ON a.origin = s.callsite_id
  JOIN stack_profile_callsite c ON c.id = a.other
  JOIN stack_profile_frame f ON f.id = c.frame_id
  WHERE f.symbol_set_id IS NULL
) c
JOIN stack_profile_mapping m ON m.id = c.mapping
WHERE m.build_id <> '';
