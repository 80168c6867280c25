//! Each kind of feature tells of a change, and of nothing else.

use ferretto_diff::{Change, Comparison, Kind, Limits};

use crate::made::Step::{self, Beside, Call, Calls, Packets, Requests, Run, Sleep};
use crate::made::recordings;

/// The steps that all recordings begin with.
const USUAL: [Step; 4] = [Run(30_000), Sleep(5_000), Calls(30), Run(10_000)];

/// Compares recordings with further steps, three of each.
fn compare(before: &[Step], after: &[Step]) -> Comparison {
    let steps = |more: &[Step]| [&USUAL[..], more, &USUAL].concat();
    let before = recordings(&steps(before), 0.02, 0..3);
    let after = recordings(&steps(after), 0.02, 3..6);
    Comparison::new(&before, &after, &Limits::default())
}

/// Returns the first change of a kind.
fn change(comparison: &Comparison, kind: Kind) -> &Change {
    let found = comparison.changes.iter().find(|it| it.feature.kind == kind);
    found.unwrap_or_else(|| panic!("no change in {comparison:#?}"))
}

#[test]
fn page_faults_bytes_and_memory_of_the_command_are_compared() {
    const BEFORE: Step = Packets(
        "packet { trace_attributes {
            attribute { key: 'ferretto.command.minor_faults' long_value: 5000 }
            attribute { key: 'ferretto.command.major_faults' long_value: 2 }
            attribute { key: 'ferretto.command.disk_bytes_read' long_value: 0 }
            attribute { key: 'ferretto.command.peak_memory_below' long_value: 30000000 } } }",
    );
    const AFTER: Step = Packets(
        "packet { trace_attributes {
            attribute { key: 'ferretto.command.minor_faults' long_value: 25000 }
            attribute { key: 'ferretto.command.major_faults' long_value: 2 }
            attribute { key: 'ferretto.command.disk_bytes_read' long_value: 8000000 }
            attribute { key: 'ferretto.command.peak_memory' long_value: 90000000 } } }",
    );
    let more = compare(&[BEFORE], &[AFTER]);
    let faults = change(&more, Kind::Faults);
    assert_eq!(faults.feature.text(), "app: page faults");
    assert_eq!((faults.before, faults.after), (5000.0, 25000.0));
    let bytes = change(&more, Kind::Traffic);
    assert_eq!(bytes.feature.text(), "app: bytes read from disks");
    let memory = change(&more, Kind::Peak);
    assert_eq!(memory.feature.text(), "app: most memory");
    assert_eq!((memory.before, memory.after), (30e6, 90e6));
    assert_eq!(more.changes.len(), 3, "{more:#?}");
    // Numbers that only some recordings have tell nothing.
    assert!(compare(&[], &[AFTER]).is_empty());
}

#[test]
fn longer_system_calls_are_compared_on_all_threads() {
    let longer = compare(&[Call(2_000)], &[Call(12_000)]);
    // On the critical path, which tells more than the sum.
    let path = change(&longer, Kind::Path);
    assert_eq!(path.feature.name, "ran in system calls");
    assert_eq!(path.feature.detail, "getrandom");
    assert!(
        longer
            .changes
            .iter()
            .all(|it| it.feature.kind != Kind::Calls)
    );
}

#[test]
fn new_threads_are_found_by_names_without_numbers() {
    let workers = [
        Beside(110, "pool-3-thread-7", 200),
        Beside(111, "pool-3-thread-8", 200),
    ];
    let more = [&workers[..], &[Beside(112, "cgu.12", 200)]].concat();
    let new = compare(&workers, &more);
    let thread = change(&new, Kind::Threads);
    assert_eq!(thread.feature.text(), "app/cgu.N: threads, number");
    assert_eq!((thread.before, thread.after), (0.0, 1.0));
    assert_eq!(new.changes.len(), 1, "{new:#?}");
    // Other numbers, the same threads.
    let others = [
        Beside(110, "pool-4-thread-1", 200),
        Beside(111, "pool-5-thread-21", 200),
    ];
    assert!(compare(&workers, &others).is_empty());
    let gone = compare(&more, &workers);
    assert_eq!(change(&gone, Kind::Threads).difference(), -1.0);
}

#[test]
fn requests_to_disks_are_compared_by_process_and_disk() {
    let more = compare(&[Requests(30)], &[Requests(150)]);
    let count = change(&more, Kind::Requests);
    assert_eq!(
        count.feature.text(),
        "app: requests to disk 254:0 read, number"
    );
    assert_eq!((count.before, count.after), (30.0, 150.0));
    let bytes = change(&more, Kind::RequestBytes);
    assert_eq!(bytes.after, 150.0 * 65536.0);
    let time = change(&more, Kind::RequestTime);
    assert!((time.after - 30e6).abs() < 3e6, "{time:?}");
    // Without requests in one of them, nothing is known of it.
    let unknown = compare(&[], &[Requests(150)]);
    assert!(
        !unknown
            .changes
            .iter()
            .any(|it| it.feature.kind == Kind::Requests),
        "{unknown:#?}"
    );
}

