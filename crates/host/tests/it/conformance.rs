//! Protocol requirements that concern both the service and its sockets.

use crate::common::{Client, TestHost, enable, read_frame, send_raw};
use ferretto_ipc::frame::{self, Frame, MAX_FRAME_SIZE, Message};
use ferretto_ipc::port::{consumer, producer};
use ferretto_proto::{
    DataSourceDescriptor, InitializeConnectionRequest, Message as _, MessageField,
    QueryServiceStateResponse, RegisterDataSourceRequest,
};
use ferretto_wire::{Fields, encode};

#[test]
fn ipc_010_names_need_not_be_utf_8() {
    let host = TestHost::start();
    let mut producer = host.producer();
    let request = producer::Request::InitializeConnection(InitializeConnectionRequest {
        producer_name: Some(b"caf\xe9 \xff".to_vec()),
        ..Default::default()
    });
    assert!(producer.call(&request).result.is_ok());
    let descriptor = DataSourceDescriptor {
        name: Some(b"\xfe\xff".to_vec()),
        ..Default::default()
    };
    let request = producer::Request::RegisterDataSource(RegisterDataSourceRequest {
        data_source_descriptor: MessageField::some(descriptor),
        ..Default::default()
    });
    assert!(producer.call(&request).result.is_ok());
    let request = consumer::Request::QueryServiceState(Default::default());
    let reply = host.consumer().call(&request);
    let Ok(consumer::Reply::QueryServiceState(state)) = reply.result else {
        panic!()
    };
    let state = state.service_state;
    assert_eq!(
        state.producers[0].name.as_deref(),
        Some(&b"caf\xe9 \xff"[..])
    );
    assert_eq!(
        state.data_sources[0].ds_descriptor.name.as_deref(),
        Some(&b"\xfe\xff"[..])
    );
}

#[test]
fn ipc_040_ipc_062_a_large_state_comes_in_frames_that_fit() {
    let host = TestHost::start();
    let mut producers: Vec<_> = (0..20).map(|_| host.producer()).collect();
    for (index, producer) in producers.iter_mut().enumerate() {
        producer.initialize(&format!("{index} {}", "p".repeat(500)));
        for source in 0..100 {
            producer.register(&format!("{index} {source} {}", "d".repeat(300)));
        }
    }
    let (whole, frames) = state(&host);
    assert!(frames > 4);
    assert_eq!(whole.service_state.producers.len(), 20);
    assert_eq!(whole.service_state.data_sources.len(), 2000);
}

/// Descriptors are as large as frames allow, minus 64 bytes as in upstream's own tests.
#[test]
fn ipc_046_ipc_062_what_a_data_source_says_of_itself_is_passed_on_byte_for_byte() {
    let host = TestHost::start();
    let mut producer = host.producer();
    producer.initialize("p");
    let garbage = |start: usize| -> Vec<u8> {
        let numbers = start..start + MAX_FRAME_SIZE - 64;
        numbers.map(|n| (n * 31 / 7) as u8).collect()
    };
    // The descriptors of the GPU, of track events and of ftrace, and an unknown field.
    let fields = [5, 6, 8, 10, 99];
    for field in fields {
        let descriptor = encode(|descriptor| {
            descriptor.string(1, &format!("source {field:02}"));
            descriptor.bytes(field, &garbage(field as usize));
        });
        let request = producer::Request::RegisterDataSource(RegisterDataSourceRequest {
            data_source_descriptor: DataSourceDescriptor::decode_from_slice(&descriptor)
                .unwrap()
                .into(),
            ..Default::default()
        });
        assert!(producer.call(&request).result.is_ok());
    }
    let (whole, frames) = state(&host);
    assert_eq!(frames, 1 + fields.len());
    let sources = &whole.service_state.data_sources;
    assert_eq!(sources.len(), fields.len());
    for (field, source) in fields.into_iter().zip(sources) {
        let descriptor = source.ds_descriptor.encode_to_vec();
        let passed = Fields::find(field, &descriptor).unwrap();
        assert!(
            passed.as_bytes() == Some(&garbage(field as usize)[..]),
            "{field}"
        );
    }
}

