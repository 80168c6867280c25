//! Tests of data sources with callstacks.

use std::collections::BTreeSet;
use std::time::Duration;

use ferretto_perf::{Format, OFF_CPU_SOURCE};
use ferretto_proto::perf_event_config::UnwindMode;
use ferretto_proto::perf_events::timebase::{Event, Interval};
use ferretto_proto::perf_events::{Counter, Timebase, Tracepoint};
use ferretto_proto::perf_sample::SampleSkipReason;
use ferretto_proto::profiling::CpuMode;
use ferretto_proto::stack_sample::TaskContextField;
use ferretto_proto::{FollowerEvent, StackSample, TracePacket, follower_event, trace_config};

use crate::daemon::recording::{callstacks, of, record_until};
use crate::daemon::stacks::{Read, perf_samples, samples};
use crate::daemon::target::Target;
use crate::daemon::world::{World, config, permitted, source, wait_until};

#[test]
fn perf_039_and_040_callstacks_are_told_once_and_again_when_it_was_cleared() {
    let Some(target) = permitted(|| Target::run(&["spin"])) else {
        return;
    };
    let world = World::new();
    let perf = callstacks(|_, scope| scope.target_pid = vec![target.pid() as i32]);
    let mut wanted = config(vec![source(&perf)]);
    wanted.incremental_state_config = trace_config::IncrementalStateConfig {
        clear_period_ms: Some(200),
        ..Default::default()
    }
    .into();
    // Reading the samples checks every reference, and that nothing is interned twice.
    let is_enough = |packets: &[TracePacket]| {
        let begun = packets
            .iter()
            .filter(|packet| packet.sequence_flags == Some(1));
        let reads = perf_samples(packets);
        begun.count() >= 3 && of(&reads, &target).len() >= 20
    };
    let packets = record_until(&world, wanted, "samples", is_enough);
    let reads = perf_samples(&packets);
    let complete: Vec<&Read> = of(&reads, &target)
        .into_iter()
        .filter(|read| read.has("innermost") && read.has("main"))
        .collect();
    assert!(
        complete.iter().any(|read| !read.has_interned_data)
            && complete.iter().any(|read| read.has_interned_data)
    );
    for read in complete {
        let stack = read.stack.as_ref().expect("a callstack");
        let names: Vec<&str> = stack.iter().map(|frame| &*frame.function).collect();
        let index_of = |name| names.iter().position(|one| *one == name);
        assert!(index_of("main") < index_of("outer") && index_of("middle") < index_of("innermost"));
        let innermost = stack.last().expect("a frame");
        assert!(innermost.mapping.ends_with("/daemon-target"));
        assert!(innermost.build_id.is_empty() || innermost.build_id.len() == 20);
    }
}

#[test]
fn perf_037_frames_of_the_kernel_have_names_and_no_addresses() {
    let Some(target) = permitted(|| Target::run(&["read"])) else {
        return;
    };
    let world = World::new();
    let perf = callstacks(|sampling, scope| {
        sampling.kernel_frames = Some(true);
        scope.target_pid = vec![target.pid() as i32];
    });
    let is_enough = |packets: &[TracePacket]| {
        let reads = perf_samples(packets);
        of(&reads, &target)
            .iter()
            .any(|read| read.has("main") && read.is_in_kernel())
    };
    let packets = record_until(&world, config(vec![source(&perf)]), "samples", is_enough);
    for read in perf_samples(&packets) {
        let frames = read.stack.iter().flatten();
        let mut kernel = frames.filter(|frame| frame.mapping == "/kernel");
        assert!(kernel.all(|frame| frame.rel_pc == 0 && frame.build_id.is_empty()));
        let stack = read.stack.as_deref().unwrap_or_default();
        let first = stack.iter().position(|frame| frame.mapping == "/kernel");
        let all_inner = |first: usize| stack[first..].iter().all(|one| one.mapping == "/kernel");
        assert!(first.is_none_or(all_inner), "{stack:?}");
    }
}

