//! Tests of process and system counters with a simulated `/proc` and `/sys`.

use std::path::Path;

use crate::common::Packets;
use ferretto_probes::{DataSource, ProcessStats, SysStats};
use ferretto_proto::process_stats::Process as Counters;
use ferretto_proto::process_tree::{Process, Thread};
use ferretto_proto::trace_packet::Data;
use ferretto_proto::{ProcessStatsConfig, SysStatsConfig, TracePacket};

/// A simulated root directory.
struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        Self {
            root: tempfile::tempdir().expect("a folder"),
        }
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.root.path().join(file);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, text).expect("written");
    }

    /// Adds a process with its main thread and another one.
    fn process(&self, pid: i32, name: &str, cmdline: &str) {
        self.thread(pid, pid, name, "");
        self.write(&format!("proc/{pid}/cmdline"), cmdline);
        self.write(&format!("proc/{pid}/oom_score_adj"), "-10\n");
        let stat = format!("{pid} ({name}) S 1 1 1 0 -1 0 0 0 0 0 5 3 0 0 20 0 1 0 400 0 0");
        self.write(&format!("proc/{pid}/stat"), &stat);
        self.write(&format!("proc/{pid}/task/{pid}/status"), "");
    }

    fn thread(&self, tid: i32, tgid: i32, name: &str, more: &str) {
        let status = format!(
            "Name:\t{name}\nTgid:\t{tgid}\nPid:\t{tid}\nPPid:\t1\nUid:\t33\t0\t0\t0\n{more}\
             VmSize:\t 100 kB\nVmRSS:\t 50 kB\nRssAnon:\t 20 kB\n"
        );
        self.write(&format!("proc/{tid}/status"), &status);
        self.write(&format!("proc/{tgid}/task/{tid}/status"), "");
    }

    fn remove(&self, pid: i32) {
        std::fs::remove_dir_all(self.root.path().join(format!("proc/{pid}"))).expect("removed");
    }

    fn proc(&self) -> &Path {
        self.root.path()
    }

    fn process_stats(&self, config: &ProcessStatsConfig) -> (ProcessStats, Packets) {
        let packets = Packets::default();
        let root = self.proc().join("proc");
        (
            ProcessStats::with_root(root, config, Box::new(packets.clone())),
            packets,
        )
    }

    fn sys_stats(&self, config: &SysStatsConfig) -> (SysStats, Packets) {
        let packets = Packets::default();
        let sink = Box::new(packets.clone());
        (
            SysStats::with_root(self.proc(), config, sink, &|problem| println!("{problem}")),
            packets,
        )
    }
}

fn trees(packets: &[TracePacket]) -> (Vec<Process>, Vec<Thread>) {
    let (mut processes, mut threads) = (Vec::new(), Vec::new());
    for packet in packets {
        if let Some(Data::ProcessTree(tree)) = &packet.data {
            assert!(
                packet.timestamp.is_some() && tree.collection_end_timestamp >= packet.timestamp
            );
            processes.extend(tree.processes.iter().cloned());
            threads.extend(tree.threads.iter().cloned());
        }
    }
    (processes, threads)
}

fn counters(packets: &[TracePacket]) -> Vec<Vec<Counters>> {
    let stats = packets.iter().filter_map(|packet| match &packet.data {
        Some(Data::ProcessStats(stats)) => Some(stats.processes.clone()),
        _ => None,
    });
    stats.collect()
}

fn pids(processes: &[Process]) -> Vec<i32> {
    processes.iter().filter_map(|process| process.pid).collect()
}

#[test]
fn the_initial_scan_describes_processes_and_threads() {
    let machine = Machine::new();
    machine.process(10, "shell", "/bin/sh\0-c\0\0true\0");
    machine.thread(11, 10, "worker", "");
    let config = ProcessStatsConfig {
        scan_all_processes_on_start: Some(true),
        record_thread_names: Some(true),
        record_process_age: Some(true),
        ..Default::default()
    };
    let (mut source, packets) = machine.process_stats(&config);
    source.start();
    let (processes, threads) = trees(&packets.decoded());
    let shell = processes
        .iter()
        .find(|process| process.pid == Some(10))
        .expect("described");
    assert_eq!((shell.ppid, shell.uid), (Some(1), Some(33)));
    assert_eq!(
        shell.cmdline,
        [b"/bin/sh".to_vec(), b"-c".to_vec(), b"true".to_vec()]
    );
    assert_eq!(shell.process_start_from_boot, Some(4_000_000_000));
    let ids: Vec<_> = threads
        .iter()
        .map(|t| (t.tid, t.tgid, t.name.clone()))
        .collect();
    let name = |text: &str| Some(text.as_bytes().to_vec());
    assert!(ids.contains(&(Some(10), Some(10), name("shell"))));
    assert!(ids.contains(&(Some(11), Some(10), name("worker"))));
}

