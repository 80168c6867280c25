//! Sessions through the sockets: commands, memory, files.

use std::io::Read as _;
use std::os::fd::OwnedFd;

use crate::common::{Client, TestHost, enable};
use ferretto_ipc::Address;
use ferretto_ipc::port::{consumer, producer};
use ferretto_ipc::socket::Socket;
use ferretto_proto::clone_session_request::Selector;
use ferretto_proto::get_async_command_response::Cmd;
use ferretto_proto::{
    CloneSessionRequest, CloneSessionResponse, CommitDataRequest, GetAsyncCommandResponse,
    InitializeConnectionRequest, commit_data_request,
};
use ferretto_shm::Region;
use ferretto_wire::{Fields, Value};
use rustix::fs::{MemfdFlags, SealFlags};

type Producer = Client<producer::Port>;
type Consumer = Client<consumer::Port>;

/// Returns the next command to a producer, with its descriptor.
fn command(producer: &mut Producer) -> (Cmd, Option<OwnedFd>) {
    loop {
        let reply = producer.reply();
        if let Ok(producer::Reply::GetAsyncCommand(GetAsyncCommandResponse {
            cmd: Some(cmd),
            ..
        })) = reply.result
        {
            assert!(reply.has_more);
            return (cmd, reply.fd);
        }
    }
}

/// Returns a producer with the data source `test`, ready for commands.
fn ready_producer(host: &TestHost) -> Producer {
    let mut producer = host.producer();
    producer.initialize("tester");
    producer.open_commands();
    producer.register("test");
    producer
}

fn disable(consumer: &mut Consumer) {
    let request = consumer::Request::DisableTracing(Default::default());
    consumer.0.invoke(&request, None, false).unwrap();
}

fn read_packets(consumer: &mut Consumer) -> Vec<u8> {
    let request = consumer::Request::ReadBuffers(Default::default());
    let id = consumer.0.invoke(&request, None, true).unwrap();
    let mut bytes = Vec::new();
    loop {
        let reply = consumer.reply();
        if reply.request_id != id {
            continue;
        }
        let Ok(consumer::Reply::ReadBuffers(slices)) = reply.result else {
            panic!("{reply:?}")
        };
        for slice in slices.slices {
            bytes.extend_from_slice(slice.data.as_deref().unwrap_or_default());
        }
        if !reply.has_more {
            return bytes;
        }
    }
}

#[test]
fn ipc_035_ipc_045_a_producer_is_set_up_started_and_stopped_in_order_with_its_memory() {
    let host = TestHost::start();
    let mut producer = ready_producer(&host);
    let mut consumer = host.consumer();
    let session = consumer
        .0
        .invoke(&enable("test", |_| {}), None, true)
        .unwrap();

    let (setup, fd) = command(&mut producer);
    let Cmd::SetupTracing(setup) = setup else {
        panic!("{setup:?}")
    };
    assert_eq!(setup.shared_buffer_page_size_kb, Some(4));
    let region = Region::from_untrusted_fd(fd.expect("the memory")).unwrap();
    assert_eq!(region.size(), 256 * 1024);

    let (setup, fd) = command(&mut producer);
    let Cmd::SetupDataSource(setup) = setup else {
        panic!("{setup:?}")
    };
    assert!(fd.is_none());
    let (start, _) = command(&mut producer);
    let Cmd::StartDataSource(start) = start else {
        panic!("{start:?}")
    };
    assert_eq!(start.new_instance_id, setup.new_instance_id);
    assert_eq!(start.config, setup.config);

    disable(&mut consumer);
    let (stop, _) = command(&mut producer);
    let Cmd::StopDataSource(stop) = stop else {
        panic!("{stop:?}")
    };
    assert_eq!(stop.instance_id, setup.new_instance_id);

    let reply = consumer.reply();
    assert_eq!(reply.request_id, session);
    assert!(reply.result.is_ok() && !reply.has_more);
    assert!(!read_packets(&mut consumer).is_empty());
}

/// Returns a memory file of this size with these seals.
fn memory(size: u64, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create("test", flags).unwrap();
    rustix::fs::ftruncate(&fd, size).unwrap();
    rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
    fd
}

