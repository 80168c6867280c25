-- The tables of a trace with their public names. Each is a view of a base table, `__intrinsic_NAME`.

CREATE PERFETTO VIEW slice AS
SELECT id, ts, dur, track_id, category, name, depth, parent_id, arg_set_id, thread_ts, thread_dur,
  thread_instruction_count, thread_instruction_delta, category AS cat, id AS slice_id
FROM __intrinsic_slice;

CREATE PERFETTO VIEW slices AS SELECT * FROM slice;

CREATE PERFETTO VIEW instant AS
SELECT ts, track_id, name, arg_set_id FROM __intrinsic_slice WHERE dur = 0;

CREATE PERFETTO VIEW counter AS
SELECT id, ts, track_id, value, arg_set_id FROM __intrinsic_counter;

CREATE PERFETTO VIEW counters AS
SELECT c.id, c.ts, c.track_id, c.value, c.arg_set_id, t.name, t.counter_unit AS unit
FROM __intrinsic_counter c JOIN __intrinsic_track t ON c.track_id = t.id
ORDER BY c.ts;

CREATE PERFETTO VIEW state AS
SELECT id, ts, dur, track_id, category, value, arg_set_id FROM __intrinsic_state;

CREATE PERFETTO VIEW sched AS
SELECT id, ts, dur, ucpu AS cpu, utid, end_state, priority, ucpu, ts + dur AS ts_end
FROM __intrinsic_sched_slice;

CREATE PERFETTO VIEW sched_slice AS
SELECT id, ts, dur, ucpu AS cpu, utid, end_state, priority, ucpu FROM __intrinsic_sched_slice;

CREATE PERFETTO VIEW thread_state AS
SELECT id, ts, dur, ucpu AS cpu, utid, state, io_wait, blocked_function, waker_utid, waker_id,
  irq_context, ucpu
FROM __intrinsic_thread_state;

CREATE PERFETTO VIEW spurious_sched_wakeup AS
SELECT id, ts, thread_state_id, irq_context, utid, waker_utid
FROM __intrinsic_spurious_sched_wakeup;

CREATE PERFETTO VIEW ftrace_event AS
SELECT id, ts, name, ucpu AS cpu, utid, arg_set_id, common_flags, ucpu
FROM __intrinsic_ftrace_event;

CREATE PERFETTO VIEW raw AS SELECT * FROM ftrace_event;

CREATE PERFETTO VIEW flow AS
SELECT id, slice_out, slice_in, trace_id, arg_set_id FROM __intrinsic_flow;

CREATE PERFETTO VIEW logs AS
SELECT id, ts, utid, prio, log_source, tag, msg, arg_set_id FROM __intrinsic_logs;

CREATE PERFETTO VIEW android_logs AS
SELECT id, ts, utid, prio, tag, msg FROM __intrinsic_logs WHERE log_source = 'android_logcat';

CREATE PERFETTO VIEW filedescriptor AS
SELECT id, ufd, fd, ts, upid, path FROM __intrinsic_filedescriptor;

-- Threads, processes, machines.

CREATE PERFETTO VIEW thread AS
SELECT id, id AS utid, tid, name, start_ts, end_ts, upid, is_main_thread, is_idle, machine_id,
  arg_set_id
FROM __intrinsic_thread;

CREATE PERFETTO VIEW process AS
SELECT id, id AS upid, pid, name, start_ts, end_ts, parent_upid, uid, android_appid,
  android_user_id, cmdline, arg_set_id, machine_id
FROM __intrinsic_process;

CREATE PERFETTO VIEW cpu AS
SELECT id, id AS ucpu, cpu, cluster_id, processor, machine_id, capacity, arg_set_id
FROM __intrinsic_cpu WHERE cpu IS NOT NULL;

CREATE PERFETTO VIEW gpu AS
SELECT id, id AS ugpu, gpu, name, vendor, model, architecture, uuid, pci_bdf, machine_id, arg_set_id
FROM __intrinsic_gpu;

CREATE PERFETTO VIEW cpu_available_frequencies AS
SELECT id, ucpu AS cpu, freq, ucpu FROM __intrinsic_cpu_freq;

