//! Upstream's trace buffer benchmarks (`src/tracing/service/trace_buffer_benchmark.cc`), and memcpy of
//! the same bytes beside them.
//!
//! One iteration is what upstream's is, so times compare directly. Rates count the bytes really
//! copied or read, where upstream counts 4096 for each chunk.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ferretto_bench::{CHUNK_SIZE, ChunkTemplate, MEASUREMENT, WARM_UP, chunk_templates};
use ferretto_service::buffer::{BufferOptions, Chunk, Identity, Patch, TraceBuffer};

const MIB: usize = 1 << 20;
const CHUNKS_WRITTEN: usize = 64 * MIB / CHUNK_SIZE;
const CHUNKS_READ: usize = (128 * MIB - CHUNK_SIZE).div_ceil(CHUNK_SIZE);
const WRITERS: usize = 1000;

fn ring(size: usize) -> TraceBuffer {
    TraceBuffer::new(BufferOptions::ring(size as u64)).expect("memory for the buffer")
}

fn copy(buffer: &mut TraceBuffer, template: &ChunkTemplate, writer: u16, id: u32) {
    buffer.copy_chunk(&Chunk {
        producer: writer,
        identity: Identity {
            uid: 1000,
            pid: Some(100),
            machine_id: 0,
        },
        writer,
        id,
        fragments: template.fragments,
        flags: 0,
        complete: true,
        payload: black_box(&template.payload),
    });
}

/// The bytes of so many chunks.
fn bytes(templates: &[ChunkTemplate], chunks: usize) -> Throughput {
    let bytes = (0..chunks).map(|index| templates[index % templates.len()].payload.len());
    Throughput::Bytes(bytes.sum::<usize>() as u64)
}

fn write(criterion: &mut Criterion) {
    let templates = chunk_templates(100);
    let mut group = criterion.benchmark_group("BM_TraceBuffer_WR");
    group.throughput(bytes(&templates, CHUNKS_WRITTEN));

    group.bench_function("memcpy", |bencher| {
        let mut memory = vec![0u8; 64 * MIB];
        let mut at = 0;
        bencher.iter(|| {
            for index in 0..CHUNKS_WRITTEN {
                let payload = &black_box(&templates[index % templates.len()]).payload;
                if at + payload.len() > memory.len() {
                    at = 0;
                }
                memory[at..at + payload.len()].copy_from_slice(payload);
                at += payload.len();
            }
            black_box(&mut memory);
        });
    });

    let mut next = 0u32;
    let mut buffer = ring(64 * MIB);
    group.bench_function("BM_TraceBuffer_WR_SingleWriter", |bencher| {
        bencher.iter(|| {
            for _ in 0..CHUNKS_WRITTEN {
                let template = &templates[next as usize % templates.len()];
                copy(&mut buffer, template, 1, next);
                next += 1;
            }
        });
    });

    let mut ids = vec![0u32; WRITERS];
    let mut next = 0;
    let mut buffer = ring(64 * MIB);
    group.bench_function("BM_TraceBuffer_WR_MultipleWriters", |bencher| {
        bencher.iter(|| {
            for index in 0..CHUNKS_WRITTEN {
                let writer = index % WRITERS;
                let template = &templates[next % templates.len()];
                copy(&mut buffer, template, writer as u16 + 1, ids[writer]);
                ids[writer] += 1;
                next += 1;
            }
        });
    });
    group.finish();
}

/// Fills a buffer, as often as asked, and times what is done with it.
fn filled(
    templates: &[ChunkTemplate],
    times: u64,
    mut timed: impl FnMut(&mut TraceBuffer),
) -> Duration {
    (0..times)
        .map(|_| {
            let mut buffer = ring(128 * MIB);
            for index in 0..CHUNKS_READ {
                let template = &templates[index % templates.len()];
                copy(&mut buffer, template, 1, index as u32);
            }
            let start = Instant::now();
            timed(&mut buffer);
            start.elapsed()
        })
        .sum()
}

fn read(criterion: &mut Criterion) {
    let templates = chunk_templates(100);
    let mut group = criterion.benchmark_group("BM_TraceBuffer_RD");
    group.throughput(bytes(&templates, CHUNKS_READ));

    group.bench_function("memcpy", |bencher| {
        let from = vec![1u8; 128 * MIB * 2 / 3];
        let mut to = vec![0u8; from.len()];
        bencher.iter(|| {
            to.copy_from_slice(black_box(&from));
            black_box(&mut to);
        });
    });
    group.bench_function("BM_TraceBuffer_RD", |bencher| {
        bencher.iter_custom(|times| {
            filled(&templates, times, |buffer| {
                let mut bytes = 0;
                while let Some(packet) = buffer.read_next() {
                    bytes += packet.fragments().map(<[u8]>::len).sum::<usize>();
                }
                black_box(bytes);
            })
        });
    });
    group.finish();
}

fn patch(criterion: &mut Criterion) {
    let templates = chunk_templates(10);
    let mut buffer = ring(16 * MIB);
    let chunks = 16 * MIB / CHUNK_SIZE;
    for index in 0..chunks {
        copy(
            &mut buffer,
            &templates[index % templates.len()],
            1,
            index as u32,
        );
    }
    let last = chunks as u32 - 1;
    let patch = Patch {
        offset: 10,
        data: [1, 2, 3, 4],
    };
    let mut group = criterion.benchmark_group("BM_TraceBuffer_Patch");
    for (distance, id) in [("0", last), ("10", last - 10), ("-1", last + 1)] {
        group.bench_function(distance, |bencher| {
            bencher.iter(|| buffer.try_patch(1, 1, black_box(id), &[patch], false));
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(WARM_UP)
        .measurement_time(MEASUREMENT);
    targets = write, read, patch
}
criterion_main!(benches);
