use super::*;
use crate::host;
use crate::port::producer;
use ferretto_proto::{InitializeConnectionResponse, RegisterDataSourceResponse};

type Client = Connection<producer::Port>;

/// Returns a client and the other end of its socket, with the bind frame read.
fn client() -> (Client, Socket) {
    let (near, far) = Socket::pair().unwrap();
    let client = Client::new(near);
    assert_eq!(read(&far), frame::bind_service(1, "ProducerPort"));
    (client, far)
}

fn bound() -> (Client, Socket) {
    let (mut client, mut far) = client();
    let methods = crate::port::PortKind::Producer.methods();
    answer(
        &mut client,
        &mut far,
        &[frame::bind_service_reply(1, 1, &methods)],
    );
    assert!(matches!(client.poll_event(), Some(Event::Bound)));
    (client, far)
}

fn read(socket: &Socket) -> Vec<u8> {
    let mut buffer = vec![0; RECEIVE_BUFFER_SIZE];
    match socket.receive(&mut buffer).unwrap() {
        Received::Data { len, .. } => buffer[..len].to_vec(),
        other => panic!("{other:?}"),
    }
}

fn answer(client: &mut Client, far: &mut Socket, frames: &[Vec<u8>]) {
    for frame in frames {
        far.queue(frame.clone(), None).unwrap();
    }
    far.flush().unwrap();
    client.process();
}

fn sync() -> producer::Request {
    producer::Request::Sync(Default::default())
}

fn register() -> producer::Request {
    producer::Request::RegisterDataSource(Default::default())
}

#[test]
fn calls_are_answered_by_id_in_any_order() {
    let (mut client, mut far) = bound();
    let first = client.invoke(&sync(), None, true).unwrap();
    let second = client.invoke(&register(), None, true).unwrap();
    assert_eq!((first, second), (2, 3));
    let reply = producer::Reply::RegisterDataSource(RegisterDataSourceResponse::default());
    let frames = [
        host::reply_frame(3, &reply, false).unwrap(),
        host::rejection_frame(2),
    ];
    answer(&mut client, &mut far, &frames);
    let Some(Event::Reply(one)) = client.poll_event() else {
        panic!()
    };
    assert_eq!((one.request_id, one.result), (3, Ok(reply)));
    let Some(Event::Reply(other)) = client.poll_event() else {
        panic!()
    };
    assert_eq!((other.request_id, other.result), (2, Err(Rejected)));
}

#[test]
fn ipc_019_an_unknown_method_fails_without_sending() {
    let (mut client, mut far) = client();
    answer(
        &mut client,
        &mut far,
        &[frame::bind_service_reply(1, 1, &[(4, "CommitData")])],
    );
    assert_eq!(
        client.invoke(&sync(), None, true),
        Err(InvokeError::UnknownMethod("Sync"))
    );
    assert!(matches!(
        far.receive(&mut [0; 8]).unwrap(),
        Received::WouldBlock
    ));
}

#[test]
fn ipc_020_replies_with_unknown_ids_are_ignored() {
    let (mut client, mut far) = bound();
    client.invoke(&sync(), None, false).unwrap();
    answer(
        &mut client,
        &mut far,
        &[host::rejection_frame(2), host::rejection_frame(99)],
    );
    assert!(client.poll_event().is_none());
}

#[test]
fn ipc_021_missing_success_is_failure() {
    let (mut client, mut far) = bound();
    let id = client.invoke(&sync(), None, true).unwrap();
    // A reply with only `has_more` does not keep a refused call open.
    answer(
        &mut client,
        &mut far,
        &[b"\x06\x00\x00\x00\x10\x02\x32\x02\x10\x01".to_vec()],
    );
    let Some(Event::Reply(reply)) = client.poll_event() else {
        panic!()
    };
    assert_eq!(
        (reply.request_id, reply.result, reply.has_more),
        (id, Err(Rejected), false)
    );
}

