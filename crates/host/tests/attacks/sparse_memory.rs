//! Producers that bring as much memory as they may, touch none of it, and leave: the service then
//! copies their memory.

use ferretto_ipc::port::producer::{Port, Request};
use ferretto_proto::initialize_connection_request::ProducerSMBScrapingMode;
use ferretto_proto::{InitializeConnectionRequest, RegisterTraceWriterRequest};
use ferretto_shm::{MAX_REGION_SIZE, Region};

use crate::common::Client;
use crate::frame::{Attack, Target};
use crate::honest::DATA_SOURCE;

pub(crate) const ATTACK: Attack = Attack::by_nobody(run);

const PRODUCERS: usize = 40;

fn run(target: &Target) {
    loop {
        let memory = Region::create(MAX_REGION_SIZE).unwrap();
        let producers: Vec<_> = (0..PRODUCERS)
            .filter_map(|_| Some(connect(Client::bind(target.producer_socket()?), &memory)))
            .collect();
        assert!(!producers.is_empty());
        drop(producers);
        if !target.goes_on() {
            return;
        }
    }
}

/// A producer that may write into the honest session.
fn connect(mut producer: Client<Port>, memory: &Region) -> Client<Port> {
    let request = Request::InitializeConnection(InitializeConnectionRequest {
        producer_name: Some(b"sparse".to_vec()),
        shared_memory_page_size_hint_bytes: Some(4096),
        producer_provided_shmem: Some(true),
        smb_scraping_mode: Some(ProducerSMBScrapingMode::SMB_SCRAPING_ENABLED),
        ..Default::default()
    });
    let fd = memory.fd().unwrap().try_clone_to_owned().unwrap();
    producer.0.invoke(&request, Some(fd), true).unwrap();
    producer.reply();
    producer.register(DATA_SOURCE);
    for buffer in 1..=8 {
        let request = Request::RegisterTraceWriter(RegisterTraceWriterRequest {
            trace_writer_id: Some(buffer),
            target_buffer: Some(buffer),
            ..Default::default()
        });
        producer.call(&request);
    }
    producer
}
