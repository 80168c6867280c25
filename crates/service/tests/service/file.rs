//! Sessions that write into a file.

use std::os::fd::OwnedFd;

use ferretto_proto::TraceConfig;
use ferretto_proto::fields::trace_packet as f;
use ferretto_proto::get_async_command_response::Cmd;
use ferretto_proto::trace_config::{FFlushMode, WriteFlushMode};
use ferretto_service::{ClientId, ServiceOptions};
use ferretto_shm::TraceWriter;

use crate::world::{ConfigBuilder, File, IO_ERROR, World, WriteFault, split_file, texts};

pub fn null() -> OwnedFd {
    std::fs::File::options()
        .write(true)
        .open("/dev/null")
        .unwrap()
        .into()
}

fn into_file() -> ConfigBuilder {
    ConfigBuilder::new()
        .source("p")
        .with(|c| c.write_into_file = Some(true))
}

struct Recording {
    world: World,
    producer: ClientId,
    consumer: ClientId,
    session: u64,
    writer: TraceWriter,
}

fn record(change: impl FnOnce(&mut TraceConfig)) -> Recording {
    let mut world = World::new();
    let producer = world.simple_producer("p");
    let consumer = world.consumer();
    let session = world.enable_into(consumer, into_file().with(change), null());
    let writer = world.writer(producer);
    Recording {
        world,
        producer,
        consumer,
        session,
        writer,
    }
}

impl Recording {
    fn write(&mut self, text: &str) {
        self.world.write(self.producer, &mut self.writer, &[text]);
    }

    fn file(&self) -> &File {
        self.world.files.values().next().unwrap()
    }

    fn texts(&self) -> Vec<String> {
        texts(&split_file(&self.file().bytes))
    }
}

#[test]
fn service_059_the_file_is_complete_when_the_end_is_told() {
    let mut r = record(|_| {});
    r.write("early");
    r.world.run_for(5000);
    assert_eq!(r.texts(), ["early"]);
    assert!(
        r.world.read(r.consumer).is_empty(),
        "not before the file is closed"
    );
    r.write("late");
    r.world.disable(r.consumer);
    assert_eq!(r.world.ended(r.consumer, r.session).unwrap(), "");
    assert!(r.file().closed);
    assert_eq!(r.texts(), ["early", "late"]);
    let packets = split_file(&r.file().bytes);
    assert_eq!(packets[0].kind(), f::CLOCK_SNAPSHOT);
    let stats = packets
        .last()
        .unwrap()
        .stats()
        .expect("statistics at the end");
    assert_eq!(stats.buffer_stats[0].chunks_read, Some(2));
    // The session is readable now, but has only the end of its trace.
    assert_eq!(r.world.read(r.consumer).len(), 1);
}

#[test]
fn service_032_where_to_write() {
    let mut world = World::new();
    let consumer = world.consumer();
    let nowhere = world.enable(consumer, into_file());
    assert_eq!(
        world.ended(consumer, nowhere).unwrap(),
        "When write_into_file==true either a FD needs to be passed or output_path must be \
         populated (but not both)"
    );
    let to_path = || into_file().with(|c| c.output_path = Some(b"/tmp/trace".to_vec()));
    // A path takes precedence over a descriptor.
    world.enable_into(consumer, to_path(), null());
    let path = world.files.values().next().unwrap().path.as_deref();
    assert_eq!(path, Some(&b"/tmp/trace"[..]));
    let other = world.consumer();
    let exists = world.enable(other, to_path());
    assert_eq!(
        world.ended(other, exists).unwrap(),
        "Failed to create the trace file /tmp/trace"
    );
    world.free(consumer);
    assert_eq!(world.sessions(), 0);
    assert!(world.files.values().all(|file| file.closed));
    assert_eq!(world.files.len(), 1);
}