#[test]
fn probes_055_and_056_ids_from_events_are_described_once_and_again_when_renamed() {
    let machine = Machine::new();
    machine.process(10, "shell", "/bin/sh\0");
    machine.thread(11, 10, "worker", "");
    let (mut source, packets) = machine.process_stats(&ProcessStatsConfig::default());
    source.start();
    assert!(packets.raw().is_empty());
    source.on_pids(&[0, 11, 999]);
    let (processes, threads) = trees(&packets.decoded());
    assert_eq!(pids(&processes), [10]);
    assert_eq!(
        threads
            .iter()
            .filter_map(|thread| thread.tid)
            .collect::<Vec<_>>(),
        [10, 11]
    );
    source.on_pids(&[10, 11]);
    assert_eq!(packets.raw().len(), 1);
    machine.process(10, "other", "/bin/other\0");
    source.on_renamed(&[10]);
    source.on_pids(&[10, 11]);
    let (processes, _) = trees(&packets.decoded());
    assert_eq!(pids(&processes), [10, 10]);
    assert_eq!(processes[1].cmdline, [b"/bin/other".to_vec()]);

    let off = ProcessStatsConfig {
        quirks: vec![ferretto_proto::process_stats_config::Quirks::DISABLE_ON_DEMAND],
        ..Default::default()
    };
    let (mut source, packets) = machine.process_stats(&off);
    source.on_pids(&[10]);
    assert!(packets.raw().is_empty());
}

#[test]
fn probes_057_clearing_forgets_and_says_so() {
    let machine = Machine::new();
    machine.process(10, "shell", "/bin/sh\0");
    let (mut source, packets) = machine.process_stats(&ProcessStatsConfig::default());
    source.on_pids(&[10]);
    source.clear_incremental_state();
    source.on_pids(&[10]);
    let packets = packets.decoded();
    let cleared: Vec<_> = packets
        .iter()
        .map(|packet| packet.incremental_state_cleared)
        .collect();
    assert_eq!(cleared, [Some(true), Some(true)]);
    assert_eq!(pids(&trees(&packets).0), [10, 10]);
}

#[test]
fn kernel_threads_are_read_once_until_they_end() {
    let machine = Machine::new();
    let status = |line: &str| format!("Name:\tx\nTgid:\t10\nPid:\t10\nPPid:\t2\n{line}");
    let memory = "VmSize:\t 100 kB\n";
    let config = ProcessStatsConfig {
        proc_stats_poll_ms: Some(1000),
        ..Default::default()
    };
    // As kernels before 6.10, or a process that has no memory yet: it may have some later.
    for (kind, is_read_again) in [
        ("Kthread:\t1\n", false),
        ("Kthread:\t0\n", true),
        ("", true),
    ] {
        let (mut source, packets) = machine.process_stats(&config);
        let mut counts = |change: &dyn Fn(&mut ProcessStats), text: &str| {
            change(&mut source);
            machine.write("proc/10/status", &status(text));
            let before = counters(&packets.decoded()).len();
            source.poll();
            counters(&packets.decoded()).len() > before
        };
        assert!(!counts(&|_| (), kind), "{kind}");
        assert!(!counts(&|_| (), memory), "{kind}");
        assert_eq!(
            counts(&|it| it.clear_incremental_state(), memory),
            is_read_again,
            "{kind}"
        );
        let ended = |it: &mut ProcessStats| {
            it.on_ended(&[10]);
            it.clear_incremental_state();
        };
        assert!(counts(&ended, memory), "{kind}");
    }
}

#[test]
fn clearing_reads_proc_again_only_if_a_task_may_have_changed() {
    let machine = Machine::new();
    machine.process(10, "shell", "/bin/sh\0");
    machine.thread(11, 10, "worker", "");
    let (mut source, packets) = machine.process_stats(&ProcessStatsConfig::default());
    let mut last_command = |change: &dyn Fn(&mut ProcessStats)| {
        change(&mut source);
        source.clear_incremental_state();
        source.on_pids(&[11]);
        let (processes, threads) = trees(&packets.decoded());
        let last: Vec<_> = threads.iter().rev().take(2).map(|it| it.tid).collect();
        assert_eq!(last, [Some(11), Some(10)], "both are described each time");
        processes.last().map(|process| process.cmdline.concat())
    };
    let command = |text: &str| Some(text.as_bytes().to_vec());
    assert_eq!(last_command(&|_| ()), command("/bin/sh"));

    // Nothing reports the ends of tasks: the id may belong to another process.
    machine.process(10, "shell", "/bin/second\0");
    assert_eq!(last_command(&|_| ()), command("/bin/second"));

    // An event would have reported it.
    machine.process(10, "shell", "/bin/third\0");
    assert_eq!(
        last_command(&|it| it.on_ended(&[999])),
        command("/bin/second")
    );
    assert_eq!(
        last_command(&|it| it.on_renamed(&[10])),
        command("/bin/third")
    );
    machine.process(10, "shell", "/bin/fourth\0");
    assert_eq!(
        last_command(&|it| it.on_ended(&[10])),
        command("/bin/fourth")
    );

    // Not all changes are reported.
    machine.process(10, "shell", "/bin/fifth\0");
    let mut clears = 0;
    while last_command(&|_| ()) != command("/bin/fifth") {
        clears += 1;
        assert!(clears < 6, "/proc is never read again");
    }
}

