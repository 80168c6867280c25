//! Packets with malicious ids, parents and depths.

use std::fmt::Write as _;

use ferretto_tables::{Options, Stat, Trace};

use crate::common::encode;
use crate::hostile::confined::{confined, tables};

/// Returns the packets of a text, repeated.
fn repeated(text: &str, times: usize) -> Vec<u8> {
    encode(text).repeat(times)
}

#[test]
fn query_145_slices_a_hundred_thousand_deep_are_cut() {
    let test = || {
        let mut bytes = encode(
            "packet { timestamp: 1 trusted_packet_sequence_id: 1 sequence_flags: 1
                track_descriptor { uuid: 1 thread { pid: 1 tid: 1 } } }",
        );
        let begin = "packet { timestamp: 5 trusted_packet_sequence_id: 1
            track_event { type: TYPE_SLICE_BEGIN track_uuid: 1 name: \"a\" } }";
        bytes.extend(repeated(begin, 100_000));
        let trace = tables(&bytes);
        assert_eq!(trace.tables().slice.len(), 512);
        assert_eq!(trace.stat(Stat::slice_max_depth_exceeded), 99_488);
    };
    confined(
        "packets::query_145_slices_a_hundred_thousand_deep_are_cut",
        test,
    );
}

#[test]
fn query_145_many_open_slices_need_no_search() {
    let test = || {
        // Tracks with the same name are merged: each open slice takes a separate lane.
        let mut text = String::new();
        for uuid in 1..=20_000 {
            let _ = writeln!(
                text,
                "packet {{ timestamp: {uuid} trusted_packet_sequence_id: 1 sequence_flags: {} track_descriptor {{ uuid: {uuid} name: \"a\" }} }}
                packet {{ timestamp: {uuid} trusted_packet_sequence_id: 1 track_event {{ type: TYPE_SLICE_BEGIN track_uuid: {uuid} name: \"a\" }} }}",
                u32::from(uuid == 1),
            );
        }
        let trace = tables(&encode(&text));
        assert_eq!(trace.tables().slice.len(), 20_000);
    };
    confined("packets::query_145_many_open_slices_need_no_search", test);
}

#[test]
fn query_145_cycles_of_parent_tracks_are_refused() {
    let test = || {
        let mut text = String::new();
        for uuid in 1..=1000_u32 {
            let parent = uuid % 1000 + 1;
            let _ = writeln!(
                text,
                "packet {{ timestamp: 1 trusted_packet_sequence_id: 1 sequence_flags: {} track_descriptor {{ uuid: {uuid} parent_uuid: {parent} name: \"a\" }} }}",
                u32::from(uuid == 1),
            );
        }
        text.push_str(
            "packet { timestamp: 1 trusted_packet_sequence_id: 1 track_descriptor { uuid: 2000 parent_uuid: 2000 name: \"self\" } }",
        );
        for uuid in [1, 500, 2000] {
            let _ = writeln!(
                text,
                "packet {{ timestamp: 9 trusted_packet_sequence_id: 1 track_event {{ type: TYPE_INSTANT track_uuid: {uuid} name: \"a\" }} }}",
            );
        }
        let trace = tables(&encode(&text));
        assert_eq!(trace.tables().slice.len(), 0);
        assert!(trace.stat(Stat::track_event_track_hierarchy_loop) > 0);
    };
    confined(
        "packets::query_145_cycles_of_parent_tracks_are_refused",
        test,
    );
}

#[test]
fn query_145_cycles_of_parent_processes_are_kept() {
    let test = || {
        let trace = tables(&encode(
            "packet { timestamp: 1 process_tree { processes { pid: 5 ppid: 6 cmdline: \"a\" } processes { pid: 6 ppid: 5 cmdline: \"b\" }
                processes { pid: 7 ppid: 7 cmdline: \"c\" } processes { pid: -1 ppid: -1 nspid: -1 nspid: -1 } threads { tid: -1 tgid: -1 } threads { tid: 9 tgid: 9 } } }
             packet { timestamp: 2 process_tree { processes { pid: 5 ppid: 5 cmdline: \"a\" } } }",
        ));
        assert!(trace.tables().process.len() >= 4);
    };
    confined(
        "packets::query_145_cycles_of_parent_processes_are_kept",
        test,
    );
}

#[test]
fn query_145_the_largest_ids_and_times_are_accepted() {
    let test = || {
        const MOST: u64 = u64::MAX;
        let mut text = String::new();
        for (time, number) in [(MOST, MOST), (i64::MAX as u64, 1 << 63), (0, 0), (5, 1)] {
            let signed = number as i64;
            let small = number as i32;
            let half = number as u32;
            let _ = writeln!(
                text,
                r#"packet {{ timestamp: {time} trusted_packet_sequence_id: {half} sequence_flags: 1 timestamp_clock_id: {half} trusted_pid: {small} machine_id: {half} }}
                packet {{ clock_snapshot {{ clocks {{ clock_id: 6 timestamp: {time} }} clocks {{ clock_id: 64 timestamp: {number} is_incremental: true unit_multiplier_ns: {number} }} clocks {{ clock_id: {half} timestamp: {number} }} }} trusted_packet_sequence_id: {half} }}
                packet {{ timestamp: {time} trusted_packet_sequence_id: 1 sequence_flags: 1
                    interned_data {{ event_names {{ iid: {number} name: "n" }} event_categories {{ iid: {number} name: "c" }} function_names {{ iid: {number} str: "f" }}
                        mappings {{ iid: {number} start: {number} end: {number} load_bias: {number} exact_offset: {number} path_string_ids: {number} }}
                        frames {{ iid: {number} mapping_id: {number} function_name_id: {number} rel_pc: {number} }}
                        callstacks {{ iid: {number} frame_ids: {number} frame_ids: {number} }} }}
                    trace_packet_defaults {{ timestamp_clock_id: 6 track_event_defaults {{ track_uuid: {number} }} }} }}
                packet {{ timestamp: {time} trusted_packet_sequence_id: 1 track_descriptor {{ uuid: {number} parent_uuid: 0 name: "t" counter {{ is_incremental: true unit_multiplier: {signed} }} }} }}
                packet {{ timestamp: {time} trusted_packet_sequence_id: 1 track_event {{ type: TYPE_COUNTER track_uuid: {number} counter_value: {signed} }} }}
                packet {{ timestamp: {time} trusted_packet_sequence_id: 1 track_event {{ type: TYPE_COUNTER track_uuid: {number} counter_value: {signed} }} }}
                packet {{ timestamp: {time} trusted_packet_sequence_id: 1 track_event {{ type: TYPE_SLICE_BEGIN name_iid: {number} category_iids: {number} flow_ids: {number} terminating_flow_ids: {number} callstack_iid: {number}
                    debug_annotations {{ name: "a" uint_value: {number} }} debug_annotations {{ name: "p" pointer_value: {number} }} }} }}
                packet {{ timestamp: {time} trusted_packet_sequence_id: 1 track_event {{ legacy_event {{ name_iid: {number} phase: 88 duration_us: {signed} thread_duration_us: {signed} pid_override: {small} tid_override: {small} bind_id: {number} flow_direction: FLOW_IN unscoped_id: {number} }} timestamp_absolute_us: {signed} }} }}
                packet {{ timestamp: {time} trusted_packet_sequence_id: 1 track_event {{ timestamp_delta_us: {signed} type: TYPE_SLICE_END }} }}
                packet {{ timestamp: {time} trusted_packet_sequence_id: 1 perf_sample {{ cpu: {half} pid: {half} tid: {half} timebase_count: {number} callstack_iid: {number} }} }}
                packet {{ timestamp: {time} trusted_packet_sequence_id: 1 profile_packet {{ index: {number} process_dumps {{ pid: {number} timestamp: {number} samples {{ callstack_id: {number} self_allocated: {number} self_freed: {number} alloc_count: {number} free_count: {number} }} }} }} }}
                packet {{ timestamp: {time} sys_stats {{ meminfo {{ key: MEMINFO_MEM_TOTAL value: {number} }} cpu_stat {{ cpu_id: {half} user_ns: {number} }} cpufreq_khz: {half} num_irq {{ irq: {small} count: {number} }} disk_stat {{ device_name: "d" read_sectors: {number} write_sectors: {number} read_time_ms: {number} }} }} }}
                packet {{ timestamp: {time} process_stats {{ collection_end_timestamp: {number} processes {{ pid: {small} vm_rss_kb: {number} threads {{ tid: {small} }} }} }} }}
                packet {{ trusted_packet_sequence_id: 2 ftrace_events {{ cpu: {half} ftrace_clock: FTRACE_CLOCK_GLOBAL ftrace_timestamp: {signed} boot_timestamp: {signed}
                    event {{ timestamp: {time} pid: {half} sched_switch {{ prev_pid: {small} prev_state: {signed} next_pid: {small} next_prio: {small} }} }}
                    event {{ timestamp: {time} pid: {half} sched_waking {{ pid: {small} target_cpu: {small} }} }}
                    event {{ timestamp: {time} pid: {half} cpu_frequency {{ state: {half} cpu_id: {half} }} }}
                    event {{ timestamp: {time} pid: {half} sys_enter {{ id: {signed} }} }}
                    event {{ timestamp: {time} pid: {half} rss_stat {{ member: {small} size: {signed} curr: {half} mm_id: {half} }} }}
                    compact_sched {{ intern_table: "x" switch_timestamp: {time} switch_timestamp: {time} switch_prev_state: {signed} switch_prev_state: 0 switch_next_pid: {small} switch_next_pid: 1 switch_next_prio: 1 switch_next_prio: 1 switch_next_comm_index: {half} switch_next_comm_index: 0 }} }} }}"#,
            );
        }
        let bytes = encode(&text);
        tables(&bytes);
        for full_sort in [false, true] {
            let options = Options {
                full_sort,
                ..Options::default()
            };
            Trace::read(&bytes[..], &options).expect("tables");
        }
    };
    confined(
        "packets::query_145_the_largest_ids_and_times_are_accepted",
        test,
    );
}

#[test]
fn query_145_callstacks_of_any_depth_are_cut() {
    let test = || {
        let head = "packet { trusted_packet_sequence_id: 1 sequence_flags: 1 interned_data {
            function_names { iid: 1 str: \"f\" } mappings { iid: 1 start: 0 end: 9 } frames { iid: 1 function_name_id: 1 mapping_id: 1 }
            callstacks { iid: 1 ";
        let mut text = head.to_owned();
        text.push_str(&"frame_ids: 1 ".repeat(100_000));
        text.push_str("} callstacks { iid: 2 ");
        text.push_str(&"frame_ids: 1 ".repeat(2048));
        text.push_str("} callstacks { iid: 3 ");
        text.push_str(&"frame_ids: 1 ".repeat(2049));
        text.push_str("} } }");
        let mut bytes = encode(&text);
        // The same callstack in each of many processes.
        let mut samples = String::new();
        for pid in 1..5000 {
            let _ = write!(
                samples,
                "packet {{ timestamp: 5 trusted_packet_sequence_id: 1 perf_sample {{ cpu: 0 pid: {pid} tid: {pid} callstack_iid: 1 }} }}
                packet {{ timestamp: 5 trusted_packet_sequence_id: 1 perf_sample {{ cpu: 0 pid: {pid} tid: {pid} callstack_iid: 2 }} }}
                packet {{ timestamp: 5 trusted_packet_sequence_id: 1 perf_sample {{ cpu: 0 pid: {pid} tid: {pid} callstack_iid: 3 }} }}"
            );
        }
        bytes.extend(encode(&samples));
        let trace = tables(&bytes);
        assert!(trace.stat(Stat::stackprofile_parser_error) >= 2 * 4999);
        assert_eq!(trace.tables().profiler_sample.len(), 3 * 4999);
    };
    confined("packets::query_145_callstacks_of_any_depth_are_cut", test);
}

#[test]
fn query_145_arguments_of_any_depth_are_cut() {
    let test = || {
        // Each level refers to the same long text by its id, so that the key of an argument becomes
        // as long as no text in the file.
        let long = "x".repeat(100_000);
        let mut value = encode_annotation_list(10_000);
        for _ in 0..60 {
            value = nested(&value);
        }
        let mut bytes = encode(&format!(
            "packet {{ trusted_packet_sequence_id: 1 sequence_flags: 1 interned_data {{ debug_annotation_names {{ iid: 1 name: \"{long}\" }} }} }}"
        ));
        // `debug_annotations` of `TrackEvent`, `track_event` of `TracePacket`.
        let mut event = Vec::new();
        event.extend([0x48, 3]);
        event.extend(field(4, &value));
        let mut packet = vec![0x40, 5, 0x50, 1];
        packet.extend(field(11, &event));
        bytes.extend(field(1, &packet));
        let trace = tables(&bytes);
        assert_eq!(trace.tables().slice.len(), 1);
        assert!(trace.stat(Stat::track_event_parser_errors) > 0);
    };
    confined("packets::query_145_arguments_of_any_depth_are_cut", test);
}

fn field(number: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for mut value in [u64::from(number) << 3 | 2, content.len() as u64] {
        while value >= 0x80 {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
    }
    bytes.extend_from_slice(content);
    bytes
}

/// Encodes a `DebugAnnotation` with name id 1 that is an array of numbers.
fn encode_annotation_list(length: usize) -> Vec<u8> {
    let mut annotation = vec![0x08, 1];
    for _ in 0..length {
        annotation.extend(field(12, &[0x20, 1]));
    }
    annotation
}

/// Encodes a `DebugAnnotation` with name id 1 and one member.
fn nested(inner: &[u8]) -> Vec<u8> {
    let mut annotation = vec![0x08, 1];
    annotation.extend(field(11, inner));
    annotation
}

#[test]
fn query_145_tables_stay_within_their_memory_limit() {
    let test = || {
        // No event can be parsed before the end of the file.
        let event = "packet { timestamp: 5 trusted_packet_sequence_id: 1 sequence_flags: 1
            track_event { type: TYPE_INSTANT name: \"a\" } }";
        let bytes = repeated(event, 1_000_000);
        let options = Options {
            threads: 1,
            full_sort: true,
            memory: 16 << 20,
            ..Options::default()
        };
        let trace = Trace::read(&bytes[..], &options).expect("tables");
        assert!(trace.memory() < 32 << 20, "{}", trace.memory());
        let is_reported = trace
            .remarks()
            .iter()
            .any(|text| text.contains("more than the limit of"));
        assert!(is_reported, "{:?}", trace.remarks());
    };
    confined(
        "packets::query_145_tables_stay_within_their_memory_limit",
        test,
    );
}
