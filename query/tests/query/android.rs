//! Modules of Android.

use crate::common::{Session, over};

/// Events of ftrace as a trace.
fn ftrace(events: &str) -> Session {
    over(&format!(
        "packet {{ process_tree {{ processes {{ pid: 7 ppid: 1 cmdline: \"app\" }} }} }}
         packet {{ trusted_packet_sequence_id: 2 ftrace_events {{ cpu: 0 {events} }} }}"
    ))
}

/// Returns an event that an atrace program wrote.
fn print(ts: i64, text: &str) -> String {
    let text = text.replace('"', "\\\"");
    format!("event {{ timestamp: {ts} pid: 7 print {{ buf: \"{text}\\n\" }} }}")
}

#[test]
fn the_states_and_events_of_battery_stats_have_durations() {
    let mut s = ftrace(
        &[
            print(100, "C|7|battery_stats.phone_state|2"),
            print(130, "C|7|battery_stats.phone_state|9"),
            print(140, "C|7|battery_stats.unheard_of|4"),
            print(150, "N|7|battery_stats.fg|+fg=12:\"one\""),
            print(180, "N|7|battery_stats.fg|-fg=12:\"one\""),
            print(190, "N|7|battery_stats.fg|-fg=13:\"two\""),
        ]
        .concat(),
    );
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE android.battery_stats;
             SELECT ts, dur, safe_dur, value, value_name FROM android_battery_stats_state
             ORDER BY ts"
        ),
        [
            "100,30,30,2,\"emergency\"",
            "130,-1,60,9,\"unknown\"",
            "140,-1,50,4,\"4.0\"",
        ]
    );
    assert_eq!(
        s.rows(
            "SELECT ts, dur, safe_dur, track_name, str_value, int_value
             FROM android_battery_stats_event_slices ORDER BY int_value"
        ),
        [
            "150,30,30,\"battery_stats.fg\",\"one\",12",
            "100,90,90,\"battery_stats.fg\",\"two\",13",
        ]
    );
    assert_eq!(
        s.value("android_battery_stats_counter_to_string('battery_stats.wifi', 1)"),
        "\"on\""
    );
}

#[test]
fn killed_processes_have_their_reason_and_score() {
    let mut s = ftrace(
        &[
            "event { timestamp: 10 pid: 1 oom_score_adj_update { oom_score_adj: 250 pid: 7 } }"
                .to_owned(),
            print(20, "C|7|kill_one_process|7"),
            print(40, "C|7|later|1"),
        ]
        .concat(),
    );
    let kills = "INCLUDE PERFETTO MODULE android.memory.lmk;
        SELECT ts, pid, process_name, oom_score_adj, kill_reason FROM android_lmk_events";
    assert_eq!(s.rows(kills), ["20,7,\"app\",250,\"UNKNOWN\""]);
    assert_eq!(
        s.rows("SELECT ts, score, bucket, process_name FROM android_oom_adj_intervals"),
        ["10,250,\"background\",\"app\""]
    );
    // Instants of the killer replace the counter.
    let mut s = ftrace(
        &[
            print(20, "C|7|kill_one_process|7"),
            print(30, "N|7|lowmemorykiller|lmk,7,8,900"),
        ]
        .concat(),
    );
    assert_eq!(s.rows(kills), ["30,7,\"app\",900,\"LOW_MEM\""]);
}

#[test]
fn dma_buffers_are_released_by_their_thread() {
    let change = |ts: i64, pid: i64, len: i64| {
        format!(
            "event {{ timestamp: {ts} pid: {pid} dma_heap_stat {{ inode: 5 len: {len} total_allocated: 0 }} }}"
        )
    };
    let mut s = ftrace(&[change(10, 7, 400), change(20, 99, -400)].concat());
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE android.memory.dmabuf;
             SELECT ts, buf_size, inode, tid, pid, process_name FROM android_dmabuf_allocs"
        ),
        ["10,400,5,7,7,\"app\"", "20,-400,5,7,7,\"app\""]
    );
    assert_eq!(
        s.rows("SELECT ts, value, process_name FROM android_memory_cumulative_dmabuf"),
        ["10,400,\"app\"", "20,0,\"app\""]
    );
}

