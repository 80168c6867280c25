//! Upstream's trace buffer benchmarks (`src/tracing/service/trace_buffer_benchmark.cc`), and memcpy
//! of the same bytes.
//!
//! Iterations are the same as upstream's, so times compare directly. Rates count the bytes actually
//! copied or read, whereas upstream counts 4096 for each chunk.

use std::hint::black_box;
use std::rc::Rc;
use std::time::{Duration, Instant};

use ferretto_service::buffer::{BufferOptions, Chunk, Identity, Patch, Semantics, TraceBuffer};

use crate::chunks::{CHUNK_SIZE, ChunkTemplate, chunk_templates, payload_bytes};
#[cfg(feature = "upstream")]
use crate::upstream::{Buffer, Engine};
use crate::{Group, Row};

const MIB: usize = 1 << 20;
const CHUNKS_WRITTEN: usize = 64 * MIB / CHUNK_SIZE;
const CHUNKS_READ: usize = (128 * MIB - CHUNK_SIZE).div_ceil(CHUNK_SIZE);
const CHUNKS_PATCHED: usize = 16 * MIB / CHUNK_SIZE;
/// The part of [`mixed`] that is written before it is read.
const CHUNKS_A_DRAIN: usize = MIB / CHUNK_SIZE;
const WRITERS: usize = 1000;

type Templates = Rc<[ChunkTemplate]>;

/// Our buffer, and the next chunk ids of its writers.
struct Ours {
    buffer: TraceBuffer,
    ids: Vec<u32>,
    next: usize,
}

impl Ours {
    fn new(size: usize) -> Self {
        Self::with_semantics(size, Semantics::V2)
    }

    fn with_semantics(size: usize, semantics: Semantics) -> Self {
        let options = BufferOptions {
            semantics,
            ..BufferOptions::ring(size as u64)
        };
        Self {
            buffer: TraceBuffer::new(options).expect("memory for the buffer"),
            ids: Vec::new(),
            next: 0,
        }
    }

    /// Copies `times` chunks into the buffer, for the writers in turn.
    fn write(&mut self, templates: &[ChunkTemplate], writers: usize, times: usize) {
        self.ids.resize(writers, 0);
        for index in 0..times {
            let writer = index % writers;
            let template = &templates[self.next % templates.len()];
            // As the service does.
            self.buffer.prefetch(template.payload.len());
            self.buffer.copy_chunk(&Chunk {
                producer: writer as u16 + 1,
                identity: Identity {
                    uid: 1000 + writer as u32,
                    pid: Some(100 + writer as i32),
                    machine_id: 0,
                },
                writer: writer as u16 + 1,
                id: self.ids[writer],
                fragments: template.fragments,
                flags: 0,
                complete: true,
                payload: black_box(&template.payload),
            });
            self.ids[writer] += 1;
            self.next += 1;
        }
    }

    /// Reads everything and returns the number of bytes.
    fn read(&mut self) -> usize {
        let mut bytes = 0;
        while let Some(packet) = self.buffer.read_next() {
            bytes += packet.fragments().map(<[u8]>::len).sum::<usize>();
        }
        bytes
    }
}

fn templates(count: usize) -> Templates {
    chunk_templates(count).into()
}

pub(crate) fn write_single_writer() -> Group {
    write("BM_TraceBuffer_WR_SingleWriter", 1)
}

pub(crate) fn write_multiple_writers() -> Group {
    write("BM_TraceBuffer_WR_MultipleWriters", WRITERS)
}

fn write(name: &'static str, writers: usize) -> Group {
    let templates = templates(100);
    let bytes = payload_bytes(&templates, CHUNKS_WRITTEN);
    let ours = {
        let templates = Rc::clone(&templates);
        let mut buffer = Ours::new(64 * MIB);
        Row::of_one_thread("ours", move || {
            buffer.write(&templates, writers, CHUNKS_WRITTEN);
        })
    };
    #[cfg(feature = "upstream")]
    let upstream = |name, engine| {
        let templates = Rc::clone(&templates);
        let mut buffer = Buffer::new(engine, 64 * MIB);
        Row::of_one_thread(name, move || {
            buffer.write(&templates, writers, CHUNKS_WRITTEN);
        })
    };
    Group {
        name,
        bar: Some(1.5),
        bytes: Some(bytes),
        rows: vec![
            ours,
            #[cfg(feature = "upstream")]
            upstream("upstream_v1", Engine::V1),
            #[cfg(feature = "upstream")]
            upstream("upstream_v2", Engine::V2),
            copied_chunks(templates),
        ],
    }
}

/// Copies the same bytes through the same amount of memory, without a buffer.
fn copied_chunks(templates: Templates) -> Row {
    let mut memory = vec![0u8; 64 * MIB];
    let mut at = 0;
    Row::of_one_thread("memcpy", move || {
        for index in 0..CHUNKS_WRITTEN {
            let payload = &black_box(&templates[index % templates.len()]).payload;
            if at + payload.len() > memory.len() {
                at = 0;
            }
            memory[at..at + payload.len()].copy_from_slice(payload);
            at += payload.len();
        }
        black_box(&mut memory);
    })
}

