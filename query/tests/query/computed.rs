//! Modules and functions over traces with their data.

use crate::common::{TRACE, over};

/// Thread 11 runs on CPU 0 at 1 MHz and then 2 MHz, followed by thread 12.
const CPU: &str = r#"
packet { trusted_packet_sequence_id: 1 timestamp: 1
  track_descriptor { uuid: 2 thread { pid: 10 tid: 11 thread_name: "worker" } } }
packet { trusted_packet_sequence_id: 1 timestamp: 1000000
  track_event { track_uuid: 2 type: TYPE_SLICE_BEGIN name: "work" } }
packet { trusted_packet_sequence_id: 1 timestamp: 3000000
  track_event { track_uuid: 2 type: TYPE_SLICE_END } }
packet { trusted_packet_sequence_id: 2 ftrace_events { cpu: 0
  event { timestamp: 1000000 pid: 0 cpu_frequency { state: 1000 cpu_id: 0 } }
  event { timestamp: 1000000 pid: 0 sched_switch { prev_comm: "swapper" prev_pid: 0 prev_prio: 120
    prev_state: 0 next_comm: "worker" next_pid: 11 next_prio: 120 } }
  event { timestamp: 2000000 pid: 11 cpu_frequency { state: 2000 cpu_id: 0 } }
  event { timestamp: 4000000 pid: 11 sched_switch { prev_comm: "worker" prev_pid: 11 prev_prio: 120
    prev_state: 1 next_comm: "other" next_pid: 12 next_prio: 120 } }
  event { timestamp: 5000000 pid: 12 sched_switch { prev_comm: "other" prev_pid: 12 prev_prio: 120
    prev_state: 1 next_comm: "swapper" next_pid: 0 next_prio: 120 } } } }
"#;

#[test]
fn cycles_are_computed_from_time_and_frequency() {
    let mut s = over(CPU);
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE linux.cpu.utilization.thread;
             SELECT t.name, c.millicycles, c.runtime, c.min_freq, c.max_freq, c.avg_freq
             FROM cpu_cycles_per_thread c JOIN thread t USING (utid) ORDER BY t.name"
        ),
        [
            "\"other\",2000000,1000000,2000,2000,2000",
            "\"worker\",5000000,3000000,1000,2000,1666"
        ]
    );
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE linux.cpu.utilization.system;
             SELECT millicycles, runtime FROM cpu_cycles_in_interval(1000000, 1500000)"
        ),
        ["2000000,1500000"]
    );
    assert_eq!(
        s.rows("SELECT awake_dur, awake_utilization FROM cpu_utilization_in_interval(0, 2000000)"),
        ["1000000,0.500000"]
    );
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE linux.cpu.utilization.slice;
             SELECT name, millicycles FROM cpu_cycles_per_thread_slice"
        ),
        ["\"work\",3000000"]
    );
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE linux.cpu.utilization.thread_cpu;
             SELECT cpu, sum(runtime) FROM cpu_cycles_per_thread_per_cpu GROUP BY cpu"
        ),
        ["0,4000000"]
    );
}

#[test]
fn slices_spend_time_in_states_of_their_thread() {
    let mut s = over(CPU);
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE slices.time_in_state;
             SELECT name, thread_name, state, dur FROM thread_slice_time_in_state"
        ),
        ["\"work\",\"worker\",\"Running\",2000000"]
    );
}

#[test]
fn query_081_to_ftrace_has_the_kernels_format() {
    let mut s = over(CPU);
    assert_eq!(
        s.rows(
            "SELECT to_ftrace(id) FROM ftrace_event WHERE name = 'sched_switch' AND ts = 4000000"
        ),
        [
            "\"          worker-11    (   10) [000] .... 0.004000: sched_switch: prev_comm=worker \
             prev_pid=11 prev_prio=120 prev_state=S ==> next_comm=other next_pid=12 next_prio=120\""
        ]
    );
    assert_eq!(
        s.rows(
            "SELECT to_ftrace(id) FROM ftrace_event WHERE name = 'cpu_frequency' AND ts = 1000000"
        ),
        [
            "\"          <idle>-0     (-----) [000] .... 0.001000: cpu_frequency: state=1000 cpu_id=0\""
        ]
    );
    assert_eq!(s.value("to_ftrace(99)"), "\"[NULL]\"");
}

