//! Tables for events that Ferretto does not read: they exist with their columns, and have no rows,
//! so that queries over several kinds of traces run.

use std::sync::Arc;

use rusqlite::{Connection, Result};

use super::{Stored, StoredRows};
use crate::sqlite::Relations;

/// The tables and their columns.
const TABLES: &[(&str, &str)] = &[
    (
        "__intrinsic_android_track_event_process",
        "id upid start_seq_id package_uid caller_uid defining_uid fw_start_ts fw_end_ts \
         trigger_type hosting_type hosting_name bind_application_delay_ms \
         process_start_delay_ms",
    ),
    (
        "__intrinsic_video_frames",
        "id ts display_id display_name codec_string frame_number codec is_key_frame pts_us \
         is_config",
    ),
    ("__intrinsic_android_dumpstate", "id section service line"),
    (
        "__intrinsic_etm_v4_configuration",
        "id set_id cpu cs_trace_stream_id core_profile arch_version major_version \
         minor_version max_speculation_depth bool_flags configuration_id start_ts session_id \
         chunk_set_id size",
    ),
    ("__intrinsic_elf_file", "id file_id load_bias build_id"),
    (
        "__intrinsic_jit_code",
        "id create_ts estimated_delete_ts utid start_address size function_name \
         native_code_base64 jit_code_id",
    ),
    ("__intrinsic_jit_frame", "id jit_code_id frame_id"),
    (
        "__intrinsic_memory_snapshot",
        "id timestamp track_id detail_level",
    ),
    ("__intrinsic_process_memory_snapshot", "id snapshot_id upid"),
    (
        "__intrinsic_memory_snapshot_node",
        "id process_snapshot_id parent_node_id path size effective_size arg_set_id",
    ),
    (
        "__intrinsic_memory_snapshot_edge",
        "id source_node_id target_node_id importance",
    ),
    ("_linux_interrupt_mapping", "id irq_id name machine_id"),
    ("__intrinsic_chrome_raw", "id ts name utid arg_set_id"),
    (
        "__intrinsic_experimental_missing_chrome_processes",
        "id upid reliable_from",
    ),
    (
        "__intrinsic_spe_record",
        "id ts utid exception_level instruction_frame_id operation data_virtual_address \
         data_physical_address total_latency issue_latency translation_latency \
         events_bitmask data_source",
    ),
    (
        "__intrinsic_vulkan_memory_allocations",
        "id arg_set_id source operation timestamp upid device device_memory memory_type heap \
         function_name object_handle memory_address memory_size scope",
    ),
    (
        "__intrinsic_android_network_packets",
        "id iface direction packet_transport packet_length packet_count socket_tag \
         socket_tag_str socket_uid local_port remote_port packet_icmp_type packet_icmp_code \
         packet_tcp_flags packet_tcp_flags_str",
    ),
    (
        "__intrinsic_v8_isolate",
        "id upid internal_isolate_id embedded_blob_code_start_address \
         embedded_blob_code_size code_range_base_address code_range_size \
         shared_code_range embedded_blob_code_copy_start_address",
    ),
    (
        "__intrinsic_v8_js_script",
        "id v8_isolate_id internal_script_id script_type name source",
    ),
    (
        "__intrinsic_v8_wasm_script",
        "id v8_isolate_id internal_script_id url wire_bytes_base64 source",
    ),
    (
        "__intrinsic_v8_js_function",
        "id name v8_js_script_id is_toplevel kind line col",
    ),
    (
        "__intrinsic_v8_js_code",
        "id jit_code_id v8_js_function_id tier bytecode_base64",
    ),
    (
        "__intrinsic_v8_internal_code",
        "id jit_code_id v8_isolate_id function_name code_type",
    ),
    (
        "__intrinsic_v8_wasm_code",
        "id jit_code_id v8_isolate_id v8_wasm_script_id function_name tier \
         code_offset_in_module",
    ),
    (
        "__intrinsic_v8_regexp_code",
        "id jit_code_id v8_isolate_id pattern",
    ),
    (
        "__intrinsic_wattson_curves_cpu_1d",
        "device policy freq_khz static active idle0 idle1",
    ),
    (
        "__intrinsic_wattson_curves_cpu_2d",
        "device policy freq_khz dep_policy dep_freq static active idle0 idle1 \
         interconnect",
    ),
    (
        "__intrinsic_wattson_curves_gpu",
        "device freq_khz active idle1 idle2",
    ),
    (
        "__intrinsic_wattson_curves_l3",
        "device freq_khz dep_policy dep_freq l3_hit l3_miss",
    ),
    (
        "__intrinsic_wattson_curves_tpu",
        "device cluster requests freq active",
    ),
    ("trace_metrics", "name"),
    ("instruments_sample", "id ts utid callsite_id cpu"),
];

/// The tables whose name without `__intrinsic_` exists, too.
const PUBLIC: &[&str] = &[
    "memory_snapshot",
    "process_memory_snapshot",
    "memory_snapshot_node",
    "memory_snapshot_edge",
    "android_dumpstate",
    "vulkan_memory_allocations",
    "experimental_missing_chrome_processes",
];

/// Returns the names of the tables with their columns, which are separated by spaces.
pub(crate) fn tables() -> impl Iterator<Item = (String, &'static str)> {
    TABLES.iter().flat_map(|(name, columns)| {
        let public = name.strip_prefix("__intrinsic_").unwrap_or_default();
        let public = Some(public).filter(|name| PUBLIC.contains(name));
        let names = [Some(*name), public].into_iter().flatten();
        names.map(|name| (name.to_owned(), *columns))
    })
}

/// Registers the tables.
pub(crate) fn register(connection: &Connection, relations: &Relations) -> Result<()> {
    for (name, columns) in TABLES {
        let columns = columns.split(' ').map(str::to_owned).collect();
        let empty: Arc<StoredRows> = Arc::default();
        let relation = Stored::new(columns, Vec::new(), move |_| Ok(empty.clone()));
        relations.register(connection, name, relation.clone())?;
        let public = name.strip_prefix("__intrinsic_").unwrap_or_default();
        if PUBLIC.contains(&public) {
            relations.register(connection, public, relation)?;
        }
    }
    Ok(())
}