#[test]
fn files_of_other_users_are_created_only_in_the_output_folders() {
    let to_path = |path: &str| into_file().with(|c| c.output_path = Some(path.into()));
    let refused = |world: &mut World, uid, path: &str| {
        let consumer = world.consumer_of(uid);
        let request = world.enable(consumer, to_path(path));
        world.ended(consumer, request).unwrap()
    };
    let mut world = World::with(ServiceOptions {
        uid: 7,
        ..Default::default()
    });
    for uid in [0, 7] {
        for path in ["trace", "../trace", "/tmp/../etc/trace", "/"] {
            let output = refused(&mut world, uid, path);
            assert!(output.contains("absolute path of a file"), "{output}");
        }
    }
    let output = refused(&mut world, 1000, "/tmp/trace");
    assert!(
        output.contains("/tmp/trace: the service creates no files for user 1000"),
        "{output}"
    );
    assert!(world.files.is_empty());

    let mut world = World::with(ServiceOptions {
        uid: 7,
        output_folders: vec!["/var/traces".into()],
        ..Default::default()
    });
    for path in [
        "/tmp/trace",
        "/var/traces",
        "/var/traces/../x",
        "/var/traces2/x",
    ] {
        refused(&mut world, 1000, path);
    }
    assert!(world.files.is_empty());
    let consumer = world.consumer_of(1000);
    world.enable(consumer, to_path("/var/traces/a/b"));
    let file = world.files.values().next().unwrap();
    let output = file.output.as_ref().unwrap();
    assert_eq!(output.folder.as_deref(), Some("/var/traces".as_ref()));
    assert_eq!(output.path, std::path::Path::new("a/b"));
    assert_eq!(output.owner, Some(1000));
    let own = world.consumer_of(7);
    world.enable(own, to_path("/tmp/trace"));
    let output = |file: &File| file.output.clone().filter(|output| output.owner.is_none());
    let output = world.files.values().find_map(output).unwrap();
    assert_eq!((output.folder, output.path), (None, "/tmp/trace".into()));
}

#[test]
fn requests_wait_while_the_file_is_created() {
    use ferretto_ipc::port::consumer::Request;
    let mut world = World::new();
    let consumer = world.consumer();
    let config = into_file().with(|c| {
        c.output_path = Some(b"/out".to_vec());
        c.deferred_start = Some(true);
    });
    let request = ferretto_proto::EnableTracingRequest {
        trace_config: config.0.into(),
        ..Default::default()
    };
    let requests = [
        Request::EnableTracing(request),
        Request::StartTracing(Default::default()),
        Request::DisableTracing(Default::default()),
    ];
    for (id, request) in requests.into_iter().enumerate() {
        let request_id = Some(100 + id as u64);
        let event = ferretto_service::Event::ConsumerRequest {
            client: consumer,
            request_id,
            request,
            fd: None,
        };
        world.service.handle(&world.now, event);
    }
    world.carry_out();
    assert_eq!(world.ended(consumer, 100).unwrap(), "");
    let packets = split_file(&world.files.values().next().unwrap().bytes);
    assert!(
        packets.iter().any(|packet| packet.event() == Some(2)),
        "the session was started"
    );
}

#[test]
fn a_file_created_for_a_disconnected_consumer_is_closed() {
    let mut world = World::new();
    let consumer = world.consumer();
    let config = into_file().with(|c| c.output_path = Some(b"/out".to_vec()));
    let request = ferretto_proto::EnableTracingRequest {
        trace_config: config.0.into(),
        ..Default::default()
    };
    let request = ferretto_ipc::port::consumer::Request::EnableTracing(request);
    let request_id = Some(1);
    let event = ferretto_service::Event::ConsumerRequest {
        client: consumer,
        request_id,
        request,
        fd: None,
    };
    world.service.handle(&world.now, event);
    world.service.handle(
        &world.now,
        ferretto_service::Event::Disconnected { client: consumer },
    );
    world.consumers.remove(&consumer);
    world.carry_out();
    assert!(world.files.values().all(|file| file.closed));
    assert_eq!(world.sessions(), 0);
}

#[test]
fn service_058_the_file_stays_below_its_limit() {
    const LIMIT: u64 = 20_000;
    let mut r = record(|c| {
        c.max_file_size_bytes = Some(LIMIT);
        c.file_write_period_ms = Some(100);
    });
    let line = "x".repeat(500);
    for _ in 0..60 {
        r.write(&line);
        r.world.run_for(50);
    }
    assert_eq!(r.world.ended(r.consumer, r.session).unwrap(), "");
    let size = r.file().bytes.len() as u64;
    assert!(size < LIMIT && size > LIMIT - 600, "{size}");
    assert!(r.texts().iter().all(|text| *text == line), "no torn packet");
    // The end of the recording is in the file, too.
    let packets = split_file(&r.file().bytes);
    let [.., event, stats] = packets.as_slice() else {
        panic!("no packets");
    };
    assert!(event.has(f::SERVICE_EVENT) && stats.has(f::TRACE_STATS));
}

#[test]
fn service_060_periods() {
    for (asked, expected) in [(0, 5000), (50, 100), (100, 100), (1234, 1234)] {
        let mut r = record(|c| {
            c.file_write_period_ms = Some(asked);
            c.write_flush_mode = Some(WriteFlushMode::WRITE_FLUSH_DISABLED);
        });
        r.write("data");
        let aligned = expected - r.world.now.monotonic / 1_000_000 % expected;
        r.world.run_for(aligned - 1);
        assert!(r.file().bytes.is_empty());
        r.world.run_for(1);
        assert_eq!(r.texts(), ["data"]);
    }
}