#[test]
fn perf_030_threads_of_the_kernel_have_callstacks_if_its_frames_are_wanted() {
    if permitted(|| Some(())).is_none() {
        return;
    }
    let world = World::new();
    let mut perf = callstacks(|sampling, _| {
        sampling.kernel_frames = Some(true);
        sampling.user_frames = Some(UnwindMode::UNWIND_SKIP);
    });
    // All of them sleep at times, and one is always running.
    perf.timebase = Timebase {
        interval: Some(Interval::Period(20)),
        event: Some(Event::Counter(Counter::SW_CONTEXT_SWITCHES)),
        ..Default::default()
    }
    .into();
    let is_kernel_thread = |read: &Read| {
        let cmdline = std::fs::read(format!("/proc/{}/cmdline", read.pid()));
        read.pid() == 0 || cmdline.is_ok_and(|line| line.is_empty())
    };
    let is_enough = |packets: &[TracePacket]| {
        let reads = perf_samples(packets);
        let mut of_threads = reads.iter().filter(|read| is_kernel_thread(read));
        of_threads.any(Read::is_in_kernel)
    };
    record_until(&world, config(vec![source(&perf)]), "samples", is_enough);
}

#[test]
fn perf_028_and_030_others_are_out_of_scope_and_still_counted() {
    let Some(target) = permitted(|| Target::run(&["spin"])) else {
        return;
    };
    let Some(other) = Target::run(&["spin"]) else {
        return;
    };
    let world = World::new();
    let perf = callstacks(|_, scope| scope.target_pid = vec![target.pid() as i32]);
    let is_enough = |packets: &[TracePacket]| {
        let reads = perf_samples(packets);
        of(&reads, &target).len() >= 2 && of(&reads, &other).len() >= 2
    };
    let packets = record_until(&world, config(vec![source(&perf)]), "samples", is_enough);
    let reads = perf_samples(&packets);
    assert!(of(&reads, &target).iter().all(|read| read.stack.is_some()));
    for read in of(&reads, &other) {
        assert_eq!(
            read.skipped(),
            Some(SampleSkipReason::PROFILER_SKIP_NOT_IN_SCOPE)
        );
        assert!(read.stack.is_none() && read.sample.timebase_count > Some(0));
    }
    // Kernel threads, including the idle thread, have no frames.
    let idle = reads.iter().filter(|read| read.pid() == 0);
    assert!(idle.clone().all(|read| read.skipped().is_some()));
}

#[test]
fn perf_031_and_051_command_lines_count_also_where_only_the_kernel_is_sampled() {
    let Some(target) = permitted(|| Target::run(&["read"])) else {
        return;
    };
    let world = World::new();
    let perf = callstacks(|sampling, scope| {
        sampling.kernel_frames = Some(true);
        sampling.user_frames = Some(UnwindMode::UNWIND_SKIP);
        scope.target_cmdline = vec![b"daemon-targe?".to_vec()];
    });
    let is_enough = |packets: &[TracePacket]| {
        let reads = perf_samples(packets);
        let mut of_target = of(&reads, &target).into_iter();
        let others = reads.iter().any(|read| read.skipped().is_some());
        others && of_target.any(Read::is_in_kernel)
    };
    let packets = record_until(&world, config(vec![source(&perf)]), "samples", is_enough);
    let reads = perf_samples(&packets);
    for read in of(&reads, &target) {
        assert_eq!(read.skipped(), None);
        // Samples in user space contain only counts.
        let in_program = read.sample.cpu_mode == Some(CpuMode::MODE_USER);
        assert_eq!(read.stack.is_none(), in_program, "{read:?}");
    }
    let me = reads.iter().filter(|read| read.pid() == std::process::id());
    for read in me {
        assert_eq!(
            read.skipped(),
            Some(SampleSkipReason::PROFILER_SKIP_NOT_IN_SCOPE)
        );
    }
}

#[test]
fn perf_028_descriptors_that_come_late_are_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("descriptors");
    let path = socket.to_str().expect("a path");
    let Some(mut target) = permitted(|| Target::run(&["hand", path])) else {
        return;
    };
    let world = World::with(|options, _| {
        options.descriptor_socket = Some(socket.clone());
        options.only_handed_over = true;
    });
    let perf = callstacks(|_, scope| scope.target_pid = vec![target.pid() as i32]);
    let mut is_asked = false;
    let is_enough = |packets: &[TracePacket]| {
        let reads = perf_samples(packets);
        let reads = of(&reads, &target);
        let timed_out = Some(SampleSkipReason::PROFILER_SKIP_READ_STAGE);
        if !is_asked && reads.iter().any(|read| read.skipped() == timed_out) {
            target.ask();
            is_asked = true;
        }
        reads.iter().any(|read| read.has("main"))
    };
    let packets = record_until(&world, config(vec![source(&perf)]), "samples", is_enough);
    let reads = perf_samples(&packets);
    let reasons: BTreeSet<i32> = of(&reads, &target)
        .iter()
        .filter_map(|read| read.skipped())
        .map(|reason| reason as i32)
        .collect();
    // From the read stage, and from the unwind stage for those that waited.
    assert!(reasons.contains(&1) && reasons.iter().all(|reason| [1, 2].contains(reason)));
}