CREATE PERFETTO VIEW machine AS
SELECT id, raw_id, name, sysname, release, version, arch, num_cpus, android_build_fingerprint,
  android_device_manufacturer, android_sdk_version, system_ram_bytes, system_ram_gb,
  CASE WHEN raw_id = 0 THEN 0
    ELSE sum(CASE WHEN raw_id = 0 THEN 0 ELSE 1 END) OVER (ORDER BY id) END AS label_index
FROM __intrinsic_machine;

CREATE PERFETTO VIEW args AS
SELECT id, arg_set_id, flat_key, key, int_value, string_value, real_value, value_type,
  CASE value_type
    WHEN 'int' THEN CAST(int_value AS TEXT)
    WHEN 'uint' THEN printf('%u', int_value)
    WHEN 'pointer' THEN printf('0x%x', int_value)
    WHEN 'bool' THEN CASE WHEN int_value <> 0 THEN 'true' ELSE 'false' END
    WHEN 'real' THEN CAST(real_value AS TEXT)
    WHEN 'string' THEN string_value
    WHEN 'json' THEN string_value
  END AS display_value
FROM __intrinsic_args;

CREATE PERFETTO VIEW trace_file AS
SELECT id, parent_id, name, size, trace_type, processing_order, is_container
FROM __intrinsic_trace_file;

-- Tracks.

CREATE PERFETTO VIEW track AS
SELECT id, name, type, dimension_arg_set_id, parent_id, source_arg_set_id, machine_id,
  track_group_id
FROM __intrinsic_track;

CREATE PERFETTO VIEW thread_track AS
SELECT id, name, type, parent_id, source_arg_set_id, machine_id, utid
FROM __intrinsic_track WHERE event_type = 'slice' AND utid IS NOT NULL;

CREATE PERFETTO VIEW process_track AS
SELECT id, name, type, parent_id, source_arg_set_id, machine_id, upid
FROM __intrinsic_track WHERE event_type = 'slice' AND upid IS NOT NULL;

CREATE PERFETTO VIEW cpu_track AS
SELECT id, name, type, parent_id, source_arg_set_id, machine_id, cpu
FROM __intrinsic_track WHERE event_type = 'slice' AND cpu IS NOT NULL;

CREATE PERFETTO VIEW gpu_track AS
SELECT id, name, type, parent_id, source_arg_set_id, dimension_arg_set_id, machine_id,
  type AS scope, CAST(extract_arg(source_arg_set_id, 'description') AS TEXT) AS description,
  __arg_int(dimension_arg_set_id, 'context_id') AS context_id
FROM __intrinsic_track
WHERE type IN ('drm_vblank', 'drm_sched_ring', 'drm_fence', 'mali_mcu_state', 'gpu_render_stage',
  'vulkan_events', 'gpu_log', 'graphics_frame_event');

CREATE PERFETTO VIEW gpu_slice AS
SELECT s.id, s.ts, s.dur, s.track_id, s.category, s.name, s.depth, s.parent_id, s.arg_set_id,
  __arg_int(s.arg_set_id, 'context_id') AS context_id,
  __arg_int(s.arg_set_id, 'render_target') AS render_target,
  CAST(extract_arg(s.arg_set_id, 'render_target_name') AS TEXT) AS render_target_name,
  __arg_int(s.arg_set_id, 'render_pass') AS render_pass,
  CAST(extract_arg(s.arg_set_id, 'render_pass_name') AS TEXT) AS render_pass_name,
  __arg_int(s.arg_set_id, 'command_buffer') AS command_buffer,
  CAST(extract_arg(s.arg_set_id, 'command_buffer_name') AS TEXT) AS command_buffer_name,
  __arg_int(s.arg_set_id, 'frame_id') AS frame_id,
  __arg_int(s.arg_set_id, 'submission_id') AS submission_id,
  __arg_int(s.arg_set_id, 'hw_queue_id') AS hw_queue_id,
  __arg_int(s.arg_set_id, 'upid') AS upid,
  CAST(extract_arg(s.arg_set_id, 'render_subpasses') AS TEXT) AS render_subpasses,
  __arg_int(s.arg_set_id, 'render_stage_category') AS render_stage_category