#[test]
fn slower_cpus_are_found() {
    const FAST: Step = Packets(
        "packet { timestamp: TIME sys_stats { cpufreq_khz: 3000000 cpufreq_khz: 3000000 } }",
    );
    const SLOW: Step = Packets(
        "packet { timestamp: TIME sys_stats { cpufreq_khz: 1800000 cpufreq_khz: 1800000 } }",
    );
    let slower = compare(&[FAST], &[SLOW]);
    let frequency = change(&slower, Kind::Frequency);
    assert_eq!(frequency.feature.text(), "frequency of the CPUs in kHz");
    assert_eq!((frequency.before, frequency.after), (3e6, 1.8e6));
}

#[test]
fn leaks_are_found_by_function() {
    const PROFILE: &str = "packet { clock_snapshot {
            clocks { clock_id: 6 timestamp: 1 } clocks { clock_id: 4 timestamp: 1 } } }
        packet { trusted_packet_sequence_id: 9 timestamp: TIME
        sequence_flags: 1 trusted_pid: 7 timestamp_clock_id: 6
        interned_data {
            function_names { iid: 1 str: 'fill_cache' } mappings { iid: 1 start: 0 end: 4096 }
            frames { iid: 1 function_name_id: 1 mapping_id: 1 rel_pc: 5 }
            callstacks { iid: 1 frame_ids: 1 } }
        profile_packet { index: 0 process_dumps { pid: 100 timestamp: TIME
            samples { callstack_id: 1 self_allocated: SIZE self_freed: 0 alloc_count: 9 } } } }";
    let profile = |size| {
        let text: &'static str = Box::leak(PROFILE.replace("SIZE", size).into_boxed_str());
        [Packets(text)]
    };
    let more = compare(&profile("4000000"), &profile("64000000"));
    let heap = change(&more, Kind::Heap);
    assert_eq!(
        heap.feature.text(),
        "app: memory, allocated by fill_cache and not freed"
    );
    assert_eq!((heap.before, heap.after), (4e6, 64e6));
}

#[test]
fn options_and_losses_of_one_side_are_told() {
    const BEFORE: Step = Packets(
        "packet { trace_config { buffers { size_kb: 10 } data_sources { config { name: 'linux.ftrace'
            ftrace_config { instance_name: 'a-7' buffer_size_kb: 5 } } } } }",
    );
    const AFTER: Step = Packets(
        "packet { trace_config { buffers { size_kb: 10 } data_sources { config { name: 'linux.ftrace'
            ftrace_config { instance_name: 'a-12345' buffer_size_kb: 9 } } } } }
        packet { trace_stats { buffer_stats { trace_writer_packet_loss: 7 } } }",
    );
    let other = compare(&[BEFORE], &[AFTER]);
    let config = (
        "config",
        "linux.ftrace ftrace_config.buffer_size_kb: 5",
        "linux.ftrace ftrace_config.buffer_size_kb: 9",
    );
    let config = (
        config.0.to_owned(),
        config.1.to_owned(),
        config.2.to_owned(),
    );
    assert!(other.setup.contains(&config), "{:?}", other.setup);
    let lost = "Data was lost after the change only";
    assert!(
        other.remarks.iter().any(|it| it.starts_with(lost)),
        "{:?}",
        other.remarks
    );
    assert!(compare(&[BEFORE], &[BEFORE]).setup.is_empty());
}

#[test]
fn a_data_source_of_one_side_is_told_by_its_name() {
    const BEFORE: Step = Packets(
        "packet { trace_config { data_sources { config { name: 'linux.ftrace' } }
            trace_attributes { attribute { key: 'ferretto.command' string_value: 'make' } } } }",
    );
    const AFTER: Step = Packets(
        "packet { trace_config { data_sources { config { name: 'linux.ftrace' } }
            data_sources { config { name: 'linux.perf' target_buffer: 3
                perf_event_config { timebase { frequency: 99 } } }
                producer_name_filter: 'perfetto.traced_perf' } } }",
    );
    let other = compare(&[BEFORE], &[AFTER]);
    let config = ["config", "", "linux.perf"].map(str::to_owned);
    assert_eq!(other.setup, [config.into()]);
}

#[test]
fn other_frequency_policies_are_told() {
    let with = |policy| {
        let steps = [&USUAL[..], &[Packets(policy)]].concat();
        recordings(&steps, 0.02, 0..1)
    };
    let slow = with(
        "packet { trace_attributes { attribute { key: 'ferretto.cpu.governor' string_value: 'powersave' } } }",
    );
    let fast = with(
        "packet { trace_attributes { attribute { key: 'ferretto.cpu.governor' string_value: 'performance' } } }",
    );
    let compared = Comparison::new(&slow, &fast, &Limits::default());
    let expected = ["frequency policy", "powersave", "performance"].map(str::to_owned);
    assert!(
        compared.setup.contains(&expected.into()),
        "{:?}",
        compared.setup
    );
    assert!(
        Comparison::new(&slow, &slow, &Limits::default())
            .setup
            .is_empty()
    );
}
