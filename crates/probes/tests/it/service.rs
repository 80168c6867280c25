//! Tests of the probes as a producer of a real service, over real sockets.

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::common::{TestInstance, fill};
use ferretto_client::{Address, Consumer};
use ferretto_host::{Host, HostOptions};
use ferretto_probes::{Notice, Probes, ProbesOptions};
use ferretto_proto::perfetto_metatrace::RecordType;
use ferretto_proto::trace_packet::Data;
use ferretto_proto::{
    DataSourceConfig, FtraceConfig, Message, PriorityBoostConfig, ProcessStatsConfig,
    SysStatsConfig, TraceConfig, TracePacket, priority_boost_config::BoostPolicy, trace_config,
};

const LIMIT: Duration = Duration::from_secs(20);

/// A service and the probes, each on a thread, in a temporary directory.
struct World {
    folder: tempfile::TempDir,
    host: Option<(ferretto_host::Stopper, JoinHandle<()>)>,
    probes: Option<(ferretto_probes::Stopper, JoinHandle<()>)>,
    ready: mpsc::Receiver<()>,
    notices: mpsc::Receiver<Notice>,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (is_ready, ready) = mpsc::channel();
        let (noticed, notices) = mpsc::channel();
        let (is_ready, noticed) = (
            std::sync::Mutex::new(is_ready),
            std::sync::Mutex::new(noticed),
        );
        let options = ProbesOptions {
            address: Some(Address::Path(folder.path().join("producer.sock"))),
            on_ready: Some(std::sync::Arc::new(move || {
                let _ = is_ready.lock().expect("not poisoned").send(());
            })),
            on_notice: Some(std::sync::Arc::new(move |notice: &Notice| {
                let _ = noticed.lock().expect("not poisoned").send(notice.clone());
            })),
            ..Default::default()
        };
        let probes = Probes::new(options).expect("probes");
        let mut world = Self {
            folder,
            host: None,
            probes: None,
            ready,
            notices,
        };
        world.start_host();
        let stopper = probes.stopper();
        world.probes = Some((stopper, std::thread::spawn(move || probes.run())));
        world.wait_ready();
        world
    }

    fn start_host(&mut self) {
        let host = Host::bind(HostOptions::in_folder(self.folder.path())).expect("a host");
        let stopper = host.stopper();
        let thread = std::thread::spawn(move || host.run().expect("the host runs"));
        self.host = Some((stopper, thread));
    }

    fn stop_host(&mut self) {
        if let Some((stopper, thread)) = self.host.take() {
            stopper.stop();
            thread.join().expect("the host ends");
        }
    }

    fn wait_ready(&self) {
        self.ready.recv_timeout(LIMIT).expect("the probes register");
    }

    fn consumer(&self) -> Consumer {
        let address = Address::Path(self.folder.path().join("consumer.sock"));
        Consumer::connect(&address, LIMIT).expect("a consumer")
    }

    /// Records while `during` runs, and flushes.
    fn record(&self, config: TraceConfig, during: impl FnOnce()) -> Vec<TracePacket> {
        let mut consumer = self.consumer();
        consumer.enable_tracing(config, None).expect("enabled");
        // The first flush waits for the start of every data source.
        consumer.flush(LIMIT).expect("a flush");
        during();
        consumer.flush(LIMIT).expect("a flush");
        consumer.disable_tracing(LIMIT).expect("disabled");
        assert!(consumer.wait_for_end(LIMIT).expect("connected").is_some());
        let mut packets = Vec::new();
        let read = consumer.read_buffers(LIMIT, |bytes| {
            packets.push(TracePacket::decode_from_slice(bytes)?);
            Ok::<(), ferretto_proto::DecodeError>(())
        });
        read.expect("a readable trace");
        consumer.free_buffers(LIMIT).expect("freed");
        packets
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some((stopper, thread)) = self.probes.take() {
            stopper.stop();
            let _ = thread.join();
        }
        if let Some((stopper, thread)) = self.host.take() {
            stopper.stop();
            let _ = thread.join();
        }
    }
}

fn source(name: &str, fill: impl FnOnce(&mut DataSourceConfig)) -> trace_config::DataSource {
    let mut config = DataSourceConfig {
        name: Some(name.as_bytes().to_vec()),
        ..Default::default()
    };
    fill(&mut config);
    trace_config::DataSource {
        config: config.into(),
        ..Default::default()
    }
}