/// Returns the state of the service as a consumer assembles it, and the number of its frames.
fn state(host: &TestHost) -> (QueryServiceStateResponse, usize) {
    let socket = host.consumer_socket();
    assert!(send_raw(
        &socket,
        &frame::invoke_method(1, 1, 12, false, 0, |_| {})
    ));
    let mut state = Vec::new();
    let mut frames = 0;
    loop {
        let payload = read_frame(&socket).unwrap();
        assert!(payload.len() + 4 <= MAX_FRAME_SIZE);
        frames += 1;
        let frame = Frame::decode(&payload).unwrap();
        let Message::InvokeMethodReply {
            success: true,
            has_more,
            reply,
        } = frame.message
        else {
            panic!("{frame:?}")
        };
        state.extend_from_slice(reply);
        if !has_more {
            return (
                QueryServiceStateResponse::decode_from_slice(&state).unwrap(),
                frames,
            );
        }
    }
}

#[test]
fn ipc_041_calls_before_initialisation_and_a_second_one_are_rejected() {
    let host = TestHost::start();
    let mut producer = host.producer();
    let register = producer::Request::RegisterDataSource(Default::default());
    assert!(producer.call(&register).result.is_err());
    let commit = producer::Request::CommitData(Default::default());
    assert!(producer.call(&commit).result.is_err());
    producer.initialize("first");
    let again = producer::Request::InitializeConnection(Default::default());
    assert!(producer.call(&again).result.is_err());
    assert!(producer.call(&register).result.is_ok());
}

#[test]
fn ipc_044_odd_command_streams_do_no_harm() {
    let host = TestHost::start();
    let mut producer = host.producer();
    producer.initialize("odd");
    producer.register("test");
    let mut consumer = host.consumer();
    consumer
        .0
        .invoke(&enable("test", |_| {}), None, true)
        .unwrap();
    let commands = producer::Request::GetAsyncCommand(Default::default());
    producer.0.invoke(&commands, None, false).unwrap();
    let first = producer.0.invoke(&commands, None, true).unwrap();
    let second = producer.0.invoke(&commands, None, true).unwrap();
    // The first stream ends when the second replaces it.
    loop {
        let reply = producer.reply();
        if reply.request_id == first && !reply.has_more {
            assert!(reply.result.is_err());
            break;
        }
        assert_ne!(reply.request_id, second);
    }
    host.assert_alive();
}

#[test]
fn ipc_052_a_sync_is_answered_after_what_went_before() {
    let host = TestHost::start();
    let mut producer = host.producer();
    producer.initialize("in order");
    let source = |name: &str| {
        let descriptor = DataSourceDescriptor {
            name: Some(name.into()),
            ..Default::default()
        };
        producer::Request::RegisterDataSource(RegisterDataSourceRequest {
            data_source_descriptor: MessageField::some(descriptor),
            ..Default::default()
        })
    };
    for index in 0..50 {
        producer
            .0
            .invoke(&source(&format!("source {index}")), None, false)
            .unwrap();
    }
    assert!(
        producer
            .call(&producer::Request::Sync(Default::default()))
            .result
            .is_ok()
    );
    let request = consumer::Request::QueryServiceState(Default::default());
    let reply = host.consumer().call(&request);
    let Ok(consumer::Reply::QueryServiceState(state)) = reply.result else {
        panic!()
    };
    assert_eq!(state.service_state.data_sources.len(), 50);
}

#[test]
fn ipc_057_ipc_058_ipc_064_calls_without_a_session_are_answered() {
    let host = TestHost::start();
    let mut consumer: Client<consumer::Port> = host.consumer();
    let reply = consumer.call(&consumer::Request::ReadBuffers(Default::default()));
    assert!(!reply.has_more);
    let Ok(consumer::Reply::ReadBuffers(read)) = reply.result else {
        panic!()
    };
    assert!(read.slices.is_empty());
    assert!(
        consumer
            .call(&consumer::Request::Flush(Default::default()))
            .result
            .is_err()
    );
    assert!(
        consumer
            .call(&consumer::Request::FreeBuffers(Default::default()))
            .result
            .is_ok()
    );
    assert!(
        consumer
            .call(&consumer::Request::GetTraceStats(Default::default()))
            .result
            .is_err()
    );
    let reply = consumer.call(&consumer::Request::SaveTraceForBugreport(Default::default()));
    let Ok(consumer::Reply::SaveTraceForBugreport(reply)) = reply.result else {
        panic!()
    };
    assert_eq!(reply.success, Some(false));
    assert!(!reply.msg.unwrap_or_default().is_empty());
}
