//! A producer and a service in one process, connected by a region of plain memory.
#![allow(dead_code, unreachable_pub)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use ferretto_shm::{
    Arbiter, ArbiterOptions, ChunkFlags, ChunkHeader, Commit, ExhaustedPolicy, Outlet, Output,
    PageSize, Region, ServiceRegion, TraceWriter,
};
use ferretto_wire::{decode_varint, encode};

/// The field of a packet that is for tests.
pub const FOR_TESTING: u32 = 900;

/// Counts the calls of the writers' side.
#[derive(Clone, Default)]
pub struct Calls {
    pub wakes: Arc<AtomicUsize>,
    pub flushes: Arc<AtomicUsize>,
}

impl Outlet for Calls {
    fn wake(&self) {
        self.wakes.fetch_add(1, Ordering::Relaxed);
    }

    fn flush_now(&self) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
    }
}

/// A chunk as stored by the service.
#[derive(Clone, Debug)]
pub struct Stored {
    pub header: ChunkHeader,
    pub payload: Vec<u8>,
}

pub struct World {
    pub region: Arc<Region>,
    pub arbiter: Arc<Arbiter>,
    pub service: ServiceRegion,
    pub calls: Calls,
    pub page: usize,
    pub stored: Vec<Stored>,
    pub commits: Vec<Commit>,
    pub registered: Vec<u16>,
    pub unregistered: Vec<u16>,
}

impl World {
    pub fn new(pages: usize, options: ArbiterOptions) -> Self {
        Self::with_page(4096, pages, options)
    }

    pub fn with_page(page: usize, pages: usize, options: ArbiterOptions) -> Self {
        let region = Arc::new(Region::heap(page * pages).unwrap());
        let size = PageSize::new(page).unwrap();
        let calls = Calls::default();
        let arbiter =
            Arbiter::new(Arc::clone(&region), size, options, Box::new(calls.clone())).unwrap();
        Self {
            service: ServiceRegion::new(Arc::clone(&region), size).unwrap(),
            region,
            arbiter,
            calls,
            page,
            stored: Vec::new(),
            commits: Vec::new(),
            registered: Vec::new(),
            unregistered: Vec::new(),
        }
    }

    pub fn writer(&self) -> TraceWriter {
        self.arbiter.create_writer(7, ExhaustedPolicy::Drop)
    }

    /// Delivers all pending output to the service. Returns the number of commits delivered.
    pub fn deliver(&mut self) -> usize {
        let before = self.commits.len();
        loop {
            match self.arbiter.poll_output(Instant::now()) {
                Output::Register { writer_id, .. } => self.registered.push(writer_id),
                Output::Unregister { writer_id } => self.unregistered.push(writer_id),
                Output::Commit(commit) => self.process(commit),
                Output::WaitUntil(_) | Output::Idle => break,
            }
        }
        self.commits.len() - before
    }

    pub fn process(&mut self, mut commit: Commit) {
        for chunk in &commit.moves {
            let stored = match &chunk.data {
                Some(_) if chunk.is_incomplete => continue,
                Some(data) => {
                    let (header, payload) = ChunkHeader::split(data).unwrap();
                    Stored {
                        header,
                        payload: payload.to_vec(),
                    }
                }
                None => {
                    let Some(read) = self.service.try_read(chunk.page, chunk.chunk) else {
                        continue;
                    };
                    let mut payload = Vec::new();
                    read.copy_payload(&mut payload);
                    Stored {
                        header: read.header(),
                        payload,
                    }
                }
            };
            self.stored.push(stored);
        }
        for patch in &commit.patches {
            let stored = self.stored.iter_mut().rev().find(|stored| {
                stored.header.writer_id == patch.writer_id
                    && stored.header.chunk_id == patch.chunk_id
            });
            let stored = stored.expect("patched chunk is known");
            for item in &patch.patches {
                let at = usize::from(item.offset);
                stored.payload[at..at + 4].copy_from_slice(&item.data);
            }
            if !patch.has_more_patches {
                stored.header.flags = stored.header.flags.without(ChunkFlags::NEEDS_PATCHING);
            }
        }
        for callback in commit.callbacks.drain(..) {
            callback();
        }
        self.commits.push(commit);
    }

    /// Returns the packets of one writer, reassembled from the stored chunks, in order.
    pub fn packets(&self, writer: u16) -> Vec<Vec<u8>> {
        let chunks: BTreeMap<u32, &Stored> = self
            .stored
            .iter()
            .filter(|stored| stored.header.writer_id == writer)
            .map(|stored| (stored.header.chunk_id, stored))
            .collect();
        assemble(chunks.into_values())
    }

    pub fn page_word(&self, page: usize) -> u32 {
        let bytes = self.bytes(page * self.page, 4);
        u32::from_le_bytes(bytes.try_into().unwrap())
    }

    /// Returns bytes of the region as a service reads them: through a second view of the memory.
    pub fn bytes(&self, at: usize, length: usize) -> Vec<u8> {
        // SAFETY: the writers of this world are on this thread, which does nothing else meanwhile.
        unsafe { self.region.snapshot(at, length) }
    }

    /// Returns the header and the payload of the first chunk of a page with one chunk.
    pub fn chunk(&self, page: usize) -> (u32, u16, u16, Vec<u8>) {
        let bytes = self.bytes(page * self.page + 8, self.page - 8);
        let (header, payload) = bytes.split_at(8);
        (
            u32::from_le_bytes(header[..4].try_into().unwrap()),
            u16::from_le_bytes(header[4..6].try_into().unwrap()),
            u16::from_le_bytes(header[6..8].try_into().unwrap()),
            payload.to_vec(),
        )
    }
}

/// Returns the body of a packet of exactly `length` bytes.
pub fn raw(length: usize) -> Vec<u8> {
    encode(|m| m.bytes(1, &vec![b'x'; length - 2 - usize::from(length > 129)]))
}

pub fn write(writer: &mut TraceWriter, body: &[u8]) {
    writer.write_packet(body);
}

/// Returns the fragments of a payload, as many as the header counts.
pub fn fragments(stored: &Stored) -> Vec<&[u8]> {
    let mut rest = stored.payload.as_slice();
    (0..stored.header.count)
        .map(|_| {
            let (length, width) = decode_varint(rest).unwrap();
            let fragment = &rest[width..][..length as usize];
            rest = &rest[width + length as usize..];
            fragment
        })
        .collect()
}

/// Reassembles fragments into packets. Packets cut off by a loss and empty fragments are left out.
pub fn assemble<'a>(chunks: impl Iterator<Item = &'a Stored>) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    let mut partial: Option<Vec<u8>> = None;
    for stored in chunks {
        let flags = stored.header.flags;
        assert!(
            !flags.contains(ChunkFlags::NEEDS_PATCHING),
            "unpatched chunk"
        );
        let mut rest = stored.payload.as_slice();
        for index in 0..stored.header.count {
            let (length, width) = decode_varint(rest).unwrap();
            if length == 0x0fff_ffff {
                partial = None;
                break;
            }
            let fragment = &rest[width..][..length as usize];
            rest = &rest[width + length as usize..];
            let first = index == 0;
            let last = index + 1 == stored.header.count;
            let mut packet = Vec::new();
            if first && flags.contains(ChunkFlags::FIRST_CONTINUES) {
                match partial.take() {
                    Some(begun) => packet = begun,
                    None => continue,
                }
            }
            packet.extend_from_slice(fragment);
            if last && flags.contains(ChunkFlags::LAST_CONTINUES) {
                partial = Some(packet);
            } else if !packet.is_empty() {
                packets.push(packet);
            }
        }
    }
    packets
}
