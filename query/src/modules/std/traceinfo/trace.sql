-- The metadata of each trace file, and the names of its machines.
CREATE PERFETTO TABLE _metadata_by_trace(
  trace_id LONG, unique_session_name STRING, trace_uuid STRING, trace_type STRING,
  trace_size_bytes LONG, trace_trigger STRING, machines STRING
) AS
SELECT t.trace_id,
  extract_metadata_for_trace(t.trace_id, 'unique_session_name') AS unique_session_name,
  extract_metadata_for_trace(t.trace_id, 'trace_uuid') AS trace_uuid,
  extract_metadata_for_trace(t.trace_id, 'trace_type') AS trace_type,
  extract_metadata_for_trace(t.trace_id, 'trace_size_bytes') AS trace_size_bytes,
  extract_metadata_for_trace(t.trace_id, 'trace_trigger') AS trace_trigger,
  coalesce(
    (
      SELECT group_concat(
        coalesce(
          extract_metadata_for_machine(m.machine_id, 'system_name'), 'Machine ' || m.machine_id
        ),
        ', '
      )
      FROM (
        SELECT DISTINCT machine_id FROM metadata
        WHERE trace_id = t.trace_id AND machine_id IS NOT NULL
      ) m
    ),
    ''
  ) AS machines
FROM (SELECT DISTINCT trace_id FROM metadata WHERE trace_id IS NOT NULL) t;
