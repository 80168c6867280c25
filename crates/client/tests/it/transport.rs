//! Connections that other processes open, and custom transports.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::Arc;
use std::time::Instant;

use ferretto_client::transport::client::InvokeError;
use ferretto_client::transport::{
    AtAddress, Attachment, Connect, ConnectFailure, Link, LinkEvent, PortMessage,
};
use ferretto_client::{Address, Consumer, Event, ExhaustedPolicy, Producer, ProducerOptions};
use ferretto_ipc::port::{self, Port};
use ferretto_testing::client::{
    LIMIT, Recorder, Service, config, descriptor, next_event, texts, write_text,
};

fn options() -> ProducerOptions {
    ProducerOptions {
        name: "test-producer".to_owned(),
        ..Default::default()
    }
}

fn open(address: &Address) -> OwnedFd {
    let Address::Abstract(name) = address else {
        panic!("not abstract")
    };
    let address = SocketAddr::from_abstract_name(name).unwrap();
    UnixStream::connect_addr(&address).unwrap().into()
}

/// Records the packets that a producer writes when it starts, and returns the texts.
fn record(mut producer: Producer, mut consumer: Consumer, count: usize) -> Vec<Vec<u8>> {
    producer.register(descriptor("test.source"));
    next_event(&mut producer, |event| matches!(event, Event::Connected));
    let (sender, written) = std::sync::mpsc::channel();
    let _recorder = Recorder::start(producer, ExhaustedPolicy::StallThenDrop, move |writer| {
        for _ in 0..count {
            write_text(writer, b"through");
        }
        sender.send(()).unwrap();
    });
    consumer.enable_tracing(config(1024), None).unwrap();
    written.recv_timeout(LIMIT).unwrap();
    consumer.disable_tracing(LIMIT).unwrap();
    let end = consumer.wait_for_end(LIMIT).unwrap().expect("an end");
    assert_eq!(end.error(), None);
    let mut packets = Vec::new();
    consumer
        .read_buffers(LIMIT, |packet| {
            packets.push(packet.to_vec());
            Ok::<_, std::convert::Infallible>(())
        })
        .unwrap();
    texts(&packets)
}

#[test]
fn a_producer_records_over_a_socket_opened_by_another_process() {
    let service = Service::start();
    let producer = Producer::over_socket(open(&service.producers), options()).unwrap();
    let consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    assert_eq!(record(producer, consumer, 3), [b"through"; 3]);
}

#[test]
fn a_socket_opened_by_another_process_is_used_once() {
    let service = Service::start();
    let mut producer = Producer::over_socket(open(&service.producers), options()).unwrap();
    next_event(&mut producer, |event| matches!(event, Event::Connected));
    service.stop();
    next_event(&mut producer, |event| {
        matches!(event, Event::Disconnected(_))
    });
    producer.process(Instant::now());
    assert!(producer.poll_event().is_none());
    assert_eq!(
        producer.poll_timeout(),
        None,
        "there is nothing to wait for"
    );
}

/// The channel of an embedder between its processes. It encodes and decodes all messages, and
/// passes no descriptors.
#[derive(Debug)]
struct Tunnel<P: Port>(Box<dyn Link<P>>);

impl<P: Port> AsFd for Tunnel<P> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn through_bytes<M: PortMessage>(message: &M) -> M {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    M::decode(message.method(), &bytes).unwrap()
}

impl<P: Port> Link<P> for Tunnel<P> {
    fn invoke(
        &mut self,
        request: P::Request,
        attachment: Option<Attachment>,
        wants_reply: bool,
    ) -> Result<u64, InvokeError> {
        assert!(attachment.is_none());
        self.0.invoke(through_bytes(&request), None, wants_reply)
    }

    fn process(&mut self) {
        self.0.process();
    }

    fn poll_event(&mut self) -> Option<LinkEvent<P>> {
        let mut event = self.0.poll_event()?;
        if let LinkEvent::Reply(reply) = &mut event
            && let Ok(message) = &mut reply.result
        {
            *message = through_bytes(message);
        }
        Some(event)
    }

    fn has_event(&self) -> bool {
        self.0.has_event()
    }

    fn wants_write(&self) -> bool {
        self.0.wants_write()
    }

    fn queued(&self) -> usize {
        self.0.queued()
    }

    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    fn shares_memory(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct Embedder(AtAddress);

impl<P: Port> Connect<P> for Embedder
where
    AtAddress: Connect<P>,
{
    fn connect(&self) -> Result<Box<dyn Link<P>>, ConnectFailure> {
        Ok(Box::new(Tunnel(self.0.connect()?)))
    }
}

#[test]
fn a_producer_and_a_consumer_work_over_a_custom_transport() {
    // Over TCP, the service does not share memory.
    let service = Service::start_tcp();
    let at = AtAddress::default()
        .producers_at(service.producers.clone())
        .consumers_at(service.consumers.clone());
    let embedder = Arc::new(Embedder(at));
    let producer = Producer::through(embedder.clone(), options()).unwrap();
    let connector: &dyn Connect<port::consumer::Port> = &*embedder;
    let consumer = Consumer::connect_through(connector, LIMIT).unwrap();
    assert_eq!(record(producer, consumer, 50), [b"through"; 50]);
}
