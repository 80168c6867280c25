//! The life cycle of processes and recordings.

use std::process::Stdio;

use ferretto_heapprofd::Notice;
use ferretto_proto::HeapprofdConfig;
use ferretto_proto::heapprofd_config::ContinuousDumpConfig;

use crate::world::{LIMIT, World, end, every, with_program};

fn only(pid: u32) -> HeapprofdConfig {
    HeapprofdConfig {
        all: None,
        pid: vec![pid.into()],
        ..every(1)
    }
}

#[test]
fn heap_004_other_processes_are_not_recorded() {
    with_program(|world| {
        let mut config = every(1);
        config.all = None;
        config.process_cmdline = vec!["another-program".into()];
        let recorded = world.record(&config, |world| world.run(&["leak", "10"]));
        assert!(recorded.dumps().is_empty());
    });
}

#[test]
fn heap_004_a_second_recording_of_a_process_is_rejected() {
    with_program(|world| {
        let first = world.begin(&every(1));
        let second = world.begin(&every(1));
        world.run(&["leak", "100"]);
        let (first, second) = (end(first), end(second));
        assert_eq!(first.sums(&first.dumps()[0], "leaked").allocated, 30_000);
        assert!(second.dumps().iter().any(|dump| dump.is_rejected));
        assert!(second.dumps().iter().all(|dump| dump.rows().is_empty()));
    });
}

#[test]
fn heap_007_intervals_grow_when_the_ring_fills_up() {
    with_program(|world| {
        let mut config = every(64);
        config.shmem_size_bytes = Some(1 << 20);
        config.adaptive_sampling_shmem_threshold = Some((1 << 20) - (64 << 10));
        config.adaptive_sampling_max_sampling_interval_bytes = Some(1024);
        let recorded = world.record(&config, |world| world.run(&["leak", "20000"]));
        let heaps = recorded
            .packets
            .iter()
            .filter_map(|packet| match &packet.data {
                Some(ferretto_proto::trace_packet::Data::ProfilePacket(packet)) => Some(packet),
                _ => None,
            });
        let dumps: Vec<_> = heaps.flat_map(|packet| &packet.process_dumps).collect();
        let last = dumps.last().expect("a dump");
        assert_eq!(last.orig_sampling_interval_bytes, Some(64));
        let interval = last.sampling_interval_bytes.expect("it is reported");
        assert!(interval > 64 && interval <= 1024, "{interval}");
    });
}

#[test]
fn heap_013_child_processes_are_recorded_separately() {
    with_program(|world| {
        let recorded = world.record(&every(4096), |world| world.run(&["fork"]));
        let of = |function: &str| -> Vec<(i32, u64)> {
            let dumps = recorded.dumps().iter();
            let sums = dumps.map(|dump| (dump.pid, recorded.sums(dump, function).allocated));
            sums.filter(|(_, allocated)| *allocated > 0).collect()
        };
        let (leaked, passing) = (of("leaked"), of("passing"));
        assert_eq!(
            leaked.len(),
            1,
            "the parent's allocations are not the child's"
        );
        assert_eq!(leaked[0].1, 4 << 20);
        assert_eq!(passing.len(), 1);
        assert_eq!(passing[0].1, 2 << 20);
        assert_ne!(leaked[0].0, passing[0].0);
    });
}

#[test]
fn heap_013_a_process_is_still_recorded_after_exec() {
    with_program(|world| {
        let recorded = world.record(&every(4096), |world| world.run(&["exec"]));
        let last = recorded.dumps().last().expect("a dump");
        assert_eq!(recorded.sums(last, "passing").allocated, 5 << 20);
        let before = recorded.sums(last, "leaked");
        assert_eq!(
            (before.allocated, before.live()),
            (1 << 20, 0),
            "its memory is gone"
        );
    });
}

#[test]
fn heap_014_a_process_that_closes_all_descriptors_is_left_alone() {
    with_program(|world| {
        let recorded = world.record(&every(4096), |world| {
            // The program ends by `_exit`, and the files it opened instead are unchanged.
            let mut target = world.target(&["close-all"]);
            assert!(target.0.wait().expect("it ends").success());
        });
        let leaked = recorded.sums(&recorded.dumps()[0], "leaked").allocated;
        assert!(leaked >= 1 << 20, "{leaked}");
    });
}

