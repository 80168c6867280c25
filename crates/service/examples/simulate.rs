//! A service in virtual time, with one producer, one consumer, and a chunk that gets lost.
//!
//! There are no sockets, threads, clocks or shared memory, so each run prints the same.

use ferretto_ipc::port::{consumer, producer};
use ferretto_proto::commit_data_request::ChunksToMove;
use ferretto_proto::get_async_command_response::Cmd;
use ferretto_proto::trace_config::{BufferConfig, DataSource};
use ferretto_proto::{
    CommitDataRequest, DataSourceConfig, DataSourceDescriptor, EnableTracingRequest,
    InitializeConnectionRequest, RegisterDataSourceRequest, TraceConfig,
};
use ferretto_service::{ClientId, Clocks, Command, Event, Peer, Service, ServiceOptions};
use ferretto_wire::{Fields, encode, redundant_length};

const PRODUCER: ClientId = ClientId(1);
const CONSUMER: ClientId = ClientId(2);
/// A field of `TracePacket` for text of tests, and the one in which losses are reported.
const FOR_TESTING: u32 = 900;
const PREVIOUS_PACKET_DROPPED: u32 = 42;

/// Passes an event to the service, a virtual millisecond after the last one, and returns the
/// packets that the consumer receives.
fn step(service: &mut Service, now: &mut Clocks, event: Event) -> Vec<Vec<u8>> {
    now.boottime += 1_000_000;
    service.handle(now, event);
    let mut packets = Vec::new();
    while let Some(command) = service.poll_command() {
        match command {
            Command::ProducerReply {
                reply: Some(producer::Reply::GetAsyncCommand(reply)),
                ..
            } if matches!(reply.cmd, Some(Cmd::StartDataSource(_))) => {
                println!("{} ms: the producer starts", now.boottime / 1_000_000);
            }
            Command::ConsumerReply {
                reply: Some(consumer::Reply::ReadBuffers(reply)),
                ..
            } => packets.extend(reply.slices.into_iter().filter_map(|slice| slice.data)),
            _ => {}
        }
    }
    packets
}

fn of_producer(request: producer::Request) -> Event {
    Event::ProducerRequest {
        client: PRODUCER,
        request_id: Some(1),
        request,
        fd: None,
    }
}

fn of_consumer(request: consumer::Request) -> Event {
    Event::ConsumerRequest {
        client: CONSUMER,
        request_id: Some(1),
        request,
        fd: None,
    }
}

/// Returns a commit of one chunk with one packet: the chunk's number, its writer, the number of
/// packets, and the packet with its length.
fn chunk(number: u32) -> Event {
    let packet = encode(|packet| packet.string(FOR_TESTING, &format!("packet {number}")));
    let header = [
        &number.to_le_bytes()[..],
        &1u16.to_le_bytes(),
        &1u16.to_le_bytes(),
    ]
    .concat();
    let length = redundant_length(packet.len() as u32);
    let moved = ChunksToMove {
        target_buffer: Some(1),
        data: Some([&header[..], &length, &packet].concat()),
        ..Default::default()
    };
    of_producer(producer::Request::CommitData(CommitDataRequest {
        chunks_to_move: vec![moved],
        ..Default::default()
    }))
}

fn main() {
    let service = &mut Service::new(ServiceOptions::default());
    let now = &mut Clocks::default();
    let name = || Some(b"example".to_vec());
    let config = TraceConfig {
        buffers: vec![BufferConfig {
            size_kb: Some(64),
            ..Default::default()
        }],
        data_sources: vec![DataSource {
            config: DataSourceConfig {
                name: name(),
                ..Default::default()
            }
            .into(),
            ..Default::default()
        }],
        ..Default::default()
    };
    let peer = Peer::default;
    let descriptor = DataSourceDescriptor {
        name: name(),
        ..Default::default()
    };
    let events = [
        // A producer of another machine, which sends its chunks inside of messages.
        Event::ProducerConnected {
            client: PRODUCER,
            peer: peer(),
        },
        of_producer(producer::Request::InitializeConnection(
            InitializeConnectionRequest {
                producer_name: name(),
                ..Default::default()
            },
        )),
        of_producer(producer::Request::GetAsyncCommand(Default::default())),
        of_producer(producer::Request::RegisterDataSource(
            RegisterDataSourceRequest {
                data_source_descriptor: descriptor.into(),
                ..Default::default()
            },
        )),
        Event::ConsumerConnected {
            client: CONSUMER,
            peer: peer(),
        },
        of_consumer(consumer::Request::EnableTracing(EnableTracingRequest {
            trace_config: config.into(),
            ..Default::default()
        })),
        chunk(0),
        chunk(1),
        // The third chunk gets lost.
        chunk(3),
        of_consumer(consumer::Request::DisableTracing(Default::default())),
        of_consumer(consumer::Request::ReadBuffers(Default::default())),
    ];
    let packets = events.map(|event| step(service, now, event)).concat();
    // The service also writes packets of its own: clocks, the config, statistics.
    let texts = packets
        .iter()
        .filter_map(|packet| Some((packet, Fields::find(FOR_TESTING, packet)?.as_str_lossy()?)));
    for (index, (packet, text)) in texts.enumerate() {
        // Every first packet of a writer has the mark, since earlier ones may have been lost.
        let is_marked = Fields::find(PREVIOUS_PACKET_DROPPED, packet).is_some();
        let lost = if is_marked && index > 0 {
            "  (packets before it were lost)"
        } else {
            ""
        };
        println!("{text}{lost}");
    }
}
