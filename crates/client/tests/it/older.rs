//! Services older than this library: they lack methods, fields of replies, or commands.

use std::io::{Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use ferretto_client::{Address, CallError, Consumer, Event};
use ferretto_ipc::frame;
use ferretto_ipc::port::consumer::Request;
use ferretto_proto::observable_events::Type;
use ferretto_testing::client::{LIMIT, next_event, producer_at, unique_address};
use ferretto_wire::{Fields, encode};

/// The methods of the consumer port in the first services.
const CONSUMER_METHODS: [(u32, &str); 5] = [
    (1, "EnableTracing"),
    (2, "DisableTracing"),
    (3, "ReadBuffers"),
    (4, "FreeBuffers"),
    (5, "Flush"),
];

/// The methods of the producer port in the first services, in another order.
const PRODUCER_METHODS: [(u32, &str); 5] = [
    (5, "InitializeConnection"),
    (4, "RegisterDataSource"),
    (3, "UnregisterDataSource"),
    (2, "CommitData"),
    (1, "GetAsyncCommand"),
];

/// Serves one connection.
fn serve<T: Send + 'static>(
    address: &Address,
    serve: impl FnOnce(UnixStream) -> T + Send + 'static,
) -> JoinHandle<T> {
    let Address::Abstract(name) = address else {
        panic!()
    };
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap());
    let listener = listener.unwrap();
    std::thread::spawn(move || serve(listener.accept().unwrap().0))
}

/// Reads everything until the other side closes the connection.
fn rest(mut stream: UnixStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

#[test]
fn ipc_019_methods_that_an_old_service_lacks_fail_without_a_request() {
    let address = unique_address("old");
    let service = serve(&address, |mut stream| {
        let _ = stream.read(&mut [0; 4096]).unwrap();
        let bound = frame::bind_service_reply(1, 1, &CONSUMER_METHODS);
        stream.write_all(&bound).unwrap();
        rest(stream)
    });
    let mut consumer = Consumer::connect(&address, LIMIT).unwrap();
    let unsupported = |result: Result<(), CallError>, name: &str| {
        assert!(
            matches!(result, Err(CallError::Unsupported { method }) if method == name),
            "{name}"
        );
    };
    let result = consumer.query_capabilities(LIMIT).map(drop);
    unsupported(result, "QueryCapabilities");
    let result = consumer.query_service_state(LIMIT).map(drop);
    unsupported(result, "QueryServiceState");
    unsupported(consumer.trace_stats(LIMIT).map(drop), "GetTraceStats");
    unsupported(consumer.start_tracing(LIMIT), "StartTracing");
    let result = consumer.observe_events(&[Type::TYPE_ALL_DATA_SOURCES_STARTED]);
    unsupported(result, "ObserveEvents");
    for request in [
        Request::CloneSession(Default::default()),
        Request::SaveTraceForBugreport(Default::default()),
        Request::Detach(Default::default()),
        Request::Attach(Default::default()),
        Request::ChangeTraceConfig(Default::default()),
    ] {
        let name = request.method_name();
        unsupported(consumer.call(request, None, LIMIT).map(drop), name);
    }
    drop(consumer);
    assert!(service.join().unwrap().is_empty());
}

#[test]
fn a_producer_works_with_the_methods_of_an_old_service() {
    let address = unique_address("old");
    let service = serve(&address, |mut stream| {
        let read = |stream: &mut UnixStream| stream.read(&mut [0; 4096]).unwrap();
        read(&mut stream);
        let bound = frame::bind_service_reply(1, 1, &PRODUCER_METHODS);
        stream.write_all(&bound).unwrap();
        read(&mut stream);
        // A reply without any field, and a start without an earlier setup.
        let start = encode(|command| {
            command.nested(1, |start| {
                start.varint(1, 9);
                start.nested(2, |config| config.string(1, "test.source"));
            });
        });
        let write = |out: &mut Vec<u8>| out.extend_from_slice(&start);
        let command = frame::method_reply(3, true, start.len(), write);
        let welcome = frame::method_reply(2, false, 0, |_| {});
        stream.write_all(&[welcome, command].concat()).unwrap();
        rest(stream)
    });
    let mut producer = producer_at(&address);
    next_event(&mut producer, |event| matches!(event, Event::Connected));
    let Event::Setup { instance, .. } =
        next_event(&mut producer, |event| matches!(event, Event::Setup { .. }))
    else {
        panic!()
    };
    let started = next_event(&mut producer, |event| matches!(event, Event::Start { .. }));
    assert!(matches!(started, Event::Start { instance: id, .. } if id == instance));
    // Calls that wait for missing methods complete.
    let handle = producer.handle();
    producer.register(ferretto_testing::client::descriptor("test.source"));
    handle.notify_started(instance);
    assert!(!handle.activate_triggers(&["t"]));
    let done = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&done);
    assert!(handle.sync(move || set.store(true, Ordering::Release)));
    assert!(done.load(Ordering::Acquire));
    assert!(handle.is_connected());
    drop(producer);
    // The registration was sent, and no method that this service lacks.
    let sent = service.join().unwrap();
    let mut methods = Vec::new();
    let mut rest = &sent[..];
    while let Some((size, after)) = rest.split_first_chunk::<4>() {
        let (payload, next) = after.split_at(u32::from_le_bytes(*size) as usize);
        let invoked = Fields::find(5, payload).and_then(|field| field.as_bytes());
        let method = Fields::find(2, invoked.unwrap()).and_then(|field| field.as_u64());
        methods.push(method.unwrap());
        rest = next;
    }
    assert!(methods.contains(&4), "{methods:?}");
    assert!(methods.iter().all(|method| (1..=5).contains(method)));
}