FROM __intrinsic_slice s JOIN __intrinsic_track t ON s.track_id = t.id
WHERE t.type IN ('gpu_render_stage', 'vulkan_events', 'gpu_log');

CREATE PERFETTO VIEW frame_slice AS
SELECT s.id, s.ts, s.dur, s.track_id, s.category, s.name, s.depth, s.parent_id, s.arg_set_id,
  CAST(extract_arg(s.arg_set_id, 'layer_name') AS TEXT) AS layer_name,
  __arg_int(s.arg_set_id, 'frame_number') AS frame_number,
  __arg_int(s.arg_set_id, 'queue_to_acquire_time') AS queue_to_acquire_time,
  __arg_int(s.arg_set_id, 'acquire_to_latch_time') AS acquire_to_latch_time,
  __arg_int(s.arg_set_id, 'latch_to_present_time') AS latch_to_present_time
FROM __intrinsic_slice s JOIN __intrinsic_track t ON s.track_id = t.id
WHERE t.type = 'graphics_frame_event';

CREATE PERFETTO VIEW expected_frame_timeline_slice AS
SELECT s.id, s.ts, s.dur, s.track_id, s.category, s.name, s.depth, s.parent_id, s.arg_set_id,
  __arg_int(s.arg_set_id, 'Display frame token') AS display_frame_token,
  __arg_int(s.arg_set_id, 'Surface frame token') AS surface_frame_token, t.upid,
  CAST(extract_arg(s.arg_set_id, 'Layer name') AS TEXT) AS layer_name
FROM __intrinsic_slice s JOIN process_track t ON s.track_id = t.id
WHERE t.type = 'android_expected_frame_timeline';

CREATE PERFETTO VIEW actual_frame_timeline_slice AS
SELECT s.id, s.ts, s.dur, s.track_id, s.category, s.name, s.depth, s.parent_id, s.arg_set_id,
  __arg_int(s.arg_set_id, 'Display frame token') AS display_frame_token, t.upid,
  __arg_int(s.arg_set_id, 'Surface frame token') AS surface_frame_token,
  CAST(extract_arg(s.arg_set_id, 'Layer name') AS TEXT) AS layer_name,
  CAST(extract_arg(s.arg_set_id, 'Present type') AS TEXT) AS present_type,
  __arg_int(s.arg_set_id, 'On time finish') AS on_time_finish,
  __arg_int(s.arg_set_id, 'GPU composition') AS gpu_composition,
  CAST(extract_arg(s.arg_set_id, 'Jank type') AS TEXT) AS jank_type,
  CAST(extract_arg(s.arg_set_id, 'Jank severity type') AS TEXT) AS jank_severity_type,
  CAST(extract_arg(s.arg_set_id, 'Prediction type') AS TEXT) AS prediction_type,
  CAST(extract_arg(s.arg_set_id, 'Jank tag') AS TEXT) AS jank_tag,
  CAST(extract_arg(s.arg_set_id, 'Jank tag (experimental)') AS TEXT) AS jank_tag_experimental,
  extract_arg(s.arg_set_id, 'Jank Severity Score') AS jank_score,
  __arg_int(s.arg_set_id, 'Latched unsignaled count') AS latched_unsignaled_count,
  __arg_int(s.arg_set_id, 'Addressable unsignaled latch count')
    AS addressable_unsignaled_latch_count,
  CAST(extract_arg(s.arg_set_id, 'Latched fence state') AS TEXT) AS latched_fence_state
FROM __intrinsic_slice s JOIN process_track t ON s.track_id = t.id
WHERE t.type = 'android_actual_frame_timeline';

CREATE PERFETTO VIEW counter_track AS
SELECT id, name, parent_id, type, dimension_arg_set_id, source_arg_set_id, machine_id,
  counter_unit AS unit, CAST(extract_arg(source_arg_set_id, 'description') AS TEXT) AS description
FROM __intrinsic_track WHERE event_type = 'counter';

CREATE PERFETTO VIEW cpu_counter_track AS
SELECT id, name, type, parent_id, source_arg_set_id, machine_id, counter_unit AS unit,
  CAST(extract_arg(source_arg_set_id, 'description') AS TEXT) AS description, cpu