#[test]
fn network_interfaces_stay_up_after_packets() {
    let mut s = Session::new();
    s.csv(
        "INCLUDE PERFETTO MODULE android.network_packets;
         CREATE PERFETTO TABLE events AS
         SELECT column1 AS id, column2 AS ts, column3 AS dur, column4 AS net,
           column5 AS packet_count, column6 AS packet_length
         FROM (VALUES (1, 100, 0, 'a', 1, 10), (2, 104, 6, 'a', 3, 30), (3, 108, 4, 'a', 1, 20),
           (4, 200, 0, 'a', 1, 1), (5, 100, 0, 'b', 1, 2))",
    )
    .expect("events");
    assert_eq!(
        s.rows("SELECT * FROM android_network_uptime_spans!(events, (net), 5) ORDER BY net, ts"),
        ["\"a\",100,17,5,60", "\"a\",200,5,1,1", "\"b\",100,5,1,2"]
    );
    assert_eq!(
        s.rows("SELECT * FROM android_network_uptime_cost!(events, (net), 5) ORDER BY id"),
        ["1,5", "2,10", "3,2", "4,5", "5,5"]
    );
}

#[test]
fn batteries_rails_and_entities_have_tables() {
    let mut s = over(
        r#"
packet { timestamp: 10 battery { charge_counter_uah: 70 current_ua: -5 voltage_uv: 9 } }
packet { timestamp: 1 power_rails { rail_descriptor { index: 1 rail_name: "S2S_VDD_G3D"
  subsys_name: "gpu" sampling_rate: 10 } } }
packet { timestamp: 2000000 power_rails { energy_data { index: 1 timestamp_ms: 2 energy: 100 } } }
packet { timestamp: 4000000 power_rails { energy_data { index: 1 timestamp_ms: 4 energy: 300 } } }
packet { timestamp: 30 system_info { android_build_fingerprint: "maker/device/name:1/X/2:user" } }
packet { timestamp: 1000000 entity_state_residency {
  power_entity_state { entity_index: 0 state_index: 1 entity_name: "radio" state_name: "off" }
  residency { entity_index: 0 state_index: 1 total_time_in_state_ms: 3 } } }
packet { timestamp: 3000000 entity_state_residency {
  residency { entity_index: 0 state_index: 1 total_time_in_state_ms: 4 } } }
"#,
    );
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE android.battery;
             SELECT ts, charge_uah, current_ua, voltage_uv, capacity_percent
             FROM android_battery_charge"
        ),
        ["10,70.000000,-5.000000,9.000000,\"[NULL]\""]
    );
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE android.power_rails;
             SELECT power_rail_name, raw_power_rail_name, friendly_name, subsystem_name
             FROM android_power_rails_metadata"
        ),
        ["\"power.rails.gpu\",\"S2S_VDD_G3D\",\"gpu\",\"gpu\""]
    );
    assert_eq!(
        s.rows(
            "SELECT energy_since_boot, energy_since_boot_at_end, average_power
             FROM android_power_rails_counters ORDER BY ts LIMIT 1"
        ),
        ["100.000000,300.000000,100.000000"]
    );
    assert_eq!(
        s.rows("INCLUDE PERFETTO MODULE android.device; SELECT name FROM android_device_name"),
        ["\"name\""]
    );
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE android.entity_state_residency;
             SELECT ts, dur, entity_name, state_name, state_time_since_boot, state_time_ratio
             FROM android_entity_state_residency ORDER BY ts"
        ),
        [
            "1000000,2000000,\"radio\",\"off\",3000000,0.500000",
            "3000000,\"[NULL]\",\"radio\",\"off\",4000000,\"[NULL]\"",
        ]
    );
}

#[test]
fn the_memory_of_processes_is_shown_without_that_of_their_zygote() {
    let mut s = over(
        r#"
packet { timestamp: 1 process_tree { processes { pid: 20 ppid: 1 cmdline: "zygote" }
  processes { pid: 21 ppid: 20 cmdline: "forked" } processes { pid: 22 ppid: 1 cmdline: "other" } } }
packet { timestamp: 100 process_stats { processes { pid: 20 rss_anon_kb: 10 }
  processes { pid: 21 rss_anon_kb: 25 } processes { pid: 22 rss_anon_kb: 30 } } }
packet { timestamp: 300 process_stats { processes { pid: 20 rss_anon_kb: 20 }
  processes { pid: 21 rss_anon_kb: 9 } processes { pid: 22 rss_anon_kb: 40 } } }
packet { timestamp: 400 process_stats { processes { pid: 22 rss_anon_kb: 50 } } }
"#,
    );
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE android.memory.memory_breakdown;
             SELECT process_name, ts, dur, value / 1024, zygote_adjusted_value / 1024
             FROM android_process_memory_intervals ORDER BY process_name, ts"
        ),
        [
            "\"forked\",100,200,25,10",
            "\"forked\",300,100,9,0",
            "\"other\",100,200,30,30",
            "\"other\",300,100,40,40",
            "\"zygote\",100,200,10,10",
            "\"zygote\",300,100,20,20",
        ]
    );
    assert_eq!(
        s.rows("SELECT DISTINCT bucket FROM android_process_memory_intervals_by_oom_bucket"),
        ["\"unknown\""]
    );
}