#[test]
fn ipc_022_on_disconnect_every_call_fails_once_and_then_one_notice_comes() {
    let (mut client, mut far) = bound();
    client.invoke(&sync(), None, true).unwrap();
    client.invoke(&register(), None, true).unwrap();
    client.invoke(&sync(), None, false).unwrap();
    // A complete answer and half of another arrive before the end.
    let whole = frame::method_reply(2, false, 0, |_| {});
    let half = frame::method_reply(3, false, 0, |_| {})[..7].to_vec();
    far.queue(whole, None).unwrap();
    far.queue(half, None).unwrap();
    far.flush().unwrap();
    drop(far);
    client.process();
    let Some(Event::Reply(first)) = client.poll_event() else {
        panic!()
    };
    assert!(first.request_id == 2 && first.result.is_ok());
    let Some(Event::Reply(second)) = client.poll_event() else {
        panic!()
    };
    assert!(second.request_id == 3 && second.result.is_err());
    let closed = client.poll_event();
    assert!(matches!(closed, Some(Event::Disconnected(_))), "{closed:?}");
    client.process();
    assert!(client.poll_event().is_none());
    assert_eq!(
        client.invoke(&sync(), None, true),
        Err(InvokeError::Disconnected)
    );
}

#[test]
fn ipc_023_permuted_method_ids_are_followed() {
    let (mut client, mut far) = client();
    let methods = [
        (7, "InitializeConnection"),
        (1, "Sync"),
        (0, "CommitData"),
        (3, ""),
    ];
    answer(
        &mut client,
        &mut far,
        &[frame::bind_service_reply(1, 9, &methods)],
    );
    client.invoke(&sync(), None, true).unwrap();
    assert_eq!(read(&far), frame::invoke_method(2, 9, 1, false, 0, |_| {}));
    assert!(!client.supports(producer::Method::CommitData));
    let request = producer::Request::InitializeConnection(Default::default());
    client.invoke(&request, None, true).unwrap();
    let response = InitializeConnectionResponse {
        direct_smb_patching_supported: Some(true),
        ..Default::default()
    };
    let reply = producer::Reply::InitializeConnection(response);
    answer(
        &mut client,
        &mut far,
        &[host::reply_frame(3, &reply, false).unwrap()],
    );
    assert!(matches!(client.poll_event(), Some(Event::Bound)));
    let Some(Event::Reply(answer)) = client.poll_event() else {
        panic!()
    };
    assert_eq!(answer.result, Ok(reply));
}

#[test]
fn a_refused_bind_is_reported() {
    for refusal in [
        frame::bind_service_failed(1),
        frame::request_error(1, "unknown request"),
    ] {
        let (mut client, mut far) = client();
        answer(&mut client, &mut far, &[refusal]);
        assert!(matches!(client.poll_event(), Some(Event::BindFailed)));
        assert_eq!(
            client.invoke(&sync(), None, true),
            Err(InvokeError::NotBound)
        );
    }
}

#[test]
fn an_oversize_frame_from_the_service_ends_the_connection() {
    let (mut client, mut far) = bound();
    answer(&mut client, &mut far, &[u32::MAX.to_le_bytes().to_vec()]);
    let event = client.poll_event();
    assert!(matches!(
        event,
        Some(Event::Disconnected(DisconnectReason::Frame(_)))
    ));
}

#[test]
fn a_service_that_does_not_read_is_disconnected_at_the_limit() {
    let (mut client, _far) = bound();
    client.set_out_limit(1 << 16);
    let big = producer::Request::ActivateTriggers(ferretto_proto::ActivateTriggersRequest {
        trigger_names: vec![vec![b'x'; 50_000]],
        ..Default::default()
    });
    while client.invoke(&big, None, false).is_ok() {
        assert!(client.queued() < 1 << 18);
    }
    let event = client.poll_event();
    assert!(matches!(
        event,
        Some(Event::Disconnected(DisconnectReason::Overflow(_)))
    ));
}

#[test]
fn a_request_larger_than_a_frame_is_refused() {
    let (mut client, _far) = bound();
    let huge = producer::Request::ActivateTriggers(ferretto_proto::ActivateTriggersRequest {
        trigger_names: vec![vec![b'x'; frame::MAX_FRAME_SIZE]],
        ..Default::default()
    });
    assert!(matches!(
        client.invoke(&huge, None, true),
        Err(InvokeError::TooLarge { .. })
    ));
    assert!(client.invoke(&sync(), None, true).is_ok());
}