#[test]
fn a_process_survives_unmapping_the_clients_memory() {
    with_program(|world| {
        let recorded = world.record(&every(4096), |world| world.run(&["unmap-all"]));
        assert_eq!(
            recorded.sums(&recorded.dumps()[0], "leaked").allocated,
            1 << 20
        );
    });
}

#[test]
fn heap_017_lost_samples_are_reported_and_totals_stay_consistent() {
    with_program(|world| {
        let mut config = every(1);
        config.block_client = None;
        config.shmem_size_bytes = Some(8192);
        let recorded = world.record(&config, |world| world.run(&["leak", "5000"]));
        let dump = &recorded.dumps()[0];
        assert!(dump.has_overrun);
        // Recorded allocations were freed exactly once.
        assert_eq!(recorded.sums(dump, "passing").live(), 0);
    });
}

#[test]
fn heap_017_with_blocking_nothing_is_lost() {
    with_program(|world| {
        let mut config = every(1);
        config.shmem_size_bytes = Some(64 << 10);
        let recorded = world.record(&config, |world| world.run(&["leak", "3000"]));
        let dump = &recorded.dumps()[0];
        assert!(!dump.has_overrun);
        assert_eq!(recorded.sums(dump, "leaked").allocated, 900_000);
        assert_eq!(recorded.sums(dump, "passing").frees, 3000);
    });
}

#[test]
fn heap_023_continuous_dumps_cover_adjacent_windows() {
    with_program(|world| {
        let mut config = every(1);
        config.continuous_dump_config = ContinuousDumpConfig {
            dump_interval_ms: Some(20),
            ..Default::default()
        }
        .into();
        let mut consumer = world.begin(&config);
        let mut target = world.target(&["leak-and-wait", "100"]);
        target.waits();
        crate::packets::wait_for_dumps(&mut consumer, 2);
        target.goes_on();
        target.waits();
        let recorded = end(consumer);
        let packets = crate::packets::profile_packets(&recorded.packets);
        let dumps: Vec<_> = packets
            .iter()
            .flat_map(|packet| &packet.process_dumps)
            .collect();
        for pair in dumps.windows(2) {
            assert_eq!(pair[1].start_timestamp, pair[0].timestamp, "windows touch");
            assert!(pair[1].timestamp >= pair[0].timestamp);
        }
        let leaked: Vec<u64> = recorded
            .dumps()
            .iter()
            .map(|dump| recorded.sums(dump, "leaked").allocated)
            .collect();
        assert!(leaked.is_sorted(), "{leaked:?}");
        assert_eq!(leaked.last(), Some(&60_000));
    });
}

#[test]
fn heap_029_a_program_that_hangs_does_not_delay_the_end() {
    with_program(|world| {
        let consumer = world.begin(&every(1));
        let mut target = world.target(&["leak-and-wait", "100"]);
        target.waits();
        let pid = rustix::process::Pid::from_child(&target.0);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("stopped");
        let recorded = end(consumer);
        let leaked = recorded.sums(recorded.last(target.pid(), "libc.malloc"), "leaked");
        assert_eq!(leaked.allocated, 30_000);
    });
}

#[test]
fn heap_030_a_recording_that_exceeds_the_guardrails_ends() {
    with_program(|world| {
        let mut config = every(1);
        config.max_heapprofd_memory_kb = Some(1);
        let consumer = world.begin(&config);
        let failed = |notice: Notice| matches!(notice, Notice::Failed { .. });
        let mut notices = std::iter::from_fn(|| world.notices.recv_timeout(LIMIT).ok());
        assert!(notices.any(failed));
        // The service still gets its reply.
        end(consumer);
    });
}

#[test]
fn heap_032_only_the_selected_one_of_many_programs_is_recorded() {
    with_program(|world| {
        let mut targets: Vec<_> = (0..8)
            .map(|_| world.target(&["leak-and-wait", "10"]))
            .collect();
        targets.iter_mut().for_each(|target| target.waits());
        let meant = targets[3].pid();
        let consumer = world.begin(&only(meant));
        for target in &mut targets {
            target.goes_on();
            target.waits();
        }
        let recorded = end(consumer);
        assert!(recorded.dumps().iter().all(|dump| dump.pid == meant as i32));
        let leaked = recorded.sums(recorded.last(meant, "libc.malloc"), "leaked");
        assert_eq!(leaked.allocated, 3000, "a running program can be recorded");
    });
}