fn config(sources: Vec<trace_config::DataSource>) -> TraceConfig {
    let buffer = trace_config::BufferConfig {
        size_kb: Some(16 << 10),
        ..Default::default()
    };
    TraceConfig {
        buffers: vec![buffer],
        data_sources: sources,
        ..Default::default()
    }
}

fn process_stats() -> trace_config::DataSource {
    source("linux.process_stats", |config| {
        let wanted = ProcessStatsConfig {
            scan_all_processes_on_start: Some(true),
            proc_stats_poll_ms: Some(100),
            ..Default::default()
        };
        config.process_stats_config = Some(wanted.encode_to_vec());
    })
}

fn sys_stats() -> trace_config::DataSource {
    source("linux.sys_stats", |config| {
        let wanted = SysStatsConfig {
            meminfo_period_ms: Some(100),
            stat_period_ms: Some(100),
            ..Default::default()
        };
        config.sys_stats_config = Some(wanted.encode_to_vec());
    })
}

fn ftrace(instance: &TestInstance, events: &[&str]) -> trace_config::DataSource {
    source("linux.ftrace", |config| {
        let wanted = FtraceConfig {
            ftrace_events: events
                .iter()
                .map(|event| event.as_bytes().to_vec())
                .collect(),
            instance_name: Some(instance.name.clone().into_bytes()),
            ..Default::default()
        };
        config.ftrace_config = Some(wanted.encode_to_vec());
    })
}

#[test]
fn probes_002_registered_again_after_a_restart() {
    let mut world = World::new();
    let names = |world: &World| {
        let state = world
            .consumer()
            .query_service_state(LIMIT)
            .expect("a state");
        assert_eq!(
            state.producers[0].name.as_deref(),
            Some(&b"perfetto.traced_probes"[..])
        );
        let described = state
            .data_sources
            .iter()
            .filter_map(|s| s.ds_descriptor.as_option());
        described
            .filter_map(|d| String::from_utf8(d.name.clone()?).ok())
            .collect::<Vec<_>>()
    };
    let wanted = [
        "linux.frozen_ftrace",
        "linux.ftrace",
        "linux.inode_file_map",
        "linux.process_stats",
        "linux.sys_stats",
        "linux.sysfs_power",
        "linux.system_info",
        "linux.systemd_journald",
        "perfetto.metatrace",
    ];
    assert_eq!(names(&world), wanted);
    world.stop_host();
    world.start_host();
    world.wait_ready();
    assert_eq!(names(&world), wanted);
}

#[test]
fn every_data_source_records_through_the_service() {
    let Some(instance) = TestInstance::new("service") else {
        return;
    };
    let world = World::new();
    let wanted = config(vec![
        ftrace(
            &instance,
            &[
                "sched/sched_switch",
                "sched/sched_waking",
                "task/task_newtask",
            ],
        ),
        process_stats(),
        sys_stats(),
        source("linux.system_info", |_| {}),
    ]);
    let packets = world.record(wanted, || {
        let thread = std::thread::Builder::new()
            .name("worker".into())
            .spawn(|| {});
        thread.expect("a thread").join().expect("it ends");
    });
    let count = |is: fn(&Data) -> bool| {
        packets
            .iter()
            .filter(|packet| packet.data.as_ref().is_some_and(is))
            .count()
    };
    assert!(count(|data| matches!(data, Data::FtraceEvents(_))) > 0);
    assert_eq!(count(|data| matches!(data, Data::FtraceStats(_))), 4);
    assert!(count(|data| matches!(data, Data::ProcessTree(_))) > 0);
    assert!(count(|data| matches!(data, Data::ProcessStats(_))) > 0);
    assert!(count(|data| matches!(data, Data::SysStats(_))) > 0);
    assert_eq!(count(|data| matches!(data, Data::CpuInfo(_))), 1);
    let on = instance
        .fs
        .read("events/sched/sched_switch/enable")
        .expect("readable");
    assert_eq!(on.trim(), "0");
}

