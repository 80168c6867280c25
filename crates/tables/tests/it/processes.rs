//! Threads and processes, from process trees and kernel events.

use crate::common::{args, import, rows};

fn ftrace(events: &str) -> String {
    format!("packet {{ ftrace_events {{ cpu: 0 {events} }} }}")
}

#[test]
fn query_059_new_tasks_are_processes_or_threads() {
    let trace = import(&format!(
        "packet {{ timestamp: 1 process_tree {{ processes {{ pid: 10 ppid: 1 cmdline: \"a\" }} }} }} {}",
        ftrace(
            "event { timestamp: 100 pid: 10 task_newtask { pid: 20 comm: \"child\" clone_flags: 0 } }
             event { timestamp: 200 pid: 10 task_newtask { pid: 11 comm: \"t\" clone_flags: 0x10000 } }"
        )
    ));
    let processes = rows(&trace, "process", "pid name start_ts parent_upid");
    assert_eq!(
        processes,
        [
            "0 NULL NULL NULL",
            "1 NULL NULL NULL",
            "10 a NULL 1",
            "20 child 100 2"
        ]
    );
    let threads = rows(&trace, "thread", "tid name start_ts upid is_main_thread");
    assert_eq!(threads[3..], ["20 child 100 3 1", "11 t 200 2 0"]);
}

#[test]
fn query_060_a_process_ends_and_its_pid_is_reused() {
    let trace = import(&format!(
        "packet {{ timestamp: 1 process_tree {{ processes {{ pid: 10 ppid: 1 cmdline: \"a\" }} }} }} {}",
        ftrace(
            "event { timestamp: 100 pid: 0 sched_process_free { pid: 10 comm: \"a\" prio: 120 } }
             event { timestamp: 200 pid: 1 task_newtask { pid: 10 comm: \"b\" clone_flags: 0 } }"
        )
    ));
    let processes = rows(&trace, "process", "pid name start_ts end_ts");
    assert_eq!(processes[2..], ["10 a NULL 100", "10 b 200 NULL"]);
    let threads = rows(&trace, "thread", "tid upid start_ts end_ts");
    assert_eq!(threads[2..], ["10 2 NULL 100", "10 3 200 NULL"]);
}

#[test]
fn query_061_names_from_better_sources_are_kept() {
    let trace = import(&format!(
        "packet {{ trusted_packet_sequence_id: 1 track_descriptor {{ uuid: 1
             thread {{ pid: 10 tid: 11 thread_name: \"described\" }}
             }} timestamp: 1 }}
         packet {{ trusted_packet_sequence_id: 1 timestamp: 1 track_descriptor {{ uuid: 2
             process {{ pid: 10 process_name: \"described\" }} }} }}
         packet {{ timestamp: 2 process_tree {{ processes {{ pid: 10 ppid: 1 cmdline: \"tree\" }} }} }} {}",
        ftrace(
            "event { timestamp: 100 pid: 0 sched_switch { prev_pid: 0 prev_comm: \"swapper/0\"
                next_pid: 11 next_comm: \"comm\" } }"
        )
    ));
    let threads = rows(&trace, "thread", "tid name");
    assert!(threads.contains(&"11 described".to_owned()), "{threads:?}");
    let processes = rows(&trace, "process", "pid name");
    assert!(processes.contains(&"10 tree".to_owned()), "{processes:?}");
}

#[test]
fn query_062_names_of_processes_are_from_their_command_lines() {
    let trace = import(
        "packet { timestamp: 1 process_tree {
            processes { pid: 10 ppid: 1 cmdline: \"/bin/x\" cmdline: \"-a\" }
            processes { pid: 11 ppid: 1 cmdline: \"x -a\" } } }",
    );
    let processes = rows(&trace, "process", "pid name cmdline");
    assert_eq!(processes[2..], ["10 /bin/x /bin/x -a", "11 x x -a"]);
}

#[test]
fn query_063_kernel_workers_are_named_without_their_queue() {
    let trace = import(
        "packet { timestamp: 1 process_tree {
            processes { pid: 30 ppid: 2 cmdline: \"kworker/45:2-mm_percpu_wq\" cmdline_is_comm: true }
            processes { pid: 31 ppid: 2 cmdline: \"kworker/u8:1+events\" cmdline_is_comm: true }
            processes { pid: 32 ppid: 1 cmdline: \"kworker/1:1-user\" }
            threads { tid: 30 tgid: 30 name: \"kworker/45:2-other\" } } }",
    );
    let processes = rows(&trace, "process", "pid name cmdline");
    assert_eq!(
        processes[2..],
        [
            "30 kworker/45:2 kworker/45:2",
            "31 kworker/u8:1 kworker/u8:1",
            "1 NULL NULL",
            "32 kworker/1:1-user kworker/1:1-user"
        ]
    );
    let threads = rows(&trace, "thread", "tid name");
    assert!(
        threads.contains(&"30 kworker/45:2".to_owned()),
        "{threads:?}"
    );
}

#[test]
fn query_064_uids_are_split_into_android_users_and_apps() {
    let trace = import(
        "packet { timestamp: 1 process_tree {
            processes { pid: 10 ppid: 1 cmdline: \"x\" uid: 1010123 is_kthread: false
                process_start_from_boot: 5 } } }",
    );
    let columns = "pid uid android_appid android_user_id start_ts";
    assert_eq!(rows(&trace, "process", columns)[2], "10 1010123 10123 10 5");
    let set = trace.tables().process.arg_set_id().get(2);
    assert_eq!(args(&trace, set), ["is_kthread=false"]);
}

#[test]
fn query_065_main_threads_are_unknown_without_their_process() {
    let trace = import(&ftrace(
        "event { timestamp: 100 pid: 0 sched_switch { prev_pid: 0 next_pid: 11 next_comm: \"t\" } }",
    ));
    let threads = rows(&trace, "thread", "tid name upid is_main_thread");
    assert_eq!(threads, ["0 swapper 0 1", "11 t NULL NULL"]);
}

#[test]
fn threads_of_a_namespace_without_its_process_are_counted() {
    let trace = import(
        "packet { timestamp: 1 process_tree {
            threads { tid: 30 tgid: 29 name: \"t\" nstid: 2 } } }",
    );
    assert_eq!(
        crate::common::stat(&trace, "namespaced_thread_missing_process"),
        1
    );
}

#[test]
fn the_sort_index_of_a_process_in_json_makes_no_thread() {
    let trace = crate::common::import_bytes(
        br#"[{"ph": "M", "pid": 30, "tid": 0, "name": "process_sort_index", "args": {"sort_index": -2}},
            {"ph": "X", "pid": 30, "tid": 31, "ts": 200, "dur": 1, "name": "event"}]"#,
    );
    let threads = rows(&trace, "thread", "tid");
    assert_eq!(threads, ["0", "30", "31"]);
}
