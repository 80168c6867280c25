//! Builds chunks, and examines the packets of a buffer.

use ferretto_service::buffer::{
    BufferOptions, Chunk, Identity, Patch, Policy, Semantics, TraceBuffer,
};
use proptest::test_runner::Config as ProptestConfig;

pub(crate) const FIRST: u8 = 1;
pub(crate) const LAST: u8 = 2;
pub(crate) const PATCH: u8 = 4;

/// The size prefix of an aborted packet.
pub(crate) const ABORT: [u8; 4] = [0xff, 0xff, 0xff, 0x7f];

/// A packet as read: producer, writer, bytes, loss.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) producer: u16,
    pub(crate) writer: u16,
    pub(crate) bytes: Vec<u8>,
    pub(crate) pieces: usize,
    pub(crate) loss: u32,
}

/// A builder for a chunk.
#[derive(Debug, Clone)]
pub(crate) struct Make {
    pub(crate) producer: u16,
    pub(crate) writer: u16,
    pub(crate) id: u32,
    pub(crate) fragments: u16,
    pub(crate) flags: u8,
    pub(crate) complete: bool,
    pub(crate) payload: Vec<u8>,
    pub(crate) uid: u32,
}

pub(crate) fn chunk(producer: u16, writer: u16, id: u32) -> Make {
    Make {
        producer,
        writer,
        id,
        fragments: 0,
        flags: 0,
        complete: true,
        payload: Vec::new(),
        uid: 1000,
    }
}

impl Make {
    /// Adds a fragment of these bytes.
    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.payload.extend(prefix(bytes.len()));
        self.payload.extend(bytes);
        self.fragments += 1;
        self
    }

    /// Adds a fragment of `size` bytes including its size field, filled from a seed.
    pub(crate) fn packet(self, size: usize, seed: u8) -> Self {
        let body = body(size, seed);
        self.bytes(&body)
    }

    /// Adds raw bytes, without counting a fragment.
    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.payload.extend(bytes);
        self
    }

    pub(crate) fn count(mut self, fragments: u16) -> Self {
        self.fragments = fragments;
        self
    }

    pub(crate) fn flags(mut self, flags: u8) -> Self {
        self.flags = flags;
        self
    }

    /// Pads the payload to `size` bytes, as in a shared-memory chunk.
    pub(crate) fn pad(mut self, size: usize) -> Self {
        self.payload.resize(size, 0);
        self
    }

    /// Marks the chunk as scraped while it was being written.
    pub(crate) fn scraped(mut self) -> Self {
        self.complete = false;
        self
    }

    pub(crate) fn uid(mut self, uid: u32) -> Self {
        self.uid = uid;
        self
    }

    pub(crate) fn copy_to(&self, buffer: &mut TraceBuffer) {
        buffer.copy_chunk(&Chunk {
            producer: self.producer,
            identity: Identity {
                uid: self.uid,
                pid: Some(i32::from(self.producer)),
                machine_id: 0,
            },
            writer: self.writer,
            id: self.id,
            fragments: self.fragments,
            flags: self.flags,
            complete: self.complete,
            payload: &self.payload,
        });
    }
}

/// Returns the contents of [`Make::packet`].
pub(crate) fn body(size: usize, seed: u8) -> Vec<u8> {
    let prefix = if size <= 128 { 1 } else { 2 };
    (0..size - prefix)
        .map(|index| seed.wrapping_add(index as u8))
        .collect()
}

fn prefix(len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = len;
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

pub(crate) fn ring(size: u64) -> TraceBuffer {
    TraceBuffer::new(BufferOptions::ring(size)).expect("memory")
}

pub(crate) fn discard(size: u64) -> TraceBuffer {
    TraceBuffer::new(BufferOptions::discard(size)).expect("memory")
}

pub(crate) fn v1(size: u64, policy: Policy) -> TraceBuffer {
    TraceBuffer::new(BufferOptions {
        size,
        policy,
        semantics: Semantics::V1,
    })
    .expect("memory")
}

pub(crate) fn read_one(buffer: &mut TraceBuffer) -> Option<Got> {
    buffer.read_next().map(|packet| {
        assert_eq!(
            packet.len(),
            packet.fragments().map(<[u8]>::len).sum::<usize>()
        );
        Got {
            producer: packet.producer,
            writer: packet.writer,
            bytes: packet.to_vec(),
            pieces: packet.fragments().len(),
            loss: packet.loss.bits(),
        }
    })
}

pub(crate) fn read_all(buffer: &mut TraceBuffer) -> Vec<Got> {
    std::iter::from_fn(|| read_one(buffer)).collect()
}

/// Returns the first byte and the loss of each packet.
pub(crate) fn seeds(buffer: &mut TraceBuffer) -> Vec<(u8, u32)> {
    read_all(buffer)
        .into_iter()
        .map(|got| (got.bytes[0], got.loss))
        .collect()
}

pub(crate) fn patch(offset: u32, data: [u8; 4]) -> Patch {
    Patch { offset, data }
}

/// Runs this many cases, unless `PROPTEST_CASES` is set.
pub(crate) fn cases(count: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES");
    ProptestConfig {
        cases: asked
            .ok()
            .and_then(|cases| cases.parse().ok())
            .unwrap_or(count),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}
