//! Taking chunks of shared memory and giving them back, by one, two and eight threads at once.
//!
//! A cycle is everything that is done once a chunk: a writer takes one, writes a packet and gives it back, the commit is
//! made, the service takes the chunk and frees it.

use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ferretto_shm::{
    Arbiter, ArbiterOptions, ExhaustedPolicy, Outlet, Output, PageSize, Region, ServiceRegion,
};

const MEMORY: usize = 256 * 1024;

struct Deaf;

impl Outlet for Deaf {
    fn wake(&self) {}
    fn flush_now(&self) {}
}

/// Both sides of one region.
struct Sides {
    arbiter: Arc<Arbiter>,
    service: ServiceRegion,
}

impl Sides {
    fn new() -> Self {
        let region = Arc::new(Region::create(MEMORY).expect("shared memory"));
        let page = PageSize::DEFAULT;
        let options = ArbiterOptions::default();
        Self {
            arbiter: Arbiter::new(Arc::clone(&region), page, options, Box::new(Deaf))
                .expect("a region of whole pages"),
            service: ServiceRegion::new(region, page).expect("a region of whole pages"),
        }
    }

    /// As the service does for each commit.
    fn drain(&self) {
        while let Output::Commit(commit) = self.arbiter.poll_output_urgently() {
            for chunk in commit.moves {
                drop(black_box(self.service.try_read(chunk.page, chunk.chunk)));
            }
        }
    }
}

/// How long so many cycles take on each of so many threads.
fn run(threads: usize, cycles: u64) -> Duration {
    let sides = Sides::new();
    let barrier = Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut writer = sides.arbiter.create_writer(1, ExhaustedPolicy::Drop);
                    barrier.wait();
                    for _ in 0..cycles {
                        writer.new_packet().varint(1, 1);
                        writer.flush(None);
                        sides.drain();
                    }
                    assert_eq!(writer.drop_count(), 0);
                })
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        for worker in workers {
            worker.join().expect("a worker");
        }
        start.elapsed()
    })
}

fn acquisition(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("chunk acquisition");
    for threads in [1, 2, 8] {
        group.throughput(Throughput::Elements(threads as u64));
        group.bench_function(BenchmarkId::new("threads", threads), |bencher| {
            bencher.iter_custom(|cycles| run(threads, cycles));
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1500));
    targets = acquisition
}
criterion_main!(benches);