FROM __intrinsic_track WHERE event_type = 'counter' AND cpu IS NOT NULL;

CREATE PERFETTO VIEW gpu_counter_track AS
SELECT id, name, type, parent_id, source_arg_set_id, machine_id, counter_unit AS unit,
  CAST(extract_arg(source_arg_set_id, 'description') AS TEXT) AS description,
  __arg_int(dimension_arg_set_id, 'ugpu') AS ugpu, __arg_int(dimension_arg_set_id, 'gpu') AS gpu_id
FROM __intrinsic_track
WHERE event_type = 'counter' AND __arg_int(dimension_arg_set_id, 'ugpu') IS NOT NULL;

CREATE PERFETTO VIEW surfaceflinger_layers_snapshot AS
SELECT id, ts, arg_set_id, base64_proto_id, sequence_id, has_invalid_elapsed_ts
FROM __intrinsic_surfaceflinger_layers_snapshot;

CREATE PERFETTO VIEW surfaceflinger_layer AS
SELECT id, snapshot_id, arg_set_id, base64_proto_id, layer_id, layer_name, is_visible, parent,
  corner_radius_tl, corner_radius_tr, corner_radius_bl, corner_radius_br, hwc_composition_type,
  is_hidden_by_policy, z_order_relative_of, is_missing_z_parent, layer_rect_id, input_rect_id
FROM __intrinsic_surfaceflinger_layer;

CREATE PERFETTO VIEW surfaceflinger_transactions AS
SELECT id, ts, arg_set_id, base64_proto_id, vsync_id
FROM __intrinsic_surfaceflinger_transactions;

CREATE PERFETTO VIEW window_manager_shell_transitions AS
SELECT id, ts, transition_id, arg_set_id, transition_type, send_time_ns, dispatch_time_ns,
  duration_ns, finish_time_ns, shell_abort_time_ns, wm_abort_time_ns, merge_time_ns, create_time_ns,
  handler, status, flags, start_transaction_id, finish_transaction_id
FROM __intrinsic_window_manager_shell_transitions;

CREATE PERFETTO VIEW window_manager_shell_transition_handlers AS
SELECT id, handler_id, handler_name, base64_proto_id
FROM __intrinsic_window_manager_shell_transition_handlers;

CREATE PERFETTO VIEW windowmanager AS
SELECT id, ts, arg_set_id, base64_proto_id, focused_display_id, has_invalid_elapsed_ts
FROM __intrinsic_windowmanager;

CREATE PERFETTO VIEW windowmanager_windowcontainer AS
SELECT id, snapshot_id, arg_set_id, base64_proto_id, title, token, parent_token, child_index,
  is_visible, window_rect_id, container_type, name_override
FROM __intrinsic_windowmanager_windowcontainer;

CREATE PERFETTO VIEW protolog AS
SELECT id, ts, level, tag, message, stacktrace, location
FROM __intrinsic_protolog;

CREATE PERFETTO VIEW experimental_proto_path AS
SELECT id, parent_id, field_type, field_name, arg_set_id FROM __intrinsic_experimental_proto_path;

CREATE PERFETTO VIEW experimental_proto_content AS
SELECT id, path, path_id, total_size, size, count FROM __intrinsic_experimental_proto_content;

CREATE PERFETTO VIEW gpu_counter_group AS
SELECT id, group_id, track_id, name, description FROM __intrinsic_gpu_counter_group;

CREATE PERFETTO VIEW process_counter_track AS
SELECT id, name, type, parent_id, source_arg_set_id, machine_id, counter_unit AS unit,
  CAST(extract_arg(source_arg_set_id, 'description') AS TEXT) AS description, upid
FROM __intrinsic_track WHERE event_type = 'counter' AND upid IS NOT NULL;

CREATE PERFETTO VIEW thread_counter_track AS
SELECT id, name, type, parent_id, source_arg_set_id, machine_id, counter_unit AS unit,
  CAST(extract_arg(source_arg_set_id, 'description') AS TEXT) AS description, utid
