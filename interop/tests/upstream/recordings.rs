//! The recordings, made with commands like in a terminal. Each writes its traces to files named
//! `*.pftrace*`.

use ferretto_interop::config::{config, filter, triggered};
use ferretto_interop::trace;
use ferretto_proto::trace_config::buffer_config::FillPolicy;
use ferretto_proto::trace_config::compression_config::{Deflate, Zstd};
use ferretto_proto::trace_config::trigger_config::TriggerMode;
use ferretto_proto::trace_config::{BufferConfig, CompressionConfig, DataSource};
use ferretto_proto::{
    DataSourceConfig, Message as _, MessageField, ProcessStatsConfig, SysStatsConfig, TraceConfig,
};

use crate::mix::{Run, contents, end};

/// Records 100 numbers of each producer until interrupted.
fn record(run: &mut Run, config: &TraceConfig, args: &[&str]) {
    let command = run.perfetto(config, args);
    run.await_start(1);
    run.produce("slices 10");
    run.numbers(0, 200);
    run.interrupt(command);
}

fn long() -> TraceConfig {
    TraceConfig {
        write_into_file: Some(true),
        file_write_period_ms: Some(100),
        ..config(4096)
    }
}

pub(crate) fn plain(run: &mut Run) {
    record(run, &config(4096), &["-o", "plain.pftrace"]);
}

pub(crate) fn long_in_the_clients_file(run: &mut Run) {
    record(run, &long(), &["-o", "long.pftrace"]);
}

pub(crate) fn long_in_a_file_of_the_service(run: &mut Run) {
    let path = run.world.file("own.pftrace");
    let config = TraceConfig {
        output_path: Some(path.display().to_string().into()),
        ..long()
    };
    record(run, &config, &[]);
}

pub(crate) fn ring(run: &mut Run) {
    let mut config = config(64);
    config.buffers[0].fill_policy = Some(FillPolicy::RING_BUFFER);
    let command = run.perfetto(&config, &["-o", "ring.pftrace"]);
    run.await_start(1);
    run.numbers(0, 10_000);
    run.interrupt(command);
}

pub(crate) fn start_trigger(run: &mut Run) {
    // Ends by itself, some time after the trigger.
    let config = triggered(TriggerMode::START_TRACING, 1500);
    let command = run.perfetto(&config, &["-o", "start.pftrace"]);
    run.await_session(":CONFIGURED:");
    run.run("trigger_perfetto", &["another", "go"]);
    run.await_start(1);
    run.numbers(0, 200);
    run.wait(command);
}

pub(crate) fn stop_trigger(run: &mut Run) {
    let config = triggered(TriggerMode::STOP_TRACING, 10);
    let command = run.perfetto(&config, &["-o", "stop.pftrace"]);
    run.await_start(1);
    run.numbers(0, 200);
    run.run("trigger_perfetto", &["go"]);
    run.wait(command);
}

pub(crate) fn triggers_in_a_config(run: &mut Run) {
    let config = triggered(TriggerMode::STOP_TRACING, 10);
    let command = run.perfetto(&config, &["-o", "stop.pftrace"]);
    run.await_start(1);
    run.numbers(0, 200);
    let trigger = TraceConfig {
        activate_triggers: vec![b"go".to_vec()],
        ..Default::default()
    };
    let activating = run.perfetto(&trigger, &[]);
    run.wait(activating);
    run.wait(command);
}

pub(crate) fn snapshots(run: &mut Run) {
    let config = triggered(TriggerMode::CLONE_SNAPSHOT, 0);
    let command = run.perfetto(&config, &["-o", "snapshot.pftrace"]);
    run.await_start(1);
    for snapshot in 0..2 {
        run.numbers(snapshot * 100, 100);
        run.run("trigger_perfetto", &["go"]);
        run.await_file(&format!("snapshot.pftrace.{snapshot}"));
    }
    run.interrupt(command);
}

pub(crate) fn cloned(run: &mut Run) {
    let config = TraceConfig {
        unique_session_name: Some(b"original".to_vec()),
        ..config(4096)
    };
    let command = run.perfetto(&config, &["-o", "original.pftrace"]);
    run.await_start(1);
    run.numbers(0, 200);
    let copy = ["--clone-by-name", "original", "-o", "named.pftrace"];
    run.run("perfetto", &copy);
    run.numbers(200, 200);
    let number = run.await_session(":STARTED:");
    run.run("perfetto", &["--clone", &number, "-o", "numbered.pftrace"]);
    run.run("perfetto", &["--clone", "4711", "-o", "nobody.pftrace"]);
    run.interrupt(command);
}