fn initialize_with(producer: &mut Producer, page_size: u32, fd: OwnedFd) -> bool {
    let request = producer::Request::InitializeConnection(InitializeConnectionRequest {
        producer_name: Some("own memory".into()),
        producer_provided_shmem: Some(true),
        shared_memory_page_size_hint_bytes: Some(page_size),
        ..Default::default()
    });
    producer.0.invoke(&request, Some(fd), true).unwrap();
    let Ok(producer::Reply::InitializeConnection(reply)) = producer.reply().result else {
        panic!()
    };
    reply.using_shmem_provided_by_producer == Some(true)
}

#[test]
fn ipc_036_a_producer_s_memory_is_adopted_only_if_it_is_safe() {
    let host = TestHost::start();
    let good = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW;
    let cases = [
        (true, 65536, good, 4096),
        (false, 65536, SealFlags::empty(), 4096),
        (false, 65536, SealFlags::SHRINK | SealFlags::GROW, 4096),
        (false, 0, good, 4096),
        (false, 65536, good | SealFlags::WRITE, 4096),
        (false, 65537, good, 4096),
        (false, 64 << 20, good, 4096),
        (false, 1 << 40, good, 4096),
        (false, 65536, good, 0),
        (false, 65536, good, 4097),
        (false, 4096, good, 8192),
    ];
    for (index, (adopted, size, seals, page_size)) in cases.into_iter().enumerate() {
        let mut producer = host.producer();
        let fd = memory(size, seals);
        assert_eq!(
            initialize_with(&mut producer, page_size, fd),
            adopted,
            "case {index}"
        );
        if adopted {
            continue;
        }
        // The service's memory comes with the first session.
        producer.open_commands();
        producer.register("test");
        let mut consumer = host.consumer();
        consumer
            .0
            .invoke(&enable("test", |_| {}), None, true)
            .unwrap();
        let (Cmd::SetupTracing(_), Some(_)) = command(&mut producer) else {
            panic!("case {index}")
        };
    }
    // The descriptor is not a file.
    let mut producer = host.producer();
    assert!(!initialize_with(
        &mut producer,
        4096,
        rustix::pipe::pipe().unwrap().0
    ));
    host.assert_alive();
}

#[test]
fn ipc_042_a_producer_over_tcp_sends_its_chunks_inline() {
    let host = TestHost::start_with(|options| {
        options.producers.push("127.0.0.1:0".parse().unwrap());
    });
    let address = Address::Tcp {
        host: "127.0.0.1".to_owned(),
        port: host.port.unwrap(),
    };
    let mut producer = Producer::bind(Socket::connect(&address).unwrap());
    producer.initialize("remote");
    producer.open_commands();
    producer.register("test");
    let mut consumer = host.consumer();
    consumer
        .0
        .invoke(&enable("test", |_| {}), None, true)
        .unwrap();
    let (Cmd::SetupTracing(_), None) = command(&mut producer) else {
        panic!()
    };
    let (Cmd::SetupDataSource(setup), _) = command(&mut producer) else {
        panic!()
    };
    let buffer = setup.config.target_buffer;

    // Chunk 0 of writer 1 with one packet, which contains a `for_testing` string.
    let packet = b"\xa2\x38\x09\x0a\x07remote!";
    let mut chunk = vec![0, 0, 0, 0, 1, 0, 1, 0];
    chunk.push(packet.len() as u8);
    chunk.extend_from_slice(packet);
    let request = CommitDataRequest {
        chunks_to_move: vec![commit_data_request::ChunksToMove {
            page: Some(0),
            chunk: Some(0),
            target_buffer: buffer,
            data: Some(chunk),
            ..Default::default()
        }],
        ..Default::default()
    };
    assert!(
        producer
            .call(&producer::Request::CommitData(request))
            .result
            .is_ok()
    );
    disable(&mut consumer);
    let packets = read_packets(&mut consumer);
    assert!(packets.windows(7).any(|window| window == b"remote!"));
}

/// Returns true if the bytes are complete `Trace.packet` fields.
fn is_whole_trace(bytes: &[u8]) -> bool {
    Fields::new(bytes).all(|field| {
        field.is_ok_and(|field| field.number == 1 && matches!(field.value, Value::Bytes(_)))
    })
}

