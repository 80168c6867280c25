//! Metadata of the trace, and statistics.

use crate::common::{import, rows, stat};

#[test]
fn query_097_statistics_without_index_always_have_a_row() {
    let trace = import("packet { timestamp: 1 }");
    let stats = rows(&trace, "stats", "name idx severity source value");
    for expected in [
        "misplaced_end_event NULL data_loss analysis 0",
        "traced_flushes_failed NULL data_loss trace 0",
        "packet_skipped_seq_needs_incremental_state_invalid NULL notice analysis 0",
        "perf_samples_skipped NULL error analysis 0",
        "filter_errors NULL error trace 0",
        "traced_producers_seen NULL info trace 0",
    ] {
        assert!(stats.contains(&expected.to_owned()), "{expected}");
    }
    assert!(
        !stats.iter().any(|row| row.starts_with("traced_buf_")),
        "the trace has no buffer"
    );
    let described = rows(&trace, "stats", "description");
    assert!(
        described.iter().all(|text| text.len() > 10),
        "each statistic has a description"
    );
}

#[test]
fn query_098_losses_are_counted_by_the_buffer_of_their_sequence() {
    let text = r#"
        packet { trusted_packet_sequence_id: 4 timestamp: 1 }
        packet { trusted_packet_sequence_id: 4 timestamp: 2 previous_packet_dropped: 65 }
        packet { trusted_packet_sequence_id: 4 timestamp: 3 sequence_flags: 2 }
        packet { trace_stats { producers_seen: 3 flushes_failed: 1
            final_flush_outcome: FINAL_FLUSH_FAILED
            filter_stats { errors: 2 bytes_discarded_per_buffer: 0 bytes_discarded_per_buffer: 9 }
            buffer_stats { buffer_size: 4096 }
            buffer_stats { bytes_overwritten: 7 }
            writer_stats { sequence_id: 4 buffer: 1 } } }"#;
    let trace = import(text);
    let stats = rows(&trace, "stats", "name idx severity value");
    for expected in [
        "traced_buf_data_loss_overwrite 1 data_loss 1",
        "traced_buf_data_loss_read_gap 1 data_loss 0",
        "traced_buf_sequence_packet_loss 1 data_loss 1",
        "traced_buf_incremental_sequences_dropped 1 data_loss 1",
        "traced_buf_buffer_size 0 info 4096",
        "traced_buf_bytes_overwritten 1 info 7",
        "traced_buf_bytes_filtered_out 1 info 9",
    ] {
        assert!(stats.contains(&expected.to_owned()), "{expected}");
    }
    assert_eq!(stat(&trace, "traced_producers_seen"), 3);
    assert_eq!(stat(&trace, "traced_flushes_failed"), 1);
    assert_eq!(stat(&trace, "traced_final_flush_failed"), 1);
    assert_eq!(stat(&trace, "filter_errors"), 2);
}

#[test]
fn query_099_overwritten_kernel_events_may_be_older_than_the_recording() {
    let trace = import("packet { timestamp: 1 }");
    let severity = |name: &str| {
        let all = ferretto_tables::Stat::ALL.iter();
        let stat = all.into_iter().find(|stat| stat.name() == name);
        stat.expect("a name").severity()
    };
    use ferretto_tables::Severity::{Error, Info};
    assert_eq!(severity("ftrace_cpu_overrun_delta"), Info);
    assert_eq!(severity("ftrace_cpu_commit_overrun_delta"), Error);
    assert_eq!(severity("ftrace_cpu_dropped_events_delta"), Error);
    drop(trace);
}

#[test]
fn properties_of_the_trace_are_in_the_metadata() {
    let text = r#"
        packet { trace_uuid { msb: 1147797409030816545 lsb: 2 } }
        packet { timestamp: 1 trace_config { unique_session_name: "mine" trace_uuid_lsb: 9
            trace_attributes { attribute { key: "k" long_value: 2 } attribute { key: "build" string_value: "b1" } }
            buffers { size_kb: 64 fill_policy: DISCARD } write_into_file: true } }
        packet { timestamp: 2 system_info { utsname { sysname: "Linux" release: "6.1" machine: "x86_64" }
            tracing_service_version: "Perfetto v50.1-x" num_cpus: 2 machine_name: "box"
            timezone_off_mins: -60 system_ram_bytes: 8000000000 } }
        packet { timestamp: 3 trigger { trigger_name: "one" producer_name: "p" trusted_producer_uid: 5 } }
        packet { timestamp: 4 clone_snapshot_trigger { trigger_name: "two" } }
        packet { timestamp: 5 ui_state { timeline_start_ts: 1 } }
        packet { trace_attributes { attribute { key: "k" long_value: 3 } } }"#;
    let trace = import(text);
    let facts = rows(&trace, "metadata", "name int_value str_value");
    for expected in [
        "trace_uuid NULL 0fedcba9-8765-4321-0000-000000000002",
        "unique_session_name NULL mine",
        "system_name NULL Linux",
        "system_release NULL 6.1",
        "system_machine NULL x86_64",
        "system_ram_gb 8 NULL",
        "timezone_off_mins -60 NULL",
        "tracing_service_version NULL Perfetto v50.1-x",
        "trace_trigger NULL two",
        "ui_state NULL CAE=",
        "trace_attribute.build NULL b1",
        "trace_attribute.k 3 NULL",
        "trace_type NULL proto",
    ] {
        assert!(
            facts.contains(&expected.to_owned()),
            "{expected} in {facts:?}"
        );
    }
    let config = facts
        .iter()
        .find(|fact| fact.starts_with("trace_config_pbtxt NULL "));
    assert!(config.unwrap().contains("unique_session_name: \"mine\"\n"));
    assert_eq!(
        rows(&trace, "machine", "name sysname release arch num_cpus"),
        ["box Linux 6.1 x86_64 2"]
    );
    assert_eq!(rows(&trace, "slice", "ts dur name"), ["3 0 one", "4 0 two"]);
    assert_eq!(
        rows(&trace, "track", "name type"),
        ["Trace Triggers triggers"]
    );
    assert_eq!(stat(&trace, "config_write_into_file_no_flush"), 1);
    assert_eq!(stat(&trace, "traced_clone_trigger_timestamp_ns"), 4);
    let stats = rows(&trace, "stats", "name idx value");
    assert!(stats.contains(&"config_write_into_file_discard 0 1".to_owned()));
}

