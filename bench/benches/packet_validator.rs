//! Upstream's packet validator benchmark
//! (`src/tracing/service/packet_stream_validator_benchmark.cc`).

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ferretto_bench::{MEASUREMENT, WARM_UP};
use ferretto_service::packet::validate;
use ferretto_wire::Encoder;

/// A packet like a page of the kernel's scheduling events.
fn sched_bundle() -> Vec<u8> {
    let mut bytes = Vec::new();
    Encoder::new(&mut bytes).nested(1, |bundle| {
        bundle.varint(1, 1);
        for _ in 0..64 {
            bundle.nested(2, |event| {
                event.varint(2, 12345);
                event.varint(1, 1_000_000_000 * 3600 * 24 * 365);
                event.nested(4, |switch| {
                    switch.string(1, "thread_name_1");
                    switch.varint(2, 12345);
                    switch.varint(4, 42);
                    switch.string(5, "thread_name_2");
                    switch.varint(6, 67890);
                });
            });
        }
    });
    bytes
}

fn validator(criterion: &mut Criterion) {
    let packet = sched_bundle();
    let slices: Vec<Vec<u8>> = (0..10)
        .flat_map(|_| packet.chunks(512).map(<[u8]>::to_vec))
        .collect();
    let mut group = criterion.benchmark_group("BM_PacketStreamValidator");
    group.throughput(Throughput::Bytes(10 * packet.len() as u64));
    group.bench_function("BM_PacketStreamValidator", |bencher| {
        bencher.iter(|| validate(black_box(&slices).iter().map(Vec::as_slice)).is_ok());
    });
    group.finish();
    assert_eq!(validate(slices.iter().map(Vec::as_slice)), Ok(()));
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(WARM_UP)
        .measurement_time(MEASUREMENT);
    targets = validator
}
criterion_main!(benches);