#[test]
fn probes_023_a_full_buffer_is_read_long_before_the_period_ends() {
    let Some(instance) = TestInstance::new("service-watermark") else {
        return;
    };
    let world = World::new();
    let wanted = source("linux.ftrace", |config| {
        let wanted = FtraceConfig {
            ftrace_events: vec![b"ftrace/print".to_vec()],
            instance_name: Some(instance.name.clone().into_bytes()),
            buffer_size_kb: Some(256),
            drain_period_ms: Some(60_000),
            drain_buffer_percent: Some(10),
            ..Default::default()
        };
        config.ftrace_config = Some(wanted.encode_to_vec());
    });
    let events_read = || -> u64 {
        let cpus = instance.fs.cpus();
        cpus.iter()
            .map(|&cpu| instance.fs.cpu_stats(cpu).read_events)
            .sum()
    };
    world.record(config(vec![wanted]), || {
        if world
            .notices
            .try_iter()
            .any(|notice| matches!(notice, Notice::Failed { .. }))
        {
            println!("skipped: this kernel does not wake readers at a level");
            return;
        }
        let before = events_read();
        fill(&instance);
        let started = std::time::Instant::now();
        while events_read() == before {
            assert!(started.elapsed() < LIMIT, "nothing was read");
            std::thread::yield_now();
        }
    });
}

#[test]
fn probes_003_a_source_that_fails_does_not_keep_others_from_recording() {
    let world = World::new();
    let broken = source("linux.ftrace", |config| {
        let wanted = FtraceConfig {
            ftrace_events: vec![b"a/b/c".to_vec()],
            ..Default::default()
        };
        config.ftrace_config = Some(wanted.encode_to_vec());
    });
    let packets = world.record(config(vec![broken, process_stats()]), || {});
    let is_tree = |packet: &TracePacket| matches!(packet.data, Some(Data::ProcessTree(_)));
    assert!(packets.iter().any(is_tree));
    let failed = world.notices.try_iter().any(|notice| {
        matches!(&notice, Notice::Failed { source, reason }
            if source == "linux.ftrace" && reason.contains("a/b/c"))
    });
    assert!(failed);
}

/// Returns the nice values of this process's threads.
fn nice_values() -> Vec<i64> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("threads");
    let stats = tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    let nice = stats.filter_map(|stat| {
        let fields = stat.rsplit_once(") ")?.1.to_owned();
        fields.split(' ').nth(16)?.parse().ok()
    });
    nice.collect()
}

#[test]
fn a_data_source_can_raise_the_priority_while_it_records() {
    let world = World::new();
    let boosted = |policy, priority| {
        let mut source = process_stats();
        source.config.get_or_insert_default().priority_boost = PriorityBoostConfig {
            policy: Some(policy),
            priority: Some(priority),
            ..Default::default()
        }
        .into();
        source
    };
    let nice = |priority| boosted(BoostPolicy::POLICY_SCHED_OTHER, priority);
    let nonsense = boosted(BoostPolicy::POLICY_SCHED_FIFO, 100);
    let config = config(vec![nice(13), nice(9), nonsense]);
    let mut boosted = 0;
    world.record(config, || {
        boosted = nice_values().iter().filter(|nice| **nice == -13).count();
    });
    let failures: Vec<_> = world
        .notices
        .try_iter()
        .filter(|notice| matches!(notice, Notice::Failed { .. }))
        .map(|notice| notice.to_string())
        .collect();
    let nonsense = "linux.process_stats: its priority is not raised: For the 'POLICY_SCHED_FIFO' \
                    priority must be in the range [1; 99]";
    assert!(failures.contains(&nonsense.to_owned()), "{failures:?}");
    if failures.len() > 1 {
        let refused = "linux.process_stats: the priority stays as it is: setpriority(-13) failed";
        assert!(failures[0].starts_with(refused), "{failures:?}");
        println!("skipped: priorities may not be raised here");
        return;
    }
    assert_eq!(boosted, 1, "the thread of the probes, and no other");
    drop(world);
    assert!(!nice_values().contains(&-13));
}

#[test]
fn the_probes_record_their_own_activities() {
    let world = World::new();
    // Listed first, so that it is started and stopped first.
    let sources = vec![
        source("perfetto.metatrace", |_| {}),
        process_stats(),
        sys_stats(),
    ];
    let packets = world.record(config(sources), || {});
    let reported: std::collections::BTreeSet<u32> = packets
        .iter()
        .filter_map(|packet| match &packet.data {
            Some(Data::PerfettoMetatrace(reported)) => match reported.record_type {
                Some(RecordType::EventId(id)) => Some(id),
                _ => None,
            },
            _ => None,
        })
        .collect();
    // READ_SYS_STATS, PS_WRITE_ALL_PROCESSES and PS_WRITE_ALL_PROCESS_STATS of upstream's
    // `metatrace_events.h`.
    assert_eq!(reported, [12, 13, 16].into());
}