#[test]
fn perf_042_a_stop_does_not_wait_longer_than_for_descriptors() {
    let Some(target) = permitted(|| Target::run(&["spin"])) else {
        return;
    };
    let world = World::with(|options, _| options.only_handed_over = true);
    let mut perf = callstacks(|_, scope| scope.target_pid = vec![target.pid() as i32]);
    perf.remote_descriptor_timeout_ms = Some(300);
    // Stopped at once, while its process is being examined.
    let begin = target.cpu_time();
    let packets = world.record(config(vec![source(&perf)]), |_| {
        wait_until("the target is sampled", || {
            target.cpu_time() > begin + std::time::Duration::from_millis(100)
        });
    });
    let reads = perf_samples(&packets);
    for read in of(&reads, &target) {
        assert!(read.skipped().is_some(), "{read:?}");
    }
}

/// The rings are read once an hour, so their records are first read at the end of the recording.
#[test]
fn perf_042_the_last_samples_are_there_and_so_is_what_the_answer_waits_for() {
    let Some(target) = permitted(|| Target::run(&["spin"])) else {
        return;
    };
    let world = World::new();
    let mut perf = callstacks(|sampling, scope| {
        sampling.user_frames = Some(UnwindMode::UNWIND_SKIP);
        sampling.kernel_frames = Some(true);
        scope.target_pid = vec![target.pid() as i32];
    });
    perf.ring_buffer_read_period_ms = Some(3_600_000);
    let packets = world.record(config(vec![source(&perf)]), |_| {
        // Counting has started by now.
        let before = target.cpu_time();
        wait_until("the target runs", || {
            target.cpu_time() > before + Duration::from_millis(200)
        });
    });
    let reads = perf_samples(&packets);
    // About twenty at a hundred per second; a flush may have read the first ones.
    assert!(of(&reads, &target).len() >= 10, "{reads:?}");
}

#[test]
fn perf_043_a_stop_is_answered_also_if_the_profiler_grows_too_large_meanwhile() {
    let Some(target) = permitted(|| Target::run(&["spin"])) else {
        return;
    };
    // The stop waits for descriptors that never arrive, for longer than the memory check takes.
    let world = World::with(|options, _| options.only_handed_over = true);
    let mut perf = callstacks(|_, scope| scope.target_pid = vec![target.pid() as i32]);
    perf.remote_descriptor_timeout_ms = Some(60_000);
    perf.max_daemon_memory_kb = Some(1);
    let packets = world.record(config(vec![source(&perf)]), |_| {
        // Counting has started by now.
        let before = target.cpu_time();
        wait_until("the target is sampled", || {
            target.cpu_time() > before + Duration::from_millis(200)
        });
    });
    let reads = perf_samples(&packets);
    let is_event = |read: &Read| read.sample.producer_event.as_option().is_some();
    assert!(reads.iter().any(is_event), "{reads:?}");
}