#[test]
fn probes_058_and_059_unchanged_values_wait_for_the_cache_to_expire() {
    let machine = Machine::new();
    machine.process(10, "shell", "/bin/sh\0");
    let poll = |ttl| {
        let config = ProcessStatsConfig {
            proc_stats_poll_ms: Some(50),
            proc_stats_cache_ttl_ms: ttl,
            record_process_runtime: Some(true),
            ..Default::default()
        };
        let (mut source, packets) = machine.process_stats(&config);
        assert_eq!(source.poll_period_ms(), Some(100));
        for _ in 0..11 {
            source.poll();
        }
        counters(&packets.decoded())
    };
    assert_eq!(poll(None).len(), 11);
    let cached = poll(Some(1000));
    assert_eq!(cached.len(), 2);
    let all = &cached[0][0];
    assert_eq!(
        (all.vm_size_kb, all.vm_rss_kb, all.rss_anon_kb),
        (Some(100), Some(50), Some(20))
    );
    assert_eq!((all.oom_score_adj, all.vm_swap_kb), (Some(-10), None));
    assert_eq!(all.runtime_user_mode, Some(50_000_000));
    assert_eq!(all.runtime_kernel_mode, Some(30_000_000));
}

#[test]
fn only_changed_values_are_written_and_a_reused_id_is_described_again() {
    let machine = Machine::new();
    machine.process(10, "shell", "/bin/sh\0");
    let config = ProcessStatsConfig {
        proc_stats_poll_ms: Some(100),
        proc_stats_cache_ttl_ms: Some(60_000),
        ..Default::default()
    };
    let (mut source, packets) = machine.process_stats(&config);
    source.poll();
    machine.write("proc/10/oom_score_adj", "5\n");
    source.poll();
    let written = counters(&packets.decoded());
    assert_eq!(
        (written[1][0].oom_score_adj, written[1][0].vm_size_kb),
        (Some(5), None)
    );
    machine.remove(10);
    source.poll();
    machine.process(10, "new", "/bin/new\0");
    source.poll();
    let (processes, _) = trees(&packets.decoded());
    assert_eq!(pids(&processes), [10, 10]);
    assert_eq!(processes[1].cmdline, [b"/bin/new".to_vec()]);
}

#[test]
fn probes_060_and_061_kernel_threads_have_their_name_and_nested_ones_inner_ids() {
    let machine = Machine::new();
    machine.thread(20, 20, "kthreadd x", "Kthread:\t1\n");
    machine.thread(30, 30, "init", "NSpid:\t30\t5\t1\nKthread:\t0\n");
    let (mut source, packets) = machine.process_stats(&ProcessStatsConfig::default());
    source.on_pids(&[20, 30]);
    let (processes, threads) = trees(&packets.decoded());
    assert_eq!(processes[0].cmdline, [b"kthreadd x".to_vec()]);
    assert_eq!(processes[0].cmdline_is_comm, Some(true));
    assert_eq!(
        (processes[0].is_kthread, processes[1].is_kthread),
        (Some(true), Some(false))
    );
    assert_eq!(processes[1].nspid, [5, 1]);
    assert_eq!(threads[1].nstid, [5, 1]);
    assert!(processes[0].nspid.is_empty());
}

#[test]
fn open_files_are_resolved_once() {
    let machine = Machine::new();
    machine.process(10, "shell", "/bin/sh\0");
    let folder = machine.proc().join("proc/10/fd");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::os::unix::fs::symlink("/dev/null", folder.join("0")).expect("a link");
    let config = ProcessStatsConfig {
        resolve_process_fds: Some(true),
        ..Default::default()
    };
    let (mut source, packets) = machine.process_stats(&config);
    source.on_fds(&[(10, 0)]);
    assert!(packets.raw().is_empty(), "nobody knows the thread yet");
    source.on_pids(&[10]);
    source.on_fds(&[(10, 0), (10, 1)]);
    source.on_fds(&[(10, 0)]);
    let written = counters(&packets.decoded());
    assert_eq!((written.len(), written[0][0].pid), (1, Some(10)));
    assert_eq!(
        written[0][0].fds[0].path.as_deref(),
        Some(&b"/dev/null"[..])
    );
}

