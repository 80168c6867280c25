//! Samples the whole machine with callstacks and prints the cost of reading the rings, and losses:
//! `cargo run --release -p ferretto-perf --example rings -- 1000 10` for 1000 samples a second and
//! CPU, ten seconds.

use std::error::Error;
use std::time::{Duration, Instant};

use ferretto_perf::config::{Kernel, Plan};
use ferretto_perf::event::{Opened, open_all};
use ferretto_perf::record::Record;
use ferretto_proto::perf_event_config::CallstackSampling;
use ferretto_proto::perf_events::Timebase;
use ferretto_proto::perf_events::timebase::Interval;
use ferretto_proto::{Message, MessageField, PerfEventConfig};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

/// The sums over all records.
#[derive(Default)]
struct Sum {
    samples: u64,
    others: u64,
    lost: u64,
    stack_bytes: u64,
    /// A copy of the last stack, as an unwinder needs it.
    stack: Vec<u8>,
}

impl Sum {
    fn add(&mut self, record: &Record<'_>) {
        match record {
            Record::Sample(sample) => {
                self.samples += 1;
                self.stack_bytes += sample.stack.len() as u64;
                self.stack.clear();
                self.stack.extend_from_slice(sample.stack);
            }
            Record::Lost { count } => self.lost += count,
            _ => self.others += 1,
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let frequency = args.next().map_or(Ok(1000), |arg| arg.parse())?;
    let seconds = args.next().map_or(Ok(10), |arg| arg.parse())?;
    let config = PerfEventConfig {
        timebase: MessageField::some(Timebase {
            interval: Some(Interval::Frequency(frequency)),
            ..Default::default()
        }),
        callstack_sampling: MessageField::some(CallstackSampling {
            kernel_frames: Some(true),
            ..Default::default()
        }),
        ..Default::default()
    };
    let kernel = Kernel::default();
    let plan = Plan::new(&config.encode_to_vec(), &kernel)?;
    let mut opened = open_all(&plan, &kernel, None)?;
    opened
        .notices
        .iter()
        .for_each(|notice| println!("{notice}"));
    println!(
        "{} rings of {} KiB",
        opened.readers.len(),
        opened.readers[0].ring_size() / 1024
    );
    let started = Instant::now();
    let sum = run(&mut opened, Duration::from_secs(seconds))?;
    print(&sum, started.elapsed());
    Ok(())
}

fn run(opened: &mut Opened, length: Duration) -> Result<Sum, Box<dyn Error>> {
    let mut sum = Sum::default();
    for reader in &mut opened.readers {
        reader.enable()?;
    }
    let until = Instant::now() + length;
    while Instant::now() < until {
        let mut fds: Vec<_> = opened
            .readers
            .iter()
            .map(|reader| PollFd::new(reader, PollFlags::IN))
            .collect();
        let limit = Timespec {
            tv_sec: 0,
            tv_nsec: 100_000_000,
        };
        poll(&mut fds, Some(&limit))?;
        for reader in &mut opened.readers {
            reader.read(u64::MAX, &mut |record| sum.add(&record));
        }
    }
    for reader in &mut opened.readers {
        reader.disable()?;
        reader.read(u64::MAX, &mut |record| sum.add(&record));
        sum.lost += reader.take_unreported_lost();
    }
    Ok(sum)
}

fn print(sum: &Sum, elapsed: Duration) {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let used = Duration::new(used.tv_sec as u64, used.tv_nsec as u32);
    let records = sum.samples + sum.others;
    println!(
        "{} samples with {} KiB of stack each, {} other records, {} lost",
        sum.samples,
        sum.stack_bytes / sum.samples.max(1) / 1024,
        sum.others,
        sum.lost
    );
    println!(
        "{:.1} µs a record, {:.2} % of a CPU",
        used.as_secs_f64() * 1e6 / records.max(1) as f64,
        100.0 * used.as_secs_f64() / elapsed.as_secs_f64()
    );
}