pub(crate) fn cloned_from_a_file(run: &mut Run) {
    let config = TraceConfig {
        unique_session_name: Some(b"original".to_vec()),
        // The file is still empty when it is cloned.
        file_write_period_ms: Some(600_000),
        ..long()
    };
    let command = run.perfetto(&config, &["-o", "original.pftrace"]);
    run.await_start(1);
    run.numbers(0, 200);
    let copy = ["--clone-by-name", "original", "-o", "copy.pftrace"];
    run.run("perfetto", &copy);
    run.numbers(200, 200);
    run.interrupt(command);
}

pub(crate) fn detached(run: &mut Run) {
    let detaching = run.perfetto(&long(), &["-o", "detached.pftrace", "--detach", "key"]);
    run.wait(detaching);
    run.await_start(1);
    run.numbers(0, 200);
    run.run("perfetto", &["--is_detached", "another"]);
    run.run("perfetto", &["--is_detached", "key"]);
    run.numbers(200, 200);
    run.run("perfetto", &["--attach", "another"]);
    run.run("perfetto", &["--attach", "key", "--stop"]);
    run.run("perfetto", &["--is_detached", "key"]);
}

fn compressed(run: &mut Run, compression: CompressionConfig) {
    let config = TraceConfig {
        compression: compression.into(),
        ..config(4096)
    };
    record(run, &config, &["-o", "compressed.pftrace"]);
}

pub(crate) fn deflated(run: &mut Run) {
    let deflate = CompressionConfig {
        deflate: MessageField::some(Deflate::default()),
        ..Default::default()
    };
    compressed(run, deflate);
}

pub(crate) fn zstd(run: &mut Run) {
    let zstd = CompressionConfig {
        zstd: MessageField::some(Zstd::default()),
        ..Default::default()
    };
    compressed(run, zstd);
}

pub(crate) fn filtered(run: &mut Run) {
    let config = TraceConfig {
        trace_filter: filter().into(),
        ..config(4096)
    };
    let command = run.perfetto(&config, &["-o", "filtered.pftrace"]);
    run.await_start(1);
    run.produce("text public");
    run.produce("text key=hunter2");
    run.interrupt(command);
}

pub(crate) fn background(run: &mut Run) {
    let config = run.world.config_file(&config(4096));
    for (started, flag) in [(1, "--background"), (2, "--background-wait")] {
        let output = run.world.file(&format!("{started}.pftrace"));
        let output = output.display().to_string();
        let printed = run.run("perfetto", &[flag, "-c", &config, "-o", &output]);
        run.await_start(started);
        run.numbers(0, 200);
        end(printed.trim().parse().expect("the process id is printed"));
    }
}

pub(crate) fn probes(run: &mut Run) {
    let _probes = run.start_probes();
    let sources = probe_sources();
    let names = sources.each_ref().map(|source| source.name.clone());
    run.await_sources(&names.map(Option::unwrap_or_default));
    let config = TraceConfig {
        buffers: vec![BufferConfig {
            size_kb: Some(4096),
            ..Default::default()
        }],
        data_sources: sources
            .map(|config| DataSource {
                config: config.into(),
                ..Default::default()
            })
            .into(),
        duration_ms: Some(500),
        ..Default::default()
    };
    let command = run.perfetto(&config, &["-o", "probes.pftrace"]);
    run.wait(command);
    let bytes = contents(&run.world.file("probes.pftrace"));
    trace::assert_nothing_lost(&trace::decode(&bytes));
}

fn probe_sources() -> [DataSourceConfig; 3] {
    let processes = ProcessStatsConfig {
        scan_all_processes_on_start: Some(true),
        proc_stats_poll_ms: Some(100),
        ..Default::default()
    };
    let system = SysStatsConfig {
        meminfo_period_ms: Some(100),
        ..Default::default()
    };
    let named = |name: &str| DataSourceConfig {
        name: Some(name.into()),
        ..Default::default()
    };
    [
        DataSourceConfig {
            process_stats_config: Some(processes.encode_to_vec()),
            ..named("linux.process_stats")
        },
        DataSourceConfig {
            sys_stats_config: Some(system.encode_to_vec()),
            ..named("linux.sys_stats")
        },
        named("linux.system_info"),
    ]
}

pub(crate) fn refused(run: &mut Run) {
    let mut bad = config(4096);
    bad.buffers[0].size_kb = Some(0);
    let command = run.perfetto(&bad, &["-o", "refused.pftrace"]);
    run.wait(command);
}
