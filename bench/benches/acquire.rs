//! Acquiring and releasing chunks of shared memory, by one, two and eight threads at once.
//!
//! `filled`: every packet fills a chunk, so each acquires a new one and releases it, as in a stream
//! of events. `flushed`: a writer acquires a chunk, writes a small packet and flushes, the worst
//! case for commits.
//!
//! The service's part is done by the first thread that finds it free, since a connection has one
//! owner. The figure is the time for one cycle on every thread: with as many CPUs as threads,
//! ideally that of one thread.

use std::hint::black_box;
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ferretto_shm::{
    Arbiter, ArbiterOptions, ExhaustedPolicy, Layout, Outlet, Output, PageSize, Region,
    ServiceRegion,
};

/// More than eight threads can fill between two waits for the service.
const MEMORY: usize = 1024 * 1024;

/// A packet that fills a chunk of a page cut in fourteen.
const FILLING: [u8; 250] = [7; 250];

/// A kind of work, done once per cycle.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    layout: Layout,
    flush: bool,
    /// The number of cycles after which a thread does the service's part, if no other thread does.
    service: u64,
    /// The number of cycles after which a thread waits until it can do that.
    wait: u64,
}

const KINDS: [Kind; 2] = [
    Kind {
        name: "filled",
        layout: Layout::Div14,
        flush: false,
        service: 32,
        wait: 256,
    },
    Kind {
        name: "flushed",
        layout: Layout::Div1,
        flush: true,
        service: 1,
        wait: 16,
    },
];

struct Deaf;

impl Outlet for Deaf {
    fn wake(&self) {}
    fn flush_now(&self) {}
}

/// Both ends of a region.
struct Sides {
    arbiter: Arc<Arbiter>,
    service: Mutex<ServiceRegion>,
}

impl Sides {
    fn new(layout: Layout) -> Self {
        let region = Arc::new(Region::create(MEMORY).expect("shared memory"));
        let page = PageSize::DEFAULT;
        let options = ArbiterOptions {
            layout: Some(layout),
            ..ArbiterOptions::default()
        };
        Self {
            arbiter: Arbiter::new(Arc::clone(&region), page, options, Box::new(Deaf))
                .expect("a region of whole pages"),
            service: Mutex::new(ServiceRegion::new(region, page).expect("a region of whole pages")),
        }
    }

    /// Does the service's part for each commit.
    fn serve(&self, wait: bool) {
        let service = if wait {
            self.service.lock().unwrap_or_else(PoisonError::into_inner)
        } else if let Ok(service) = self.service.try_lock() {
            service
        } else {
            return;
        };
        loop {
            match self.arbiter.poll_output_urgently() {
                Output::Commit(commit) => commit.moves.iter().for_each(|chunk| {
                    drop(black_box(service.try_read(chunk.page, chunk.chunk)));
                }),
                Output::Register { .. } | Output::Unregister { .. } => {}
                Output::WaitUntil(_) | Output::Idle => return,
            }
        }
    }

    /// Does the work of one thread.
    fn write(&self, kind: Kind, cycles: u64, barrier: &Barrier) {
        let mut writer = self.arbiter.create_writer(1, ExhaustedPolicy::Drop);
        barrier.wait();
        for cycle in 0..cycles {
            if kind.flush {
                writer.new_packet().varint(1, 1);
                writer.flush(None);
            } else {
                writer.write_packet(&FILLING);
            }
            if cycle % kind.service == 0 {
                self.serve(cycle % kind.wait == 0);
            }
        }
        assert_eq!(writer.drop_count(), 0);
    }
}

/// Returns the duration of `cycles` cycles on each of `threads` threads.
fn run(kind: Kind, threads: usize, cycles: u64) -> Duration {
    let sides = Sides::new(kind.layout);
    let barrier = Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| sides.write(kind, cycles, &barrier)))
            .collect();
        // // Not after the barrier: this thread may be the last to continue.
        let start = Instant::now();
        barrier.wait();
        for worker in workers {
            worker.join().expect("a worker");
        }
        start.elapsed()
    })
}

fn acquisition(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("chunk acquisition");
    for kind in KINDS {
        for threads in [1, 2, 8] {
            group.throughput(Throughput::Elements(threads as u64));
            group.bench_function(BenchmarkId::new(kind.name, threads), |bencher| {
                bencher.iter_custom(|cycles| run(kind, threads, cycles));
            });
        }
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
