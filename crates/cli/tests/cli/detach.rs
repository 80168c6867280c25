//! Sessions that continue without the process that started them.

use std::time::Duration;

use ferretto_client::{Address, Consumer};
use ferretto_proto::TraceConfig;
use ferretto_proto::trace_config::BufferConfig;

use crate::daemons::{traced, traced_probes};
use crate::world::{Running, World};

const CONFIG: &str = r#"
buffers { size_kb: 1024 }
data_sources { config { name: "linux.sys_stats" sys_stats_config { meminfo_period_ms: 100 } } }
write_into_file: true
file_write_period_ms: 3600000
"#;

const START: [&str; 7] = ["--detach", "k", "--txt", "-c", "config", "-o", "out"];

#[test]
fn cli_023_a_session_is_detached_and_attached_again() {
    let world = World::new();
    let (_service, _probes) = (traced(&world), traced_probes(&world));
    world.write("config", CONFIG);
    world.run("perfetto", &START).returned(0);
    for _ in 0..2 {
        let output = world.run("perfetto", &["--is_detached", "k"]).returned(0);
        assert_eq!(output.stderr, "");
    }
    world
        .run("perfetto", &["--attach", "wrong"])
        .returned(2)
        .complained("Session re-attach failed.");
    world
        .run("perfetto", &["--attach", "k", "--stop"])
        .returned(0)
        .complained("Trace written into the output file");
    assert!(world.summary("out").losses_known());
    let output = world.run("perfetto", &["--is_detached", "k"]).returned(2);
    assert_eq!(output.stderr, "");
}

#[test]
fn cli_023_attaching_waits_for_the_end() {
    let world = World::new();
    let (_service, _probes) = (traced(&world), traced_probes(&world));
    world.write("config", CONFIG);
    world.run("perfetto", &START).returned(0);
    let attach = ["--attach", "k", "--notify-fd", "9"];
    let mut command = world.command_with_9("perfetto", &attach);
    let mut attached = Running::new(command.spawn().unwrap());
    attached.wait_for("\0");
    world.run("perfetto", &["--is_detached", "k"]).returned(2);
    attached.signal(rustix::process::Signal::INT);
    attached
        .finish()
        .returned(0)
        .complained("SIGINT/SIGTERM received: disabling tracing.")
        .complained("Trace written into the output file");
    assert!(world.summary("out").losses_known());
}

#[test]
fn cli_023_a_session_that_cannot_be_detached_is_reported_with_the_reason() {
    let world = World::new();
    world.write("config", CONFIG);
    world
        .run("perfetto", &["--is_detached", "k"])
        .returned(1)
        .complained("Could not connect to the traced socket");
    let _service = traced(&world);
    world.run("perfetto", &START).returned(0);
    let mut again = START;
    again[6] = "again";
    world
        .run("perfetto", &again)
        .returned(1)
        .complained("Session detach failed");
    world.write(
        "config",
        "buffers { size_kb: 4 } data_sources { config { target_buffer: 9 } } write_into_file: true",
    );
    again[1] = "other";
    world
        .run("perfetto", &again)
        .returned(1)
        .complained("Service error: ")
        .complained("Session detach failed");
    assert!(!world.path("again").exists());
}

#[test]
fn a_session_without_a_file_is_detached_again() {
    let world = World::new();
    let _service = traced(&world);
    let limit = Duration::from_secs(30);
    let address = Address::Path(world.path("consumer.sock"));
    let mut consumer = Consumer::connect(&address, limit).unwrap();
    let config = TraceConfig {
        buffers: vec![BufferConfig {
            size_kb: Some(64),
            ..Default::default()
        }],
        ..Default::default()
    };
    consumer.enable_tracing(config, None).unwrap();
    consumer.detach("k", limit).unwrap();
    world
        .run("perfetto", &["--attach", "k", "--stop"])
        .returned(1)
        .complained("does not write into a file");
    world.run("perfetto", &["--is_detached", "k"]).returned(0);
}