FROM __intrinsic_track WHERE event_type = 'counter' AND utid IS NOT NULL;

CREATE PERFETTO VIEW perf_counter_track AS
SELECT id, name, type, parent_id, source_arg_set_id, machine_id, counter_unit AS unit,
  CAST(extract_arg(source_arg_set_id, 'description') AS TEXT) AS description,
  __arg_int(dimension_arg_set_id, 'perf_session_id') AS perf_session_id, cpu,
  __arg_int(source_arg_set_id, 'is_timebase') AS is_timebase
FROM __intrinsic_track WHERE type IN ('perf_cpu_counter', 'perf_global_counter');

CREATE PERFETTO VIEW state_track AS
SELECT id, name, parent_id, type, dimension_arg_set_id, source_arg_set_id, machine_id
FROM __intrinsic_track WHERE event_type = 'state';

CREATE PERFETTO VIEW thread_state_track AS
SELECT id, name, type, parent_id, source_arg_set_id, machine_id, utid
FROM __intrinsic_track WHERE event_type = 'state' AND utid IS NOT NULL;

CREATE PERFETTO VIEW process_state_track AS
SELECT id, name, type, parent_id, source_arg_set_id, machine_id, upid
FROM __intrinsic_track WHERE event_type = 'state' AND upid IS NOT NULL;

-- Profiles.

CREATE PERFETTO VIEW stack_profile_mapping AS
SELECT id, build_id, exact_offset, start_offset, start, "end", load_bias, name
FROM __intrinsic_stack_profile_mapping;

CREATE PERFETTO VIEW stack_profile_frame AS
SELECT id, name, mapping, rel_pc, symbol_set_id, deobfuscated_name, type
FROM __intrinsic_stack_profile_frame;

CREATE PERFETTO VIEW stack_profile_callsite AS
SELECT id, depth, parent_id, frame_id FROM __intrinsic_stack_profile_callsite;

CREATE PERFETTO VIEW stack_profile_symbol AS
SELECT id, symbol_set_id, name, source_file, line_number, inlined
FROM __intrinsic_stack_profile_symbol;

CREATE PERFETTO VIEW perf_session AS
SELECT id, id AS perf_session_id, cmdline FROM __intrinsic_profiler_session
WHERE source = 'linux.perf';

CREATE PERFETTO VIEW perf_sample AS
SELECT s.id, s.ts, t.utid, e.ucpu AS cpu, coalesce(e.cpu_mode, 'unknown') AS cpu_mode,
  s.callsite_id, s.unwind_error, s.session_id AS perf_session_id
FROM __intrinsic_profiler_sample s
LEFT JOIN __intrinsic_profiler_task_context t ON s.task_context_id = t.id
LEFT JOIN __intrinsic_profiler_execution_context e ON s.execution_context_id = e.id
WHERE s.source = 'linux.perf';

CREATE PERFETTO VIEW stack_sample AS
SELECT id, ts, source, task_context_id, execution_context_id, callsite_id, session_id
FROM __intrinsic_profiler_sample WHERE callsite_id IS NOT NULL;

CREATE PERFETTO VIEW stack_sample_counter AS
SELECT c.id, s.id AS stack_sample_id, c.track_id, c.value
FROM __intrinsic_profiler_sample s
JOIN __intrinsic_profiler_counter_set m ON m.counter_set_id = s.counter_set_id
JOIN __intrinsic_counter c ON c.id = m.counter_id
WHERE s.callsite_id IS NOT NULL;

CREATE PERFETTO VIEW stack_sample_session AS
SELECT id, source, timebase_unit, cmdline FROM __intrinsic_profiler_session
WHERE id IN (SELECT session_id FROM stack_sample);

CREATE PERFETTO VIEW stack_sample_task_context AS
SELECT id, upid, utid, async_context_id FROM __intrinsic_profiler_task_context
WHERE id IN (SELECT task_context_id FROM stack_sample);

CREATE PERFETTO VIEW stack_sample_execution_context AS
SELECT id, ucpu, cpu_mode FROM __intrinsic_profiler_execution_context
WHERE id IN (SELECT execution_context_id FROM stack_sample);