#[test]
fn gpus_and_cameras_have_tables() {
    let mut s = ftrace(
        &[
            "event { timestamp: 10 pid: 7 gpu_frequency { gpu_id: 3 state: 500 } }".to_owned(),
            "event { timestamp: 30 pid: 7 gpu_frequency { gpu_id: 3 state: 0 } }".to_owned(),
            "event { timestamp: 20 pid: 7 gpu_mem_total { gpu_id: 0 pid: 7 size: 64 } }".to_owned(),
            print(30, "B|7|cam2_sharpen:out (frame 5)"),
            print(50, "E|7"),
        ]
        .concat(),
    );
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE android.gpu.frequency;
             SELECT ts, dur, gpu_id, gpu_freq, prev_gpu_freq, next_gpu_freq
             FROM android_gpu_frequency"
        ),
        ["10,20,3,500,\"[NULL]\",0", "30,20,3,0,500,\"[NULL]\""]
    );
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE android.gpu.memory;
             SELECT ts, dur, gpu_memory FROM android_gpu_memory_per_process"
        ),
        ["20,30,64"]
    );
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE pixel.camera;
             SELECT ts, dur, node, port_group, frame_number, cam_id FROM pixel_camera_frames"
        ),
        ["30,20,\"sharpen\",\"out\",5,2"]
    );
}

#[test]
fn interactions_with_latency_have_a_state() {
    let mut s = ftrace(
        &[
            print(10, "S|7|L<OPEN>|1"),
            print(40, "F|7|L<OPEN>|1"),
            print(50, "S|7|L<CLOSE>|2"),
            print(60, "N|7|L<CLOSE>|cancel"),
            print(70, "F|7|L<CLOSE>|2"),
        ]
        .concat(),
    );
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE android.cujs.sysui_cujs;
             SELECT cuj_id, process_name, cuj_name, ts, dur, state FROM android_sysui_latency_cujs"
        ),
        [
            "1,\"app\",\"OPEN\",10,30,\"completed\"",
            "2,\"app\",\"CLOSE\",50,20,\"canceled\""
        ]
    );
}

/// A trace of Android, with a packet that is not imported.
const ANDROID: &str = r#"
    packet { system_info { android_build_fingerprint: "maker/board:14/X/1:user/keys" } }
    packet { timestamp: 5 pixel_modem_events { } }
    packet { timestamp: 9 pixel_modem_events { } }"#;

#[test]
fn modules_without_an_importer_are_empty_and_say_so() {
    let mut s = over(ANDROID);
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE android.startup.startups;
             INCLUDE PERFETTO MODULE wattson.windows;
             SELECT count() FROM android_startups;
             SELECT count() FROM wattson_window_markers"
        ),
        ["0", "", "\"count()\"", "0"]
    );
    let remarks = s.0.remarks();
    let names = ["'android.startup.startups'", "'wattson.windows'"];
    assert_eq!(remarks.len(), names.len(), "{remarks:?}");
    for (remark, name) in remarks.iter().zip(names) {
        assert!(remark.contains(name), "{remark}");
    }
    assert_eq!(s.0.remarks(), Vec::<String>::new());
    // The index is the number of the field `pixel_modem_events`.
    assert_eq!(
        s.rows("SELECT idx, value, severity FROM stats WHERE name = 'packets_not_imported'"),
        ["110,2,\"info\""]
    );
}

#[test]
fn traces_without_the_events_of_a_module_cause_no_remarks() {
    let mut s = Session::new();
    s.rows(
        "INCLUDE PERFETTO MODULE android.startup.startups;
         SELECT count() FROM android_startups",
    );
    assert_eq!(s.0.remarks(), Vec::<String>::new());
    assert_eq!(
        s.value("(SELECT count() FROM stats WHERE name = 'packets_not_imported')"),
        "0"
    );
}

