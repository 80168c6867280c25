//! Runs all groups with criterion.

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ferretto_bench::GROUPS;

fn groups(criterion: &mut Criterion) {
    for make in GROUPS {
        let group = make();
        let mut shown = criterion.benchmark_group(group.name);
        if let Some(bytes) = group.bytes {
            shown.throughput(Throughput::Bytes(bytes));
        }
        for mut row in group.rows {
            shown.bench_function(row.name, |bencher| {
                bencher.iter_custom(|times| row.run(times));
            });
        }
        shown.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1500));
    targets = groups
}
criterion_main!(benches);
