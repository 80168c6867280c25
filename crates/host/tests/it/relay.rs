//! Relays of other machines: the sockets that serve them, and the answers.

use crate::common::{Client, TestHost, bind_frame, enable, read_frame, send_raw};
use ferretto_host::{Host, HostError, HostOptions, RelayEndpoints};
use ferretto_ipc::Address;
use ferretto_ipc::client::Connection;
use ferretto_ipc::frame::{self, Frame, Identity, Message};
use ferretto_ipc::port::{consumer, relay};
use ferretto_ipc::socket::Socket;
use ferretto_proto::fields::trace_packet::{MACHINE_ID, REMOTE_CLOCK_SYNC};
use ferretto_proto::sync_clock_request::{self, Phase};
use ferretto_proto::{InitRelayRequest, Message as _, RemoteClockSync, SyncClockRequest};
use ferretto_wire::Fields;

fn abstract_address(name: &str) -> Address {
    Address::Abstract(format!("ferretto-relay-{name}-{}", std::process::id()).into_bytes())
}

fn can_bind_relay_port(socket: &Socket) -> bool {
    assert!(send_raw(socket, &bind_frame("RelayPort")));
    let reply = read_frame(socket).unwrap();
    match Frame::decode(&reply).unwrap().message {
        Message::BindServiceReply { success, .. } => success,
        other => panic!("{other:?}"),
    }
}

#[test]
fn ipc_067_relay_010_relays_are_served_only_where_asked() {
    let address = abstract_address("exposed");
    let chosen = RelayEndpoints::At(vec![address.clone()]);
    for (relays, expected) in [
        (RelayEndpoints::Nowhere, [false, false]),
        (chosen, [false, true]),
        (RelayEndpoints::Everywhere, [true, true]),
    ] {
        let host = TestHost::start_with(|options| {
            options.producers.push(address.clone());
            options.relays = relays;
        });
        let sockets = [host.producer_socket(), Socket::connect(&address).unwrap()];
        assert_eq!(sockets.each_ref().map(can_bind_relay_port), expected);
        assert!(!can_bind_relay_port(&host.consumer_socket()));
        host.stop();
    }
}