/// Creates a value for each iteration, and times only its use.
fn prepared<T>(times: u64, make: impl Fn() -> T, mut work: impl FnMut(&mut T)) -> Duration {
    (0..times)
        .map(|_| {
            let mut made = make();
            let start = Instant::now();
            work(&mut made);
            start.elapsed()
        })
        .sum()
}

pub(crate) fn read() -> Group {
    let templates = templates(100);
    let bytes = payload_bytes(&templates, CHUNKS_READ);
    let ours = {
        let templates = Rc::clone(&templates);
        let filled = move || {
            let mut buffer = Ours::new(128 * MIB);
            buffer.write(&templates, 1, CHUNKS_READ);
            buffer
        };
        Row::new("ours", move |times| {
            prepared(times, &filled, |buffer| {
                black_box(buffer.read());
            })
        })
    };
    #[cfg(feature = "upstream")]
    let upstream = |name, engine| {
        let templates = Rc::clone(&templates);
        let filled = move || {
            let mut buffer = Buffer::new(engine, 128 * MIB);
            buffer.write(&templates, 1, CHUNKS_READ);
            buffer
        };
        Row::new(name, move |times| {
            prepared(times, &filled, |buffer| {
                black_box(buffer.read());
            })
        })
    };
    let from = vec![1u8; bytes as usize];
    let mut to = vec![0u8; from.len()];
    Group {
        name: "BM_TraceBuffer_RD",
        bar: Some(3.0),
        bytes: Some(bytes),
        rows: vec![
            ours,
            #[cfg(feature = "upstream")]
            upstream("upstream_v1", Engine::V1),
            #[cfg(feature = "upstream")]
            upstream("upstream_v2", Engine::V2),
            Row::of_one_thread("memcpy", move || {
                to.copy_from_slice(black_box(&from));
                black_box(&mut to);
            }),
        ],
    }
}

/// A benchmark that upstream does not have: a long recording with a thousand writers, drained every
/// MiB.
pub(crate) fn mixed() -> Group {
    let templates = templates(100);
    let bytes = payload_bytes(&templates, CHUNKS_WRITTEN);
    let drains = CHUNKS_WRITTEN / CHUNKS_A_DRAIN;
    let ours = |name, semantics| {
        let templates = Rc::clone(&templates);
        let mut buffer = Ours::with_semantics(64 * MIB, semantics);
        Row::of_one_thread(name, move || {
            for _ in 0..drains {
                buffer.write(&templates, WRITERS, CHUNKS_A_DRAIN);
                black_box(buffer.read());
            }
        })
    };
    #[cfg(feature = "upstream")]
    let upstream = |name, engine| {
        let templates = Rc::clone(&templates);
        let mut buffer = Buffer::new(engine, 64 * MIB);
        Row::of_one_thread(name, move || {
            for _ in 0..drains {
                buffer.write(&templates, WRITERS, CHUNKS_A_DRAIN);
                black_box(buffer.read());
            }
        })
    };
    Group {
        name: "TraceBuffer_WriteThenRead",
        bar: None,
        bytes: Some(bytes),
        rows: vec![
            ours("ours", Semantics::V2),
            // Writer by writer, as `upstream_v1`.
            ours("ours_v1", Semantics::V1),
            #[cfg(feature = "upstream")]
            upstream("upstream_v1", Engine::V1),
            #[cfg(feature = "upstream")]
            upstream("upstream_v2", Engine::V2),
        ],
    }
}

pub(crate) fn patch_last() -> Group {
    patch("BM_TraceBuffer_Patch/0", CHUNKS_PATCHED as u32 - 1)
}

pub(crate) fn patch_tenth() -> Group {
    patch("BM_TraceBuffer_Patch/10", CHUNKS_PATCHED as u32 - 11)
}

pub(crate) fn patch_missing() -> Group {
    patch("BM_TraceBuffer_Patch/-1", CHUNKS_PATCHED as u32)
}

fn patch(name: &'static str, chunk: u32) -> Group {
    const OFFSET: usize = 10;
    let templates = templates(10);
    let ours = {
        let mut buffer = Ours::new(16 * MIB);
        buffer.write(&templates, 1, CHUNKS_PATCHED);
        let patch = Patch {
            offset: OFFSET as u32,
            data: [1, 2, 3, 4],
        };
        Row::of_one_thread("ours", move || {
            buffer
                .buffer
                .try_patch(1, 1, black_box(chunk), &[patch], false);
        })
    };
    #[cfg(feature = "upstream")]
    let upstream = |name, engine| {
        let mut buffer = Buffer::new(engine, 16 * MIB);
        buffer.write(&templates, 1, CHUNKS_PATCHED);
        Row::new(name, move |times| {
            let start = Instant::now();
            black_box(buffer.patch(black_box(chunk), OFFSET, times as usize));
            start.elapsed()
        })
    };
    Group {
        name,
        bar: Some(1.0),
        bytes: None,
        rows: vec![
            ours,
            #[cfg(feature = "upstream")]
            upstream("upstream_v1", Engine::V1),
            #[cfg(feature = "upstream")]
            upstream("upstream_v2", Engine::V2),
        ],
    }
}