#[test]
fn a_trace_without_uuid_gets_one_from_its_bytes() {
    let uuid = |text| {
        let facts = rows(&import(text), "metadata", "name str_value");
        let uuids = facts
            .into_iter()
            .filter(|fact| fact.starts_with("trace_uuid "));
        uuids.collect::<Vec<_>>()
    };
    let one = uuid("packet { timestamp: 1 }");
    assert_eq!(one.len(), 1);
    assert_eq!(one, uuid("packet { timestamp: 1 }"));
    assert_ne!(one, uuid("packet { timestamp: 2 }"));
}

#[test]
fn problematic_configs_get_advice() {
    let config = |ftrace: &str| {
        format!(
            "packet {{ trusted_packet_sequence_id: 1 timestamp: 1 trace_config {{
                write_into_file: true flush_period_ms: 1000
                buffers {{ size_kb: 1024 fill_policy: DISCARD }}
                data_sources {{ config {{ name: \"linux.ftrace\" target_buffer: 0
                    ftrace_config {{ {ftrace} }} }} }} }} }}"
        )
    };
    let trace = import(&config(
        "buffer_size_kb: 128 drain_period_ms: 90 ftrace_events: \"raw_syscalls/sys_enter\"
         ftrace_events: \"sched/sched_blocked_reason\" enable_function_graph: true",
    ));
    assert_eq!(
        rows(&trace, "trace_diagnostics", "key confidence"),
        [
            "tiny_ftrace_buffer 0.8533333333333334",
            "low_ftrace_drain_bandwidth 0.8125",
            "extreme_ftrace_drain_period 0.6",
            "syscalls_without_filter 0.3",
            "function_graph_requires_symbolize_ksyms 1",
            "events_require_symbolize_ksyms 0.6",
            "discard_buffer_for_streaming 0.8"
        ]
    );
    let good =
        import(&config("ftrace_events: \"sched/sched_switch\"").replace("DISCARD", "RING_BUFFER"));
    assert!(rows(&good, "trace_diagnostics", "key").is_empty());
    let heap = "packet { trusted_packet_sequence_id: 1 timestamp: 1 trace_config { data_sources {
        config { heapprofd_config { sampling_interval_bytes: 4096 } } } } }";
    assert_eq!(
        rows(&import(heap), "trace_diagnostics", "key"),
        ["heapprofd_sampling_interval_too_low"]
    );
}

#[test]
fn instances_of_chrome_have_entries_of_their_own() {
    let trace = import(
        "packet { chrome_metadata { app_version: \"9.1\" chrome_version_code: 7
            field_trial_hashes { name: 1 group: 2 } field_trial_hashes { name: 3 group: 4 }
            field_trial_hashes { name: 5 group: 6 }
            background_tracing_metadata { scenario_name_hash: 8 } } }
         packet { chrome_metadata { os_name: \"Linux\" } }
         packet { timestamp: 1 chrome_trigger { trigger_name_hash: 11 } }",
    );
    let all = rows(&trace, "metadata", "name int_value str_value");
    for expected in [
        "cr-a-product-version NULL 9.1",
        "cr-a-playstore_version_code 7 NULL",
        "cr-a-field_trial_hashes NULL { name: 1, group: 2 } { name: 3, group: 4 } \n{ name: 5, group: 6 } ",
        "cr-background_tracing_metadata NULL HQgAAAA=",
        "cr-scenario_name_hash 8 NULL",
        "cr-b-os-name NULL Linux",
        "cr-triggered_rule_name_hash 11 NULL",
    ] {
        assert!(all.contains(&expected.to_owned()), "{expected}: {all:#?}");
    }
}

#[test]
fn overwritten_data_of_a_recording_into_a_file_is_lost() {
    let lost = |period: u64| {
        let trace = import(&format!(
            "packet {{ trace_config {{ write_into_file: true file_write_period_ms: {period}
                buffers {{ size_kb: 64 }} buffers {{ size_kb: 64 }} }} }}
             packet {{ trace_stats {{ buffer_stats {{ bytes_overwritten: 0 }}
                buffer_stats {{ bytes_overwritten: 512 }} }} }}",
        ));
        let all = rows(&trace, "stats", "name idx value");
        let is_of = |row: &String| row.starts_with("long_trace_mode_bytes_overwritten ");
        all.into_iter().filter(is_of).collect::<Vec<_>>()
    };
    assert_eq!(lost(5000), ["long_trace_mode_bytes_overwritten 1 512"]);
    // So seldom that the buffers are rings.
    assert!(lost(604_800_000).is_empty());
}