fn sys_stats(packet: &TracePacket) -> &ferretto_proto::SysStats {
    match &packet.data {
        Some(Data::SysStats(stats)) => stats,
        other => panic!("{other:?}"),
    }
}

#[test]
fn probes_062_inconsistent_periods_sample_nothing() {
    let machine = Machine::new();
    machine.write("proc/meminfo", "MemTotal: 1 kB\n");
    machine.write("proc/stat", "processes 5\n");
    let config = |meminfo, stat| SysStatsConfig {
        meminfo_period_ms: Some(meminfo),
        stat_period_ms: Some(stat),
        ..Default::default()
    };
    let (mut source, packets) = machine.sys_stats(&config(100, 250));
    source.poll();
    let decoded = packets.decoded();
    assert!(sys_stats(&decoded[0]).meminfo.is_empty());
    let (mut source, packets) = machine.sys_stats(&config(100, 300));
    assert_eq!(source.poll_period_ms(), Some(100));
    (0..4).for_each(|_| source.poll());
    let forks: Vec<_> = packets
        .decoded()
        .iter()
        .map(|p| sys_stats(p).num_forks)
        .collect();
    assert_eq!(forks, [Some(5), None, None, Some(5)]);
}

#[test]
fn probes_065_a_missing_pressure_file_does_not_disturb_the_rest() {
    let machine = Machine::new();
    machine.write("proc/meminfo", "MemFree: 7 kB\n");
    machine.write(
        "proc/pressure/memory",
        "some avg10=0.00 total=2\nfull avg10=0.00 total=1\n",
    );
    let config = SysStatsConfig {
        meminfo_period_ms: Some(10),
        psi_period_ms: Some(10),
        ..Default::default()
    };
    let (mut source, packets) = machine.sys_stats(&config);
    assert_eq!(source.unreadable().count(), 2);
    source.poll();
    let decoded = packets.decoded();
    let stats = sys_stats(&decoded[0]);
    assert!(decoded[0].timestamp.is_some());
    assert!(stats.collection_end_timestamp >= decoded[0].timestamp);
    assert_eq!(stats.meminfo[0].value, Some(7));
    let psi: Vec<_> = stats
        .psi
        .iter()
        .map(|p| (p.resource.map(|r| r as i32), p.total_ns))
        .collect();
    assert_eq!(psi, [(Some(5), Some(2000)), (Some(6), Some(1000))]);
}

#[test]
fn probes_066_and_the_rest_of_sysfs() {
    let machine = Machine::new();
    let cpus = "sys/devices/system/cpu";
    machine.write(
        &format!("{cpus}/cpu0/cpufreq/scaling_cur_freq"),
        "1800000\n",
    );
    machine.write(&format!("{cpus}/cpu1/online"), "0\n");
    machine.write(&format!("{cpus}/cpu2/cpufreq/scaling_cur_freq"), "900000\n");
    machine.write(&format!("{cpus}/cpu2/cpuidle/state0/name"), "POLL\n");
    machine.write(&format!("{cpus}/cpu2/cpuidle/state0/time"), "77\n");
    machine.write("sys/class/thermal/thermal_zone0/temp", "41000\n");
    machine.write("sys/class/thermal/thermal_zone0/type", "cpu\n");
    machine.write("sys/class/thermal/cooling_device0/type", "fan\n");
    machine.write("sys/class/devfreq/gpu/cur_freq", "5000\n");
    machine.write(
        "sys/class/drm/card0/device/pp_dpm_sclk",
        "0: 300Mhz\n1: 700Mhz *\n",
    );
    let config = SysStatsConfig {
        cpufreq_period_ms: Some(10),
        cpuidle_period_ms: Some(10),
        thermal_period_ms: Some(10),
        devfreq_period_ms: Some(10),
        gpufreq_period_ms: Some(10),
        ..Default::default()
    };
    let (mut source, packets) = machine.sys_stats(&config);
    source.poll();
    let decoded = packets.decoded();
    let stats = sys_stats(&decoded[0]);
    assert_eq!(stats.cpufreq_khz, [1_800_000, 0, 900_000]);
    assert_eq!(
        (stats.thermal_zone.len(), stats.thermal_zone[0].temp),
        (1, Some(41_000))
    );
    assert_eq!(
        (stats.devfreq[0].value, &stats.gpufreq_mhz[..]),
        (Some(5000), &[700][..])
    );
    let idle = &stats.cpuidle_state[0];
    assert_eq!(
        (idle.cpu_id, idle.cpuidle_state_entry[0].duration_us),
        (Some(2), Some(77))
    );
}
