//! Packets of probes of Android.

use ferretto_tables::Trace;

use crate::common::{import, rows};

/// Returns the rows of counters, each with the name of its track.
fn counters(trace: &Trace, type_: &str) -> Vec<String> {
    let tracks = rows(trace, "track", "type name");
    let rows = rows(trace, "counter", "track_id ts value");
    let named = rows.iter().filter_map(|row| {
        let (track, rest) = row.split_once(' ')?;
        let name = tracks[track.parse::<usize>().ok()?].strip_prefix(type_)?;
        Some(format!("{} {rest}", name.trim()))
    });
    let mut named: Vec<_> = named.collect();
    named.sort();
    named
}

#[test]
fn cpu_times_of_users_are_sums_of_differences() {
    let packet = |ts: u32, uids: &[u32], times: &[u32], rest: &str| {
        let uids: String = uids.iter().map(|uid| format!("uid: {uid} ")).collect();
        let times = times.iter().map(|time| format!("total_time_ms: {time} "));
        let times: String = times.collect();
        format!(
            "packet {{ timestamp: {ts} trusted_packet_sequence_id: 1
               cpu_per_uid_data {{ {rest} {uids} {times} }} }}"
        )
    };
    let text = [
        packet(10, &[0, 10_001], &[100, 200, 300, 400], "cluster_count: 2"),
        packet(20, &[0], &[5, 0], ""),
        packet(30, &[10_001], &[0, 7], ""),
        // A third value is missing, and a user.
        packet(40, &[0, 10_001], &[1, 0, 2], ""),
    ]
    .concat();
    let trace = import(&text);
    assert_eq!(
        counters(&trace, "android_cpu_per_uid "),
        [
            "CPU for UID 0 CL0 10 100",
            "CPU for UID 0 CL0 20 105",
            // The last packet before the difference.
            "CPU for UID 0 CL0 30 105",
            "CPU for UID 0 CL0 40 106",
            "CPU for UID 0 CL1 10 200",
            "CPU for UID 10001 CL0 10 300",
            "CPU for UID 10001 CL0 30 300",
            "CPU for UID 10001 CL0 40 302",
            "CPU for UID 10001 CL1 10 400",
            "CPU for UID 10001 CL1 20 400",
            "CPU for UID 10001 CL1 30 407",
        ]
    );
    assert_eq!(
        counters(&trace, "android_cpu_per_uid_totals "),
        [
            "CPU for Apps CL0 10 0",
            "CPU for Apps CL0 30 0",
            "CPU for Apps CL0 40 2",
            "CPU for Apps CL1 10 0",
            "CPU for Apps CL1 20 0",
            "CPU for Apps CL1 30 7",
            "CPU for System CL0 10 0",
            "CPU for System CL0 20 5",
            "CPU for System CL0 30 5",
            "CPU for System CL0 40 6",
            "CPU for System CL1 10 0",
        ]
    );
}

#[test]
fn isolated_users_are_one() {
    let trace = import(
        "packet { timestamp: 10 trusted_packet_sequence_id: 1 cpu_per_uid_data {
           cluster_count: 1 uid: 90001 uid: 90002 total_time_ms: 50 total_time_ms: 60 } }
         packet { timestamp: 20 trusted_packet_sequence_id: 1 cpu_per_uid_data {
           uid: 90001 uid: 90002 total_time_ms: 3 total_time_ms: 4 } }",
    );
    assert_eq!(
        counters(&trace, "android_cpu_per_uid "),
        ["CPU for UID 90000 CL0 10 0", "CPU for UID 90000 CL0 20 7"]
    );
}

#[test]
fn wake_locks_are_counters_by_name() {
    let trace = import(
        "packet { timestamp: 10 trusted_packet_sequence_id: 1 kernel_wakelock_data {
           wakelock { wakelock_id: 1 wakelock_name: \"net\" wakelock_type: WAKELOCK_TYPE_KERNEL }
           wakelock { wakelock_id: 1 wakelock_name: \"other\" }
           wakelock_id: 1 wakelock_id: 2 time_held_millis: 5 time_held_millis: 6 error_flags: 2 } }
         packet { timestamp: 20 trusted_packet_sequence_id: 1 kernel_wakelock_data {
           wakelock_id: 1 time_held_millis: 2 } }",
    );
    assert_eq!(
        counters(&trace, "android_kernel_wakelock "),
        ["net 10 5000000", "net 20 7000000"]
    );
    let stats = rows(&trace, "stats", "name value");
    for name in [
        "kernel_wakelock_reused_id",
        "kernel_wakelock_unknown_id",
        "kernel_wakelock_non_monotonic_value_reported",
    ] {
        assert!(stats.contains(&format!("{name} 1")), "{name}");
    }
}