#[test]
fn equal_stacks_of_slices_have_equal_ids() {
    let mut s = over(TRACE);
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE slices.stack;
             SELECT c.name, c.parent_stack_id = p.stack_id FROM slice_with_stack_id c
             JOIN slice_with_stack_id p ON c.parent_id = p.id ORDER BY c.id"
        ),
        ["\"inner\",1", "\"innermost\",1"]
    );
    // The hash of the list of the hashes of `category|name`, as `hash` computes it.
    assert_eq!(
        s.rows(
            "SELECT stack_id = hash(hash('|inner') || '|' || hash('a|outer'))
             FROM slice_with_stack_id WHERE name = 'inner'"
        ),
        ["1"]
    );
    assert_eq!(
        s.rows(
            "SELECT name FROM ancestor_slice_by_stack((
               SELECT stack_id FROM slice_with_stack_id WHERE name = 'innermost'))"
        ),
        ["\"outer\"", "\"inner\"", "\"innermost\""]
    );
    assert_eq!(
        s.rows(
            "SELECT name FROM descendant_slice_by_stack((
               SELECT stack_id FROM slice_with_stack_id WHERE name = 'inner'))"
        ),
        ["\"inner\"", "\"innermost\""]
    );
}

#[test]
fn slices_are_flattened() {
    let mut s = over(TRACE);
    let flat = [
        "1000,10,\"outer\"",
        "1010,10,\"inner\"",
        "1020,10,\"innermost\"",
        "1030,20,\"inner\"",
        "1050,50,\"outer\"",
        "1300,30,\"later\"",
    ];
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE slices.flat_slices;
             SELECT ts, dur, name FROM _slice_flattened ORDER BY ts"
        ),
        flat
    );
    assert_eq!(
        s.rows(
            "SELECT ts, dur, name FROM experimental_flat_slice(1000, 1400)
             WHERE name IS NOT NULL ORDER BY ts"
        ),
        flat
    );
    assert_eq!(
        s.rows(
            "SELECT f.ts, f.dur FROM experimental_flat_slice(1090, 1400) f
             JOIN slice s ON f.track_id = s.track_id AND s.name = 'outer'
             WHERE f.name IS NULL"
        ),
        ["1100,300"]
    );
}

#[test]
fn slices_of_several_tracks_are_laid_out() {
    let mut s = over(TRACE);
    assert_eq!(
        s.rows(
            "SELECT s.name, l.layout_depth FROM experimental_slice_layout(
               (SELECT group_concat(DISTINCT track_id) FROM slice)) l
             JOIN slice s USING (id) ORDER BY s.id"
        ),
        [
            "\"outer\",0",
            "\"inner\",1",
            "\"innermost\",2",
            "\"later\",0"
        ]
    );
}

#[test]
fn slice_hierarchies_have_ancestors_and_new_parents() {
    let mut s = over(TRACE);
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE slices.hierarchy;
             SELECT name FROM _slice_ancestor_and_self((SELECT id FROM slice WHERE name = 'inner'))"
        ),
        ["\"inner\"", "\"outer\""]
    );
    assert_eq!(
        s.rows(
            "SELECT name, parent_id FROM _slice_remove_nulls_and_reparent!(
               (SELECT id, parent_id, depth, iif(name = 'inner', NULL, name) AS name FROM slice),
               name)"
        ),
        [
            "\"outer\",\"[NULL]\"",
            "\"innermost\",0",
            "\"later\",\"[NULL]\""
        ]
    );
    assert_eq!(
        s.rows("SELECT slice_is_ancestor(0, 2), slice_is_ancestor(2, 0), slice_is_ancestor(0, 99)"),
        ["1,0,\"[NULL]\""]
    );
    assert_eq!(
        s.rows(
            "SELECT a.name, b.name FROM slice a JOIN slice b
             WHERE slice_is_ancestor(a.id, b.id) ORDER BY a.id, b.id"
        )
        .len(),
        3
    );
}

#[test]
fn argument_sets_are_json_objects() {
    let mut s = over(TRACE);
    assert_eq!(
        s.rows("SELECT __intrinsic_arg_set_to_json(arg_set_id) FROM slice WHERE name = 'outer'"),
        [
            "\"{\"debug\":{\"flag\":true,\"number\":7,\"big\":18446744073709551615,\
             \"place\":\"0xff\",\"text\":\"hello\"}}\""
        ]
    );
}