#[test]
fn ipc_067_a_relay_endpoint_that_is_no_producer_socket_fails_at_start_up() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = HostOptions::in_folder(folder.path());
    options.relays = RelayEndpoints::At(vec!["127.0.0.1:20001".parse().unwrap()]);
    let error = Host::bind(options).unwrap_err();
    assert!(
        matches!(error, HostError::NoRelayAddress { .. }),
        "{error:?}"
    );
    let text = error.to_string();
    assert!(
        text.contains("127.0.0.1:20001") && text.contains("producer.sock"),
        "{text}"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

fn sync(phase: Option<Phase>) -> relay::Request {
    let clock = |id, timestamp| sync_clock_request::Clock {
        clock_id: Some(id),
        timestamp: Some(timestamp),
        ..Default::default()
    };
    relay::Request::SyncClock(SyncClockRequest {
        phase,
        clocks: vec![clock(6, 1000), clock(1, 2000)],
        ..Default::default()
    })
}

/// Returns a host that serves relays, the address for them, and a connected relay of another
/// machine.
fn host_and_relay() -> (TestHost, Address, Client<relay::Port>) {
    let host = TestHost::start_with(|options| {
        options.producers.push("127.0.0.1:0".parse().unwrap());
        options.relays = RelayEndpoints::Everywhere;
    });
    let tcp = Address::Tcp {
        host: "127.0.0.1".to_owned(),
        port: host.port.unwrap(),
    };
    let identity = Identity {
        pid: 1,
        uid: 0,
        machine_id_hint: b"test_machine_id_hint",
        machine_name: b"guest",
    };
    let socket = Socket::connect(&tcp).unwrap();
    let connection = Connection::<relay::Port>::with_identity(socket, &identity);
    (host, tcp, Client::bound(connection))
}

#[test]
fn ipc_068_clock_exchanges_are_answered_whatever_their_phase() {
    let (host, tcp, mut client) = host_and_relay();
    let init = relay::Request::InitRelay(InitRelayRequest::default());
    // Also before InitRelay, and repeatedly.
    for request in [
        sync(Some(Phase::PING)),
        sync(Some(Phase::UPDATE)),
        init.clone(),
        sync(Some(Phase::PING)),
        sync(None),
        init,
    ] {
        let reply = client.call(&request);
        assert!(!reply.has_more);
        assert!(reply.result.is_ok(), "{request:?}");
    }
    // An unknown phase.
    let unknown = b"\x08\x63";
    let call = frame::invoke_method(9, 2, 2, false, unknown.len(), |out| {
        out.extend_from_slice(unknown)
    });
    let socket = Socket::connect(&tcp).unwrap();
    assert!(send_raw(&socket, &call));
    let expected = frame::method_reply(9, false, 0, |_| {});
    assert_eq!(read_frame(&socket).unwrap(), expected[4..]);
    host.assert_alive();
}

/// Returns `CLOCK_BOOTTIME` in nanoseconds.
fn boottime() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[test]
fn ipc_068_the_last_five_exchanges_are_in_the_trace_with_clocks_read_before_the_answer() {
    let (host, _, mut client) = host_and_relay();
    let mut times = Vec::new();
    for number in 0..7u64 {
        let phase = [Phase::PING, Phase::UPDATE][number as usize % 2];
        let before = boottime();
        let clocks = vec![sync_clock_request::Clock {
            clock_id: Some(6),
            timestamp: Some(1000 + number),
            ..Default::default()
        }];
        let request = SyncClockRequest {
            phase: Some(phase),
            clocks,
            ..Default::default()
        };
        assert!(
            client
                .call(&relay::Request::SyncClock(request))
                .result
                .is_ok()
        );
        times.push((1000 + number, before, boottime()));
    }
    let mut consumer = host.consumer();
    consumer
        .0
        .invoke(&enable("none", |_| {}), None, true)
        .unwrap();
    let disable = consumer::Request::DisableTracing(Default::default());
    consumer.0.invoke(&disable, None, false).unwrap();
    let reply = consumer.call(&consumer::Request::ReadBuffers(Default::default()));
    let Ok(consumer::Reply::ReadBuffers(reply)) = reply.result else {
        panic!("{reply:?}")
    };
    let packets = reply
        .slices
        .chunk_by(|slice, _| slice.last_slice_for_packet != Some(true));
    let packets = packets.map(|slices| -> Vec<u8> {
        let bytes = slices.iter().filter_map(|slice| slice.data.clone());
        bytes.flatten().collect()
    });
    let of_machines: Vec<_> = packets
        .filter(|packet| Fields::find(REMOTE_CLOCK_SYNC, packet).is_some())
        .collect();
    let [packet] = &of_machines[..] else {
        panic!("{of_machines:?}")
    };
    // The hash of the hint.
    let machine = Fields::find(MACHINE_ID, packet).and_then(|field| field.as_u64());
    assert_eq!(machine, Some(3_820_972_779));
    let sync = Fields::find(REMOTE_CLOCK_SYNC, packet).and_then(|field| field.as_bytes());
    let sync = RemoteClockSync::decode_from_slice(sync.unwrap()).unwrap();
    assert_eq!(sync.synced_clocks.len(), 5);
    for (exchange, (sent, before, after)) in sync.synced_clocks.iter().zip(&times[2..]) {
        assert_eq!(exchange.client_clocks.clocks[0].timestamp, Some(*sent));
        let here = exchange
            .host_clocks
            .clocks
            .iter()
            .find(|clock| clock.clock_id == Some(6));
        let here = here.and_then(|clock| clock.timestamp).unwrap();
        assert!((before..=after).contains(&&here), "{before} {here} {after}");
    }
}

#[test]
fn relay_calls_without_arguments_or_reply_do_no_harm() {
    let host = TestHost::start_with(|options| options.relays = RelayEndpoints::Everywhere);
    let socket = host.producer_socket();
    for method in [1, 2] {
        // The second service of this socket; without a reply, then with one.
        for drop_reply in [true, false] {
            let call = frame::invoke_method(3, 2, method, drop_reply, 0, |_| {});
            assert!(send_raw(&socket, &call));
        }
        let expected = frame::method_reply(3, false, 0, |_| {});
        assert_eq!(read_frame(&socket).unwrap(), expected[4..]);
    }
    host.assert_alive();
}