#[test]
fn a_restarted_profiler_records_a_program_again() {
    with_program(|mut world: World| {
        let mut target = world.target(&["leak-and-wait", "10"]);
        target.waits();
        world.restart_profiler();
        let consumer = world.begin(&only(target.pid()));
        target.goes_on();
        target.waits();
        let recorded = end(consumer);
        let leaked = recorded.sums(recorded.last(target.pid(), "libc.malloc"), "leaked");
        assert_eq!(leaked.allocated, 3000);
    });
}

#[test]
fn programs_survive_the_end_of_the_profiler_at_any_time() {
    with_program(|mut world: World| {
        let mut command = world.command(crate::world::program().expect("it is built"));
        command
            .arg("load")
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let mut child = command.spawn().expect("it runs");
        let mut config = every(4096);
        config.block_client = Some(true);
        for _ in 0..20 {
            let consumer = world.begin(&config);
            world.stop_profiler();
            drop(consumer);
            assert!(
                child.try_wait().expect("it can be asked").is_none(),
                "the program still runs"
            );
            world.restart_profiler();
        }
        child.kill().expect("it ran until now");
        child.wait().expect("it ends");
    });
}

#[test]
fn heap_013_each_process_of_a_forking_server_is_recorded() {
    with_program(|world| {
        let recorded = world.record(&every(1 << 16), |world| world.run(&["workers", "6"]));
        let mut sums: Vec<(u64, u64)> = recorded
            .dumps()
            .iter()
            .map(|dump| {
                let of = |function: &str| recorded.sums(dump, function).allocated >> 20;
                (of("leaked"), of("passing"))
            })
            .filter(|&sums| sums != (0, 0))
            .collect();
        sums.sort();
        let mut expected = vec![(0, 4); 6];
        expected.push((2, 0));
        expected.extend([(4, 0); 6]);
        assert_eq!(sums, expected);
    });
}

#[test]
fn a_process_that_changes_its_user_is_still_recorded_and_can_be_again() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: changing the user needs root");
        return;
    }
    with_program(|mut world: World| {
        use std::os::unix::fs::PermissionsExt;
        let all = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(world.folder.path(), all).expect("it is ours");
        let consumer = world.begin(&every(4096));
        let mut target = world.target(&["change-user"]);
        target.waits();
        let pid = target.pid();
        let first = end(consumer);
        let leaked = first.sums(first.last(pid, "libc.malloc"), "leaked");
        assert_eq!(leaked.allocated, 3 << 20);
        // Its files in /proc belong to root now.
        world.restart_profiler();
        let consumer = world.begin(&only(pid));
        target.goes_on();
        target.ends();
        let second = end(consumer);
        let leaked = second.sums(second.last(pid, "libc.malloc"), "leaked");
        assert_eq!(leaked.allocated, 4 << 20);
    });
}

#[test]
fn samples_of_killed_processes_are_kept() {
    with_program(|world| {
        let recorded = world.record(&every(512), |world| {
            for round in 0..12 {
                let mut command = world.command(crate::world::program().expect("it is built"));
                command
                    .arg("load")
                    .stdin(Stdio::null())
                    .stdout(Stdio::null());
                let mut child = command.spawn().expect("it runs");
                let maps = format!("/proc/{}/maps", child.id());
                let is_recorded = || {
                    let maps = std::fs::read_to_string(&maps).unwrap_or_default();
                    maps.contains("memfd:ferretto-heap")
                };
                while !is_recorded() {
                    std::thread::yield_now();
                }
                // At a random point of its work.
                (0..round * 5000).for_each(|_| std::hint::spin_loop());
                child.kill().expect("it runs");
                child.wait().expect("it ends");
            }
            world.run(&["leak", "1000"]);
        });
        let last = recorded.dumps().last().expect("a dump");
        assert!(!last.is_corrupt && !last.has_overrun);
        assert_eq!(recorded.sums(last, "passing").live(), 0);
        assert!(recorded.sums(last, "leaked").allocated > 200_000);
        assert!(recorded.dumps().iter().all(|dump| !dump.is_corrupt));
    });
}
