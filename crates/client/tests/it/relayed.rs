//! A producer on another machine, behind a relay.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use ferretto_client::{Address, Consumer, ExhaustedPolicy};
use ferretto_ipc::frame::{self, Identity};
use ferretto_testing::client::{
    LIMIT, Recorder, Service, config, producer_at, texts, unique_address, write_text,
};
use ferretto_wire::Fields;

/// A relay that identifies the producers and forwards bytes until both ends close.
struct TestRelay {
    address: Address,
    thread: Option<JoinHandle<()>>,
}

impl TestRelay {
    fn start(service: &Service, identity: Identity<'static>) -> Self {
        let address = unique_address("relay");
        let (Address::Abstract(name), Address::Tcp { host, port }) =
            (&address, service.producers.clone())
        else {
            panic!()
        };
        let listen_at = SocketAddr::from_abstract_name(name).unwrap();
        let listener = UnixListener::bind_addr(&listen_at).unwrap();
        let thread = thread::spawn(move || {
            let (producer, _) = listener.accept().unwrap();
            let mut service = TcpStream::connect((host, port)).unwrap();
            service
                .write_all(&frame::set_peer_identity(&identity))
                .unwrap();
            forward(producer, service);
        });
        Self {
            address,
            thread: Some(thread),
        }
    }
}

impl Drop for TestRelay {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn forward(producer: UnixStream, service: TcpStream) {
    let (mut from_producer, mut to_producer) = (producer.try_clone().unwrap(), producer);
    let (mut from_service, mut to_service) = (service.try_clone().unwrap(), service);
    let back = thread::spawn(move || {
        let mut buffer = [0; 5000];
        while let Ok(size @ 1..) = from_service.read(&mut buffer) {
            if to_producer.write_all(&buffer[..size]).is_err() {
                break;
            }
        }
        let _ = to_producer.shutdown(Shutdown::Both);
    });
    // The size splits and joins frames.
    let mut buffer = [0; 777];
    while let Ok(size @ 1..) = from_producer.read(&mut buffer) {
        if to_service.write_all(&buffer[..size]).is_err() {
            break;
        }
    }
    let _ = to_service.shutdown(Shutdown::Both);
    back.join().unwrap();
}

#[test]
fn ipc_070_packets_of_a_relayed_producer_have_its_machine_id() {
    const COUNT: usize = 2000;
    const MACHINE_ID: u32 = 98;
    const UID: u32 = 3;
    const PID: u32 = 79;
    let service = Service::start_tcp();
    let identity = Identity {
        pid: 4242,
        uid: 1000,
        machine_id_hint: b"test_machine_id_hint",
        machine_name: b"guest",
    };
    let relay = TestRelay::start(&service, identity);
    let mut producer = producer_at(&relay.address);
    ferretto_testing::client::next_event(&mut producer, |event| {
        matches!(event, ferretto_client::Event::Connected)
    });
    let text = |index: usize| format!("{index} {}", "x".repeat(index % 300)).into_bytes();
    let (sender, receiver) = mpsc::channel();
    let recorder = Recorder::start(producer, ExhaustedPolicy::StallThenAbort, move |writer| {
        for index in 0..COUNT {
            write_text(writer, &text(index));
        }
    });
    // The service processes the registration before this call.
    assert!(recorder.handle.sync(move || sender.send(()).unwrap()));
    recorder.handle.wake();
    receiver.recv_timeout(LIMIT).unwrap();

    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    let mut config = config(4096);
    config.trace_all_machines = Some(true);
    consumer.enable_tracing(config, None).unwrap();
    consumer.flush(LIMIT).unwrap();
    consumer.disable_tracing(LIMIT).unwrap();
    consumer.wait_for_end(LIMIT).unwrap().unwrap();
    let mut packets = Vec::new();
    consumer
        .read_buffers(LIMIT, |packet| {
            packets.push(packet.to_vec());
            Ok::<_, std::convert::Infallible>(())
        })
        .unwrap();
    let expected: Vec<_> = (0..COUNT).map(text).collect();
    assert_eq!(texts(&packets), expected);
    let number = |packet: &[u8], field| Fields::find(field, packet).and_then(|f| f.as_u64());
    for packet in packets
        .iter()
        .filter(|packet| Fields::find(ferretto_testing::client::FOR_TESTING, packet).is_some())
    {
        // The hash of the hint, as in the reference vectors.
        assert_eq!(number(packet, MACHINE_ID), Some(3_820_972_779));
        assert_eq!(number(packet, UID), Some(1000));
        assert_eq!(number(packet, PID), Some(4242));
    }
    drop(recorder);
}
