//! Chunks that each belong deep among many others of their writer, sent in the largest commits.

use ferretto_ipc::frame::MAX_PAYLOAD_SIZE;
use ferretto_ipc::port::producer::Request;
use ferretto_ipc::port::{consumer, producer};
use ferretto_proto::commit_data_request::ChunksToMove;
use ferretto_proto::{CommitDataRequest, InitializeConnectionRequest, trace_config};

use crate::common::{Client, enable};
use crate::frame::{Attack, Target};

pub(crate) const ATTACK: Attack = Attack {
    kept_mib: 32,
    ..Attack::by_nobody(run)
};

/// The number of chunks before the deep ones.
const CHUNKS: u32 = 250_000;

fn run(target: &Target) {
    let mut producer = Client::<producer::Port>::bind(target.producer_socket().unwrap());
    let request = Request::InitializeConnection(InitializeConnectionRequest {
        producer_name: Some(b"deep".to_vec()),
        ..Default::default()
    });
    assert!(producer.call(&request).result.is_ok());
    producer.register("deep");
    producer.open_commands();
    let mut consumer = Client::<consumer::Port>::bind(target.consumer_socket().unwrap());
    let session = enable("deep", |config| {
        config.buffers[0] = trace_config::BufferConfig {
            size_kb: Some(32 << 10),
            ..Default::default()
        };
    });
    consumer.0.invoke(&session, None, true).unwrap();
    // The buffer is the one after the honest session's.
    deliver(&mut producer, 2, &mut (0..CHUNKS).map(|id| 2 * id));
    let mut deep = (0..CHUNKS).map(|id| (CHUNKS / 2 + id) | 1);
    while target.goes_on() && deliver(&mut producer, 2, &mut deep.by_ref().take(20_000)) {}
}

/// Commits chunks with these ids, in frames as large as possible. Returns false if there are none.
fn deliver(
    producer: &mut Client<producer::Port>,
    buffer: u32,
    ids: &mut dyn Iterator<Item = u32>,
) -> bool {
    let mut ids = ids.peekable();
    if ids.peek().is_none() {
        return false;
    }
    while ids.peek().is_some() {
        let moves = ids.by_ref().take(MAX_PAYLOAD_SIZE / 40).map(|id| {
            let mut data = id.to_le_bytes().to_vec();
            data.extend([1, 0, 1, 0, 1, 0]);
            ChunksToMove {
                page: Some(0),
                chunk: Some(0),
                target_buffer: Some(buffer),
                data: Some(data),
                ..Default::default()
            }
        });
        let request = Request::CommitData(CommitDataRequest {
            chunks_to_move: moves.collect(),
            ..Default::default()
        });
        assert!(producer.call(&request).result.is_ok());
    }
    true
}