fn into_file(config: &mut ferretto_proto::TraceConfig) {
    config.write_into_file = Some(true);
}

/// Runs a session that writes into `fd`, and returns its result.
fn write_into(consumer: &mut Consumer, fd: OwnedFd) -> ferretto_proto::EnableTracingResponse {
    let id = consumer
        .0
        .invoke(&enable("test", into_file), Some(fd), true)
        .unwrap();
    disable(consumer);
    loop {
        let reply = consumer.reply();
        if reply.request_id == id {
            let Ok(consumer::Reply::EnableTracing(response)) = reply.result else {
                panic!()
            };
            return response;
        }
    }
}

#[test]
fn a_session_writes_into_the_given_file() {
    let host = TestHost::start();
    let mut consumer = host.consumer();
    let path = host.folder().join("given");
    let response = write_into(&mut consumer, std::fs::File::create(&path).unwrap().into());
    assert_eq!(response.error, None);
    let trace = std::fs::read(&path).unwrap();
    assert!(!trace.is_empty() && is_whole_trace(&trace));
}

fn clone_into(host: &TestHost, id: u64, fd: OwnedFd) -> CloneSessionResponse {
    let mut consumer = host.consumer();
    let request = consumer::Request::CloneSession(CloneSessionRequest {
        selector: Some(Selector::SessionId(id)),
        ..Default::default()
    });
    let request_id = consumer.0.invoke(&request, Some(fd), true).unwrap();
    let reply = consumer.reply();
    assert_eq!(reply.request_id, request_id);
    match reply.result {
        Ok(consumer::Reply::CloneSession(response)) => response,
        _ => panic!(),
    }
}

#[test]
fn ipc_063_a_clone_of_a_session_that_writes_into_a_file() {
    let host = TestHost::start();
    let mut consumer = host.consumer();
    let (path, copy) = (host.folder().join("original"), host.folder().join("copy"));
    let request = enable("test", |config| {
        into_file(config);
        config.output_path = Some(path.as_os_str().as_encoded_bytes().to_vec());
        config.file_write_period_ms = Some(100);
    });
    consumer.0.invoke(&request, None, true).unwrap();
    // The packets at the beginning of every trace are soon written.
    while std::fs::metadata(&path).map_or(0, |file| file.len()) == 0 {
        std::thread::yield_now();
    }
    let response = clone_into(&host, 1, std::fs::File::create(&copy).unwrap().into());
    assert_eq!(response.was_write_into_file, Some(true));
    let trace = std::fs::read(&copy).unwrap();
    let begin = std::fs::read(&path).unwrap();
    assert!(is_whole_trace(&trace) && trace.starts_with(&begin[..100]));

    // A pipe cannot be read again.
    let (_reader, writer) = std::io::pipe().unwrap();
    let mut other = host.consumer();
    let request = enable("test", into_file);
    other.0.invoke(&request, Some(writer.into()), true).unwrap();
    let id = 3;
    let response = clone_into(&host, id, std::fs::File::create(&copy).unwrap().into());
    assert_eq!(response.success, Some(false));
    let error = String::from_utf8(response.error.unwrap()).unwrap();
    assert!(error.contains("failed to copy existing file: "), "{error}");
}

#[test]
fn a_session_creates_the_file_it_names() {
    let host = TestHost::start();
    let mut consumer = host.consumer();
    let path = host.folder().join("named");
    let request = enable("test", |config| {
        into_file(config);
        config.output_path = Some(path.as_os_str().as_encoded_bytes().to_vec());
    });
    let id = consumer.0.invoke(&request, None, true).unwrap();
    disable(&mut consumer);
    while consumer.reply().request_id != id {}
    assert!(is_whole_trace(&std::fs::read(&path).unwrap()));
    assert!(!std::fs::read(&path).unwrap().is_empty());
}