/// A job of a GPU, a GPU frequency, and a thread that joins a cgroup.
const GPU: &str = r#"
packet { trusted_packet_sequence_id: 1 ftrace_events { cpu: 0
  event { timestamp: 10 pid: 5 drm_sched_job_queue { name: "gfx" fence_context: 4 fence_seqno: 9 } }
  event { timestamp: 12 pid: 7 drm_sched_job_run { name: "gfx" fence_context: 4 fence_seqno: 9 } }
  event { timestamp: 19 pid: 0 drm_sched_job_done { fence_context: 4 fence_seqno: 9 } }
  event { timestamp: 20 pid: 0 gpu_frequency { gpu_id: 1 state: 300000 } }
  event { timestamp: 21 pid: 0 cgroup_attach_task { dst_root: 1 dst_id: 2 pid: 3 comm: "a" dst_level: 4 dst_path: "/b" } } } }
"#;

#[test]
fn gpus_have_tracks_and_counters() {
    let mut s = over(GPU);
    assert_eq!(
        s.rows(
            "SELECT t.name, s.name, s.ts, s.dur FROM gpu_track t JOIN slice s ON s.track_id = t.id"
        ),
        ["\"sched-gfx\",\"job\",12,7"]
    );
    assert_eq!(
        s.rows(
            "SELECT t.name, t.unit, g.gpu, t.gpu_id, c.value FROM counter c
             JOIN gpu_counter_track t ON c.track_id = t.id JOIN gpu g ON g.ugpu = t.ugpu"
        ),
        ["\"gpufreq\",\"kHz\",1,1,300000.000000"]
    );
    let line = s.rows("SELECT to_ftrace(id) FROM ftrace_event WHERE name = 'cgroup_attach_task'");
    assert!(line[0].contains("dst_root=1 dst_id=2 dst_level=4 dst_path=/b pid=3 comm=a"));
}

#[test]
fn cpus_have_the_kind_of_their_cluster() {
    let mut s = over(
        r#"packet { cpu_info { cpus { processor: "p" capacity: 158 }
             cpus { processor: "p" capacity: 158 } cpus { processor: "p" capacity: 700 }
             cpus { processor: "p" capacity: 1024 } } }"#,
    );
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE android.cpu.cluster_type;
             SELECT cpu, cluster_type FROM android_cpu_cluster_mapping ORDER BY cpu"
        ),
        ["0,\"little\"", "1,\"little\"", "2,\"medium\"", "3,\"big\""]
    );
}

/// A clock changes its rate, and the machine is suspended in between.
const POWER: &str = r#"
packet { trusted_packet_sequence_id: 2 ftrace_events { cpu: 0
  event { timestamp: 1000 pid: 1 clock_set_rate { name: "bus_throughput" state: 100 cpu_id: 0 } }
  event { timestamp: 2000 pid: 1
    suspend_resume { action: "timekeeping_freeze" val: 4 start: 1 } }
  event { timestamp: 3000 pid: 1
    suspend_resume { action: "timekeeping_freeze" val: 4 start: 0 } }
  event { timestamp: 4000 pid: 1 clock_set_rate { name: "bus_throughput" state: 300 cpu_id: 0 } }
  event { timestamp: 5000 pid: 1 clock_set_rate { name: "bus_throughput" state: 300 cpu_id: 0 } }
} }
"#;

#[test]
fn dvfs_statistics_have_the_time_at_each_rate() {
    let mut s = over(POWER);
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE android.dvfs;
             SELECT * FROM android_dvfs_counter_residency"
        ),
        [
            "\"bus_throughput Frequency\",100.000000,3000,75.000000",
            "\"bus_throughput Frequency\",300.000000,1000,25.000000"
        ]
    );
    assert_eq!(
        s.rows("SELECT max, min, dur, wgt_avg FROM android_dvfs_counter_stats"),
        ["300.000000,100.000000,3000,150.000000"]
    );
}

#[test]
fn suspend_states_alternate_with_awake_ones() {
    let mut s = over(POWER);
    assert_eq!(
        s.rows(
            "INCLUDE PERFETTO MODULE android.suspend;
             SELECT ts, dur, power_state, machine_id FROM android_suspend_state"
        ),
        [
            "1000,1000,\"awake\",0",
            "2000,1000,\"suspended\",0",
            "3000,2000,\"awake\",0"
        ]
    );
}