#[test]
fn perf_052_counts_of_followers_come_with_callstacks() {
    let Some(target) = permitted(|| Target::run(&["read"])) else {
        return;
    };
    let world = World::new();
    let mut perf = callstacks(|sampling, scope| {
        sampling.kernel_frames = Some(true);
        scope.target_pid = vec![target.pid() as i32];
    });
    let counters = [
        Counter::SW_PAGE_FAULTS,
        Counter::SW_CONTEXT_SWITCHES,
        Counter::SW_TASK_CLOCK,
    ];
    perf.followers = counters
        .map(|counter| FollowerEvent {
            event: Some(follower_event::Event::Counter(counter)),
            ..Default::default()
        })
        .into();
    let is_enough = |packets: &[TracePacket]| {
        let reads = perf_samples(packets);
        let is_whole = |read: &&&Read| read.has("main") && read.is_in_kernel();
        of(&reads, &target).iter().filter(is_whole).count() >= 5
    };
    let packets = record_until(&world, config(vec![source(&perf)]), "samples", is_enough);
    let defaults = packets
        .iter()
        .find_map(|packet| packet.trace_packet_defaults.as_option());
    let defaults = &defaults.expect("defaults").perf_sample_defaults;
    assert_eq!(defaults.followers, perf.followers);
    for read in perf_samples(&packets) {
        if read.sample.kernel_records_lost.is_none() {
            let counts = &read.sample.follower_counts;
            assert!(counts.len() == 3 && counts[2] > 0, "{read:?}");
        }
    }
}

#[test]
fn perf_032_stacks_beyond_the_footprint_are_not_unwound() {
    let Some(target) = permitted(|| Target::run(&["spin"])) else {
        return;
    };
    let world = World::new();
    let mut perf = callstacks(|_, scope| scope.target_pid = vec![target.pid() as i32]);
    perf.max_enqueued_footprint_kb = Some(1);
    let is_skipped =
        |read: &&Read| read.skipped() == Some(SampleSkipReason::PROFILER_SKIP_UNWIND_ENQUEUE);
    let is_enough = |packets: &[TracePacket]| {
        let reads = perf_samples(packets);
        of(&reads, &target).into_iter().filter(is_skipped).count() >= 3
    };
    let packets = record_until(&world, config(vec![source(&perf)]), "samples", is_enough);
    let reads = perf_samples(&packets);
    for read in of(&reads, &target) {
        // While a program starts there are samples without a stack.
        assert!(is_skipped(&read) || !read.has("outer"), "{read:?}");
    }
}

#[test]
fn perf_043_a_profiler_that_is_too_large_says_so_and_ends() {
    if permitted(|| Some(())).is_none() {
        return;
    }
    let world = World::new();
    let mut perf = callstacks(|_, _| {});
    perf.max_daemon_memory_kb = Some(1);
    let ended = |packets: &[TracePacket]| {
        let reads = perf_samples(packets);
        reads
            .iter()
            .any(|read| read.sample.producer_event.as_option().is_some())
    };
    let packets = record_until(&world, config(vec![source(&perf)]), "the end", ended);
    let reads = perf_samples(&packets);
    let last = reads.last().expect("a packet");
    let event = last.sample.producer_event.as_option().expect("the last");
    use ferretto_proto::perf_sample::producer_event::{
        DataSourceStopReason, OptionalSourceStopReason::SourceStopReason,
    };
    let guardrail = DataSourceStopReason::PROFILER_STOP_GUARDRAIL;
    assert_eq!(
        event.optional_source_stop_reason,
        Some(SourceStopReason(guardrail))
    );
}

#[test]
fn perf_044_data_sources_beside_each_other_all_get_the_samples() {
    let Some(target) = permitted(|| Target::run(&["spin"])) else {
        return;
    };
    let world = World::new();
    let perf = callstacks(|_, scope| scope.target_pid = vec![target.pid() as i32]);
    let is_enough = |packets: &[TracePacket]| {
        let reads = perf_samples(packets);
        let reads = of(&reads, &target);
        let complete = reads.iter().filter(|read| read.has("main"));
        complete
            .map(|read| read.sequence)
            .collect::<BTreeSet<_>>()
            .len()
            == 2
    };
    let both = config(vec![source(&perf), source(&perf)]);
    record_until(&world, both, "samples in both", is_enough);
}