#[test]
fn cpu_times_of_users_have_ratios() {
    let mut session = over(
        "packet { trusted_packet_sequence_id: 1 timestamp: 1000000 packages_list {
           packages { name: \"app\" uid: 10001 } } }
         packet { trusted_packet_sequence_id: 1 timestamp: 1000000 cpu_per_uid_data {
           cluster_count: 1 uid: 1010001 total_time_ms: 50 } }
         packet { trusted_packet_sequence_id: 1 timestamp: 11000000 cpu_per_uid_data {
           uid: 1010001 total_time_ms: 5 } }",
    );
    session.rows("INCLUDE PERFETTO MODULE android.cpu.cpu_per_uid");
    assert_eq!(
        session.rows(
            "SELECT uid, cluster, total_cpu_millis, package_name FROM android_cpu_per_uid_track"
        ),
        ["1010001,0,5,\"app\""]
    );
    assert_eq!(
        session.rows("SELECT ts, dur, diff_ms, cpu_ratio FROM android_cpu_per_uid_counter"),
        ["1000000,10000000,5.000000,0.500000"]
    );
}

#[test]
fn wake_locks_are_held_for_a_share_of_the_time_awake() {
    let mut session = over(
        "packet { trusted_packet_sequence_id: 1 timestamp: 0 kernel_wakelock_data {
           wakelock { wakelock_id: 1 wakelock_name: \"net\" wakelock_type: WAKELOCK_TYPE_KERNEL }
           wakelock_id: 1 time_held_millis: 5 } }
         packet { trusted_packet_sequence_id: 2 ftrace_events { cpu: 0
           event { timestamp: 4000000 pid: 1 suspend_resume_minimal { start: 1 } }
           event { timestamp: 8000000 pid: 1 suspend_resume_minimal { start: 0 } } } }
         packet { trusted_packet_sequence_id: 1 timestamp: 10000000 kernel_wakelock_data {
           wakelock_id: 1 time_held_millis: 3 } }",
    );
    session.rows("INCLUDE PERFETTO MODULE android.kernel_wakelocks");
    assert_eq!(
        session.rows("SELECT * FROM android_kernel_wakelocks"),
        ["0,10000000,6000000,\"net\",\"kernel\",3000000,0.500000"]
    );
}

#[test]
fn layers_have_paths_to_their_ancestors() {
    use ferretto_proto::fields::android::{
        frameworks_native_winscope_trace_packet as packet, layer_proto, layers_proto,
        layers_snapshot_proto,
    };
    use ferretto_proto::fields::{trace, trace_packet};
    let layers = [
        (3, 0, ""),
        (4, 3, "child"),
        (5, 4, "grandchild"),
        (-2, -2, "own"),
    ];
    let bytes = ferretto_wire::encode(|out| {
        out.nested(trace::PACKET, |out| {
            out.int(trace_packet::TIMESTAMP, 10);
            out.nested(packet::SURFACEFLINGER_LAYERS_SNAPSHOT, |out| {
                out.nested(layers_snapshot_proto::LAYERS, |out| {
                    for (id, parent, name) in layers {
                        out.nested(layers_proto::LAYERS, |out| {
                            out.int(layer_proto::ID, id);
                            out.int(layer_proto::PARENT, parent);
                            out.string(layer_proto::NAME, name);
                        });
                    }
                });
            });
        });
    });
    let trace = ferretto_tables::Trace::read(&bytes[..], &ferretto_tables::Options::default());
    let mut s = Session::of(&std::sync::Arc::new(trace.expect("a trace")));
    assert_eq!(
        s.rows("SELECT layer_id, layer_name, is_visible FROM surfaceflinger_layer"),
        [
            "3,\"\",0",
            "4,\"child\",0",
            "5,\"grandchild\",0",
            "-2,\"own\",0"
        ]
    );
    assert_eq!(
        s.rows("SELECT * FROM __intrinsic_winscope_surfaceflinger_hierarchy_path()"),
        [
            "0,0,3,3",
            "1,0,4,3",
            "2,0,4,4",
            "3,0,5,3",
            "4,0,5,4",
            "5,0,5,5",
            "6,0,4294967294,4294967294"
        ]
    );
    for (module, views) in [
        ("android.winscope.rect", "android_winscope_trace_rect"),
        (
            "android.winscope.surfaceflinger",
            "android_surfaceflinger_transaction",
        ),
        (
            "android.winscope.transitions",
            "android_window_manager_shell_transition_protos",
        ),
        ("android.winscope.viewcapture", "android_viewcapture_view"),
        (
            "android.winscope.windowmanager",
            "android_windowmanager_windowcontainer",
        ),
        (
            "android.winscope.inputmethod",
            "android_inputmethod_clients",
        ),
        ("android.input", "android_key_events"),
    ] {
        let sql = format!("INCLUDE PERFETTO MODULE {module}; SELECT count(*) FROM {views}");
        assert_eq!(s.rows(&sql), ["0"], "{module}");
    }
}

#[test]
fn names_of_gpu_objects_that_have_none_are_null() {
    let mut s = over(
        "packet { timestamp: 5 trusted_packet_sequence_id: 1
            gpu_render_stage_event { event_id: 1 duration: 3 render_target_handle: 9 } }",
    );
    assert_eq!(
        s.rows("SELECT dur, render_target, render_target_name, render_subpasses FROM gpu_slice"),
        ["3,9,\"[NULL]\",\"[NULL]\""]
    );
}