CREATE PERFETTO VIEW stack_sample_async_context AS
SELECT id, name, kind, parent_id FROM __intrinsic_profiler_async_context;

CREATE PERFETTO VIEW stack_sample_counter_track AS
SELECT id, name, type, parent_id, source_arg_set_id, machine_id, counter_unit AS unit,
  CAST(extract_arg(source_arg_set_id, 'description') AS TEXT) AS description,
  coalesce(
    __arg_int(dimension_arg_set_id, 'session_id'),
    __arg_int(dimension_arg_set_id, 'perf_session_id')
  ) AS session_id,
  cpu, __arg_int(source_arg_set_id, 'is_timebase') AS is_timebase
FROM __intrinsic_track WHERE id IN (SELECT track_id FROM stack_sample_counter);

CREATE PERFETTO VIEW cpu_profile_stack_sample AS
SELECT s.id, s.ts, s.callsite_id, t.utid, coalesce(x.process_priority, 0) AS process_priority
FROM __intrinsic_profiler_sample s
LEFT JOIN __intrinsic_profiler_task_context t ON s.task_context_id = t.id
LEFT JOIN __intrinsic_chrome_stack_sample_extras x ON x.profiler_sample_id = s.id
WHERE s.source IN ('chrome', 'legacy_v8', 'gecko', 'simpleperf', 'perf_text')
  AND s.callsite_id IS NOT NULL;

CREATE PERFETTO VIEW heap_profile AS
SELECT id, ts, ts_end, dur, upid, heap_name FROM __intrinsic_heap_profile;

CREATE PERFETTO VIEW heap_profile_allocation AS
SELECT id, ts, upid, heap_name, callsite_id, count, size
FROM __intrinsic_heap_profile_allocation;

CREATE PERFETTO VIEW heap_graph AS SELECT * FROM __intrinsic_heap_graph;
CREATE PERFETTO VIEW heap_graph_thread_callsite AS
SELECT * FROM __intrinsic_heap_graph_thread_callsite;
CREATE PERFETTO VIEW heap_graph_class AS SELECT * FROM __intrinsic_heap_graph_class;
CREATE PERFETTO VIEW heap_graph_object AS SELECT * FROM __intrinsic_heap_graph_object;
CREATE PERFETTO VIEW heap_graph_object_data AS SELECT * FROM __intrinsic_heap_graph_object_data;
CREATE PERFETTO VIEW heap_graph_reference AS SELECT * FROM __intrinsic_heap_graph_reference;
CREATE PERFETTO VIEW heap_graph_primitive AS SELECT * FROM __intrinsic_heap_graph_primitive;
CREATE PERFETTO VIEW package_list AS SELECT * FROM __intrinsic_package_list;
CREATE PERFETTO VIEW android_game_intervention_list AS
SELECT * FROM __intrinsic_android_game_intervention_list;

-- The CPU time of users in the trace: of all increases, since a restart repeats absolute values.
CREATE PERFETTO VIEW __intrinsic_android_cpu_per_uid_track AS
SELECT row_number() OVER (ORDER BY track_id) - 1 AS id, track_id,
  extract_arg(dimension_arg_set_id, 'uid') AS uid,
  extract_arg(dimension_arg_set_id, 'cluster') AS cluster,
  sum(iif(value > before, value - before, 0)) AS total_cpu_millis
FROM (
  SELECT c.track_id, t.dimension_arg_set_id, CAST(c.value AS INT) AS value,
    lag(CAST(c.value AS INT), 1, CAST(c.value AS INT))
      OVER (PARTITION BY c.track_id ORDER BY c.ts) AS before
  FROM __intrinsic_track t JOIN __intrinsic_counter c ON c.track_id = t.id
  WHERE t.type = 'android_cpu_per_uid'
)
GROUP BY track_id;

CREATE PERFETTO VIEW profiler_smaps AS SELECT * FROM __intrinsic_profiler_smaps;