#[test]
fn perf_048_samples_in_the_format_for_any_profiler() {
    let Some(target) = permitted(|| Target::run(&["spin"])) else {
        return;
    };
    let world = World::with(|options, _| options.format = Format::StackSample);
    let perf = callstacks(|_, scope| scope.target_pid = vec![target.pid() as i32]);
    let is_of = |sample: &StackSample| {
        matches!(&sample.task_context_field, Some(TaskContextField::TaskContext(task))
            if task.pid == Some(target.pid()))
    };
    let is_enough = |packets: &[TracePacket]| {
        let (_, weighted) = samples(packets);
        weighted
            .iter()
            .filter(|one| is_of(&one.sample) && one.stack.is_some())
            .count()
            >= 3
    };
    let packets = record_until(&world, config(vec![source(&perf)]), "samples", is_enough);
    let (_, weighted) = samples(&packets);
    let of_target = weighted.iter().filter(|one| is_of(&one.sample));
    assert!(
        of_target
            .clone()
            .all(|one| one.sample.primary_weight > Some(0))
    );
    let mut defaults = packets
        .iter()
        .filter_map(|packet| packet.trace_packet_defaults.as_option());
    let defaults = &defaults.next().expect("defaults").stack_sample_defaults;
    assert_eq!(defaults.source.as_deref(), Some(&b"linux.perf"[..]));
    let name = defaults.primary_descriptor.name.as_deref();
    assert_eq!(name, Some(&b"cpu-clock"[..]));
}

#[test]
fn off_cpu_time_has_the_callstack_of_the_wait() {
    let Some(target) = permitted(|| Target::run(&["sleep"])) else {
        return;
    };
    if !std::path::Path::new("/sys/kernel/tracing/events/sched/sched_switch/id").exists() {
        println!("skipped: tracefs is not available");
        return;
    }
    let world = World::new();
    let mut perf = callstacks(|sampling, scope| {
        sampling.kernel_frames = Some(true);
        scope.target_pid = vec![target.pid() as i32];
    });
    perf.timebase = Timebase {
        name: Some(b"off-cpu".to_vec()),
        interval: Some(Interval::Period(1)),
        event: Some(Event::Tracepoint(Box::new(Tracepoint {
            name: Some(b"sched:sched_switch".to_vec()),
            ..Default::default()
        }))),
        ..Default::default()
    }
    .into();
    let slept = |packets: &[TracePacket]| {
        let (_, weighted) = samples(packets);
        let long = weighted
            .iter()
            .filter(|one| one.sample.primary_weight >= Some(20_000_000));
        long.count() >= 3
    };
    let packets = record_until(&world, config(vec![source(&perf)]), "sleeps", slept);
    let (perf, weighted) = samples(&packets);
    assert!(
        perf.iter()
            .all(|read| read.sample.kernel_records_lost.is_some())
    );
    for one in &weighted {
        // No other task is requested.
        let task = &one.sample.task_context_field;
        let of_target = matches!(task, Some(TaskContextField::TaskContext(task))
            if task.pid == Some(target.pid()));
        assert!(of_target && one.time > 0, "{one:?}");
    }
    let in_main = |frames: &[crate::daemon::stacks::Frame]| {
        frames.iter().any(|frame| frame.function == "main")
            && frames
                .last()
                .is_some_and(|frame| frame.mapping == "/kernel")
    };
    assert!(
        weighted
            .iter()
            .any(|one| one.stack.as_deref().is_some_and(in_main))
    );
    let mut defaults = packets
        .iter()
        .filter_map(|packet| packet.trace_packet_defaults.as_option());
    let source = defaults
        .next()
        .expect("defaults")
        .stack_sample_defaults
        .source
        .clone();
    assert_eq!(source.as_deref(), Some(OFF_CPU_SOURCE.as_bytes()));
}

#[test]
fn perf_029_and_055_processes_that_end_at_once_are_accounted_for() {
    if permitted(|| Some(())).is_none() {
        return;
    }
    let world = World::new();
    let mut perf = callstacks(|sampling, scope| {
        sampling.kernel_frames = Some(true);
        scope.target_cmdline = vec![b"true".to_vec()];
    });
    perf.timebase.get_or_insert_default().interval = Some(Interval::Frequency(2000));
    let is_enough = |packets: &[TracePacket]| {
        for _ in 0..20 {
            let _ = std::process::Command::new("true").status();
        }
        let reads = perf_samples(packets);
        reads.iter().any(|read| {
            read.skipped() == Some(SampleSkipReason::PROFILER_SKIP_READ_STAGE)
                || read.stack.is_some()
        })
    };
    let packets = record_until(&world, config(vec![source(&perf)]), "samples", is_enough);
    for read in perf_samples(&packets) {
        let is_event = read.sample.kernel_records_lost.is_some();
        assert!(
            is_event || read.stack.is_some() || read.skipped().is_some(),
            "{read:?}"
        );
    }
}