#[test]
fn service_060_data_goes_to_the_medium_if_asked_to() {
    for (mode, expected) in [
        (FFlushMode::FFLUSH_DISABLED, 0),
        (FFlushMode::FFLUSH_ENABLED, 3),
    ] {
        let mut r = record(|c| {
            c.file_write_period_ms = Some(100);
            c.fflush_post_write = Some(mode);
        });
        r.world.run_for(300);
        assert_eq!(r.file().synced, expected);
    }
}

#[test]
fn service_047_flushes_with_writes() {
    let flushes = |mode, period: u32, ms: u64| {
        let mut r = record(|c| {
            c.write_flush_mode = Some(mode);
            c.file_write_period_ms = Some(period);
            c.flush_period_ms = Some(200);
        });
        r.world.run_for(ms);
        let commands = r.world.producers[&r.producer].commands.iter();
        let flushes = commands.filter_map(|command| match command {
            Cmd::Flush(flush) => Some(flush.flags.unwrap()),
            _ => None,
        });
        let flushes: Vec<_> = flushes.collect();
        assert!(flushes.iter().all(|flags| *flags == 0x11));
        flushes.len()
    };
    assert_eq!(flushes(WriteFlushMode::WRITE_FLUSH_ENABLED, 100, 300), 3);
    assert_eq!(flushes(WriteFlushMode::WRITE_FLUSH_AUTO, 1000, 5000), 1);
    assert_eq!(
        flushes(WriteFlushMode::WRITE_FLUSH_UNSPECIFIED, 6000, 12_000),
        2
    );
    assert_eq!(flushes(WriteFlushMode::WRITE_FLUSH_DISABLED, 1000, 1000), 5);
}

#[test]
fn a_full_disk_ends_the_session_with_an_error() {
    let mut r = record(|c| c.file_write_period_ms = Some(100));
    r.world.disk = 10_000;
    let line = "x".repeat(500);
    for _ in 0..40 {
        r.write(&line);
        r.world.run_for(50);
    }
    assert_eq!(
        r.world.ended(r.consumer, r.session).unwrap(),
        "Failed to write the trace file: No space left on device (os error 28)"
    );
    assert!(r.file().closed);
    assert!(
        r.texts().iter().all(|text| *text == line),
        "all written packets are complete"
    );
    r.world.free(r.consumer);
    assert_eq!(r.world.sessions(), 0);
    // The service continues.
    r.world.disk = usize::MAX;
    let again = r.world.enable_into(r.consumer, into_file(), null());
    r.world.disable(r.consumer);
    assert_eq!(r.world.ended(r.consumer, again).unwrap(), "");
}

#[test]
fn freeing_a_recording_session_completes_its_file() {
    let mut r = record(|_| {});
    r.write("data");
    r.world.free(r.consumer);
    assert_eq!(r.world.ended(r.consumer, r.session).unwrap(), "");
    assert_eq!(r.texts(), ["data"]);
    assert!(r.file().closed);
    assert_eq!(r.world.sessions(), 0);
}

#[test]
fn a_large_backlog_is_written_in_pieces() {
    let mut r = record(|c| c.buffers[0].size_kb = Some(8192));
    let line = "x".repeat(3900);
    for _ in 0..1000 {
        r.write(&line);
    }
    r.world.run_for(5000);
    assert_eq!(r.texts().len(), 1000);
}

#[test]
fn at_most_one_batch_is_prepared_while_another_is_written() {
    let mut r = record(|c| c.buffers[0].size_kb = Some(8192));
    let line = "x".repeat(3900);
    for _ in 0..1000 {
        r.write(&line);
    }
    // The first of four writes is slow.
    r.world.write_faults.push_back(WriteFault::Short);
    r.world.run_for(5000);
    assert!(r.file().bytes.len() < 1 << 20);
    assert!((2 << 20..3 << 20).contains(&r.file().handed_over()));
    r.world.deliver_late();
    assert_eq!(r.texts().len(), 1000);
}

#[test]
fn a_failed_write_ends_the_session_despite_another_pending_write() {
    let mut r = record(|c| c.buffers[0].size_kb = Some(8192));
    let line = "x".repeat(3900);
    for _ in 0..1000 {
        r.write(&line);
    }
    r.world
        .write_faults
        .extend([WriteFault::Error(IO_ERROR), WriteFault::None]);
    r.world.run_for(5000);
    assert_eq!(
        r.world.ended(r.consumer, r.session).unwrap(),
        "Failed to write the trace file: Input/output error (os error 5)"
    );
    assert!(r.file().closed && r.file().bytes.is_empty());
}

#[test]
fn an_unused_descriptor_is_closed() {
    let mut world = World::new();
    let consumer = world.consumer();
    world.enable_into(consumer, ConfigBuilder::new(), null());
    assert!(world.files.is_empty());
}