CREATE PERFETTO VIEW process_memory_mappings AS
SELECT id, upid, ts, path_trimmed AS path, aggregate_count, is_deleted, size_kb, rss_kb,
  anonymous_kb, swap_kb, shared_clean_resident_kb AS shared_clean_kb,
  shared_dirty_resident_kb AS shared_dirty_kb, private_clean_resident_kb AS private_clean_kb,
  private_dirty_kb, locked_kb, proportional_resident_kb AS pss_kb, pss_dirty_kb, swap_pss_kb
FROM __intrinsic_profiler_smaps;

-- Metadata, statistics, clocks and logs.

CREATE PERFETTO VIEW metadata AS
SELECT id, name, key_type, int_value, str_value, machine_id, trace_id FROM __intrinsic_metadata;

CREATE PERFETTO VIEW stats AS
SELECT id, name, key, idx, severity, source, value, description, machine_id, trace_id
FROM __intrinsic_stats;

CREATE PERFETTO VIEW clock_snapshot AS
SELECT id, ts, clock_id, clock_name, clock_value, snapshot_id, machine_id
FROM __intrinsic_clock_snapshot;

CREATE PERFETTO VIEW trace_bounds AS
SELECT start_ts, end_ts FROM __intrinsic_trace_bounds;

CREATE PERFETTO VIEW _trace_import_logs AS
SELECT l.id, l.trace_id, l.ts, l.byte_offset, s.severity, s.name, l.arg_set_id
FROM __intrinsic_trace_import_logs l
LEFT JOIN (SELECT DISTINCT key, name, severity FROM __intrinsic_stats) s ON s.key = l.stat_key;

-- Functions.

CREATE PERFETTO FUNCTION ancestor_slice(id LONG) RETURNS TABLE(id LONG) AS
SELECT s.id, s.ts, s.dur, s.track_id, s.category, s.name, s.depth, s.parent_id, s.arg_set_id,
  s.thread_ts, s.thread_dur, s.thread_instruction_count, s.thread_instruction_delta
FROM __slice_ancestors p JOIN __intrinsic_slice s ON s.id = p.other
WHERE p.origin = $id;

CREATE PERFETTO FUNCTION descendant_slice(id LONG) RETURNS TABLE(id LONG) AS
SELECT s.id, s.ts, s.dur, s.track_id, s.category, s.name, s.depth, s.parent_id, s.arg_set_id,
  s.thread_ts, s.thread_dur, s.thread_instruction_count, s.thread_instruction_delta
FROM __slice_descendants p JOIN __intrinsic_slice s ON s.id = p.other
WHERE p.origin = $id;

CREATE PERFETTO FUNCTION experimental_ancestor_stack_profile_callsite(id LONG)
RETURNS TABLE(id LONG) AS
SELECT c.id, c.depth, c.parent_id, c.frame_id
FROM __callsite_ancestors p JOIN __intrinsic_stack_profile_callsite c ON c.id = p.other
WHERE p.origin = $id;

CREATE PERFETTO FUNCTION directly_connected_flow(slice_id LONG) RETURNS TABLE(id LONG) AS
SELECT f.id, f.slice_out, f.slice_in, f.trace_id, f.arg_set_id
FROM __flow_direct p JOIN __intrinsic_flow f ON f.id = p.other
WHERE p.origin = $slice_id;

CREATE PERFETTO FUNCTION following_flow(slice_id LONG) RETURNS TABLE(id LONG) AS
SELECT f.id, f.slice_out, f.slice_in, f.trace_id, f.arg_set_id
FROM __flow_following p JOIN __intrinsic_flow f ON f.id = p.other
WHERE p.origin = $slice_id;

CREATE PERFETTO FUNCTION preceding_flow(slice_id LONG) RETURNS TABLE(id LONG) AS
SELECT f.id, f.slice_out, f.slice_in, f.trace_id, f.arg_set_id
FROM __flow_preceding p JOIN __intrinsic_flow f ON f.id = p.other
WHERE p.origin = $slice_id;

CREATE PERFETTO MACRO cast_int(value Expr) RETURNS Expr AS CAST($value AS INT);
CREATE PERFETTO MACRO cast_double(value Expr) RETURNS Expr AS CAST($value AS REAL);
CREATE PERFETTO MACRO cast_string(value Expr) RETURNS Expr AS CAST($value AS TEXT);