#[test]
fn ipc_037_a_file_that_exists_or_is_not_given_fails_the_session() {
    let host = TestHost::start();
    let path = host.folder().join("existing");
    std::fs::write(&path, "data").unwrap();
    let exists = |config: &mut ferretto_proto::TraceConfig| {
        into_file(config);
        config.output_path = Some(path.as_os_str().as_encoded_bytes().to_vec());
    };
    for (request, expected) in [
        (enable("test", exists), "Failed to create the trace file"),
        (
            enable("test", into_file),
            "either a FD needs to be passed or output_path must be populated",
        ),
    ] {
        let mut consumer = host.consumer();
        let reply = consumer.call(&request);
        let Ok(consumer::Reply::EnableTracing(response)) = reply.result else {
            panic!()
        };
        let error = String::from_utf8(response.error.unwrap()).unwrap();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"data");
}

#[test]
fn a_full_disk_ends_the_session_and_not_the_service() {
    let host = TestHost::start();
    let mut consumer = host.consumer();
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    write_into(&mut consumer, full.into());
    host.assert_alive();
}

#[test]
fn an_unread_pipe_blocks_only_its_session() {
    let host = TestHost::start();
    let (mut reader, writer) = std::io::pipe().unwrap();
    // A pipe of one page, filled before the session begins.
    rustix::pipe::fcntl_setpipe_size(&writer, 4096).unwrap();
    assert_eq!(rustix::io::write(&writer, &[0; 4096]).unwrap(), 4096);
    let mut consumer = host.consumer();
    let id = consumer
        .0
        .invoke(&enable("test", into_file), Some(writer.into()), true)
        .unwrap();
    disable(&mut consumer);
    host.assert_alive();
    let other = write_into(&mut host.consumer(), tempfile::tempfile().unwrap().into());
    assert_eq!(other.error, None);
    // Once there is space, the session ends normally.
    let drain = std::thread::spawn(move || {
        let mut trace = Vec::new();
        reader.read_to_end(&mut trace).unwrap();
        trace
    });
    while consumer.reply().request_id != id {}
    drop(consumer);
    let trace = drain.join().unwrap();
    assert!(trace.len() > 4096 && is_whole_trace(&trace[4096..]));
}

#[test]
fn ipc_065_a_consumer_that_leaves_takes_its_session_along() {
    let host = TestHost::start();
    let mut producer = ready_producer(&host);
    let mut consumer = host.consumer();
    consumer
        .0
        .invoke(&enable("test", |_| {}), None, true)
        .unwrap();
    for _ in 0..3 {
        command(&mut producer);
    }
    drop(consumer);
    let (Cmd::StopDataSource(_), None) = command(&mut producer) else {
        panic!()
    };
}

#[test]
fn ipc_053_a_producer_that_leaves_is_forgotten() {
    let host = TestHost::start();
    let producer = ready_producer(&host);
    let mut consumer = host.consumer();
    let query = consumer::Request::QueryServiceState(Default::default());
    let producers = |consumer: &mut Consumer| {
        let Ok(consumer::Reply::QueryServiceState(state)) = consumer.call(&query).result else {
            panic!()
        };
        (
            state.service_state.producers.len(),
            state.service_state.data_sources.len(),
        )
    };
    assert_eq!(producers(&mut consumer), (1, 1));
    drop(producer);
    // Connections are handled in the order of their events.
    while producers(&mut consumer) != (0, 0) {}
}

#[test]
fn the_last_writes_of_a_session_are_complete_when_the_service_stops() {
    let host = TestHost::start();
    let path = host.folder().join("trace");
    let mut consumer = host.consumer();
    let file = std::fs::File::create(&path).unwrap();
    consumer
        .0
        .invoke(&enable("test", into_file), Some(file.into()), true)
        .unwrap();
    host.stop_after(|| is_whole_trace(&std::fs::read(&path).unwrap()));
}

#[test]
fn an_unread_pipe_does_not_delay_the_end() {
    let host = TestHost::start_with(|options| {
        options.limits.file_patience = std::time::Duration::from_millis(1);
    });
    let (_reader, writer) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&writer, 4096).unwrap();
    assert_eq!(rustix::io::write(&writer, &[0; 4096]).unwrap(), 4096);
    let mut consumer = host.consumer();
    consumer
        .0
        .invoke(&enable("test", into_file), Some(writer.into()), true)
        .unwrap();
    disable(&mut consumer);
    drop(consumer);
    host.assert_alive();
    host.stop();
}
