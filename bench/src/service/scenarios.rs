//! The scenarios in which a service is measured.

use std::convert::Infallible;
use std::fs::File;
use std::time::{Duration, Instant};

use super::load::{Load, PATIENCE, SessionPlan, consumer, start_session, stop_session};
use super::process::{ServiceProcess, StartError, Usage, Who};

/// The result of one run of a scenario. Less is better in all cases.
#[derive(Debug, Clone, Copy)]
pub enum Measured {
    /// Per GB (10^9 bytes of packets).
    PerGigabyte {
        /// The CPU time of the service.
        cpu: Duration,
        /// The elapsed time.
        wall: Duration,
        /// The peak of resident memory in bytes.
        peak: u64,
    },
    /// Per packet.
    PerMessage {
        /// The CPU time of the service.
        cpu: Duration,
        /// The elapsed time.
        wall: Duration,
    },
    /// Resident memory in bytes.
    Memory(u64),
}

/// Measures the usage of a service from its creation on.
struct Watch<'a> {
    service: &'a ServiceProcess,
    before: Usage,
    start: Instant,
}

impl<'a> Watch<'a> {
    fn start(service: &'a ServiceProcess) -> Self {
        Self {
            service,
            before: service.usage(),
            start: Instant::now(),
        }
    }

    fn per_gigabyte(&self, bytes: u64) -> Measured {
        let wall = self.start.elapsed();
        let usage = self.service.usage();
        let gigabytes = bytes as f64 / 1e9;
        Measured::PerGigabyte {
            cpu: (usage.cpu - self.before.cpu).div_f64(gigabytes),
            wall: wall.div_f64(gigabytes),
            peak: usage.peak,
        }
    }

    fn per_message(&self, messages: u64) -> Measured {
        let wall = self.start.elapsed();
        let cpu = self.service.usage().cpu - self.before.cpu;
        let per_message = |time: Duration| time.div_f64(messages as f64);
        Measured::PerMessage {
            cpu: per_message(cpu),
            wall: per_message(wall),
        }
    }
}

/// A scenario.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// The name.
    pub name: &'static str,
    /// Runs the scenario once with a fresh service, with that many MB of packets if applicable.
    pub run: fn(Who, u64) -> Result<Measured, StartError>,
}

/// All scenarios.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "commit, 1 writer",
        run: |who, megabytes| commit(who, 1, megabytes),
    },
    Scenario {
        name: "commit, 4 writers",
        run: |who, megabytes| commit(who, 4, megabytes),
    },
    Scenario {
        name: "BM_EndToEnd_Producer, 512 bytes, 128 KiB",
        run: |who, megabytes| end_to_end(who, 512, 128, megabytes),
    },
    Scenario {
        name: "BM_EndToEnd_Producer, 512 bytes, 256 KiB",
        run: |who, megabytes| end_to_end(who, 512, 256, megabytes),
    },
    Scenario {
        name: "BM_EndToEnd_Producer, 512 bytes, 1024 KiB",
        run: |who, megabytes| end_to_end(who, 512, 1024, megabytes),
    },
    Scenario {
        name: "BM_EndToEnd_Producer, 2048 bytes, 128 KiB",
        run: |who, megabytes| end_to_end(who, 2048, 128, megabytes),
    },
    Scenario {
        name: "BM_EndToEnd_Producer, 2048 bytes, 256 KiB",
        run: |who, megabytes| end_to_end(who, 2048, 256, megabytes),
    },
    Scenario {
        name: "BM_EndToEnd_Producer, 2048 bytes, 1024 KiB",
        run: |who, megabytes| end_to_end(who, 2048, 1024, megabytes),
    },
    Scenario {
        name: "drain to a file",
        run: |who, _| drain(who),
    },
    Scenario {
        name: "commit and drain every 100 ms",
        run: record,
    },
    Scenario {
        name: "read over the socket",
        run: |who, _| read_back(who),
    },
    Scenario {
        name: "resident, idle",
        run: |who, _| {
            Ok(Measured::Memory(
                ServiceProcess::start(who)?.usage().resident,
            ))
        },
    },
    Scenario {
        name: "resident, each producer",
        run: |who, _| each_producer(who),
    },
];

/// Chunks from shared memory into a ring buffer that wraps many times.
fn commit(who: Who, threads: u64, megabytes: u64) -> Result<Measured, StartError> {
    let service = ServiceProcess::start(who)?;
    let load = Load::connect(service.producer_address());
    let mut consumer = consumer(&service.consumer_address());
    let plan = SessionPlan {
        buffer_kb: 64 * 1024,
        ..Default::default()
    };
    start_session(&mut consumer, plan, None);
    let buffer = load.await_start();
    // // Wraps once, so that the buffer's memory is allocated.
    load.write(buffer, 1, 80_000_000);
    let watch = Watch::start(&service);
    let bytes = load.write(buffer, threads, megabytes * 1_000_000);
    Ok(watch.per_gigabyte(bytes))
}

/// Upstream's end-to-end benchmark of a producer: one thread writes packets of one size into a
/// small ring buffer, at full speed.
fn end_to_end(
    who: Who,
    size: usize,
    memory_kib: u32,
    megabytes: u64,
) -> Result<Measured, StartError> {
    let service = ServiceProcess::start(who)?;
    let load = Load::with_memory(service.producer_address(), memory_kib * 1024);
    let mut consumer = consumer(&service.consumer_address());
    let plan = SessionPlan {
        buffer_kb: 512,
        ..Default::default()
    };
    start_session(&mut consumer, plan, None);
    let buffer = load.await_start();
    let messages = megabytes * 1_000_000 / size as u64;
    load.write_messages(buffer, messages / 20, size);
    let watch = Watch::start(&service);
    load.write_messages(buffer, messages, size);
    Ok(watch.per_message(messages))
}

/// The number of bytes that fill the buffer of a scenario.
const HELD: u64 = 200_000_000;
const HELD_PLAN: SessionPlan = SessionPlan {
    buffer_kb: 256 * 1024,
    write_period_ms: None,
};

/// From a full buffer into a file, by stopping a session that has not written before.
fn drain(who: Who) -> Result<Measured, StartError> {
    let service = ServiceProcess::start(who)?;
    let load = Load::connect(service.producer_address());
    let mut consumer = consumer(&service.consumer_address());
    let path = service.folder().join("trace");
    let plan = SessionPlan {
        write_period_ms: Some(3_600_000),
        ..HELD_PLAN
    };
    start_session(&mut consumer, plan, Some(File::create(&path)?.into()));
    let bytes = load.write(load.await_start(), 1, HELD);
    let watch = Watch::start(&service);
    stop_session(&mut consumer);
    let measured = watch.per_gigabyte(bytes);
    let size = path.metadata()?.len();
    assert!(size >= bytes, "{size} of {bytes} bytes are in the file");
    Ok(measured)
}

/// Runs a long recording: packets arrive and are drained at the same time.
fn record(who: Who, megabytes: u64) -> Result<Measured, StartError> {
    let service = ServiceProcess::start(who)?;
    let load = Load::connect(service.producer_address());
    let mut consumer = consumer(&service.consumer_address());
    let path = service.folder().join("trace");
    let plan = SessionPlan {
        buffer_kb: 256 * 1024,
        write_period_ms: Some(100),
    };
    start_session(&mut consumer, plan, Some(File::create(&path)?.into()));
    let buffer = load.await_start();
    let watch = Watch::start(&service);
    let bytes = load.write(buffer, 1, megabytes * 1_000_000);
    stop_session(&mut consumer);
    let measured = watch.per_gigabyte(bytes);
    let size = path.metadata()?.len();
    assert!(size >= bytes, "{size} of {bytes} bytes are in the file");
    Ok(measured)
}

/// From a full buffer to a consumer.
fn read_back(who: Who) -> Result<Measured, StartError> {
    let service = ServiceProcess::start(who)?;
    let load = Load::connect(service.producer_address());
    let mut consumer = consumer(&service.consumer_address());
    start_session(&mut consumer, HELD_PLAN, None);
    let bytes = load.write(load.await_start(), 1, HELD);
    stop_session(&mut consumer);
    let watch = Watch::start(&service);
    let mut read = 0;
    let add = |packet: &[u8]| {
        read += packet.len() as u64;
        Ok::<(), Infallible>(())
    };
    consumer
        .read_buffers(PATIENCE, add)
        .expect("the trace is read");
    let measured = watch.per_gigabyte(bytes);
    assert!(read >= bytes, "{read} of {bytes} bytes were read");
    Ok(measured)
}

/// Measures the memory of a producer with shared memory and a running data source, which has
/// written a little.
fn each_producer(who: Who) -> Result<Measured, StartError> {
    const PRODUCERS: u64 = 50;
    let service = ServiceProcess::start(who)?;
    let mut consumer = consumer(&service.consumer_address());
    let plan = SessionPlan {
        buffer_kb: 16 * 1024,
        ..Default::default()
    };
    start_session(&mut consumer, plan, None);
    let first = Load::connect(service.producer_address());
    first.write(first.await_start(), 1, 20_000_000);
    let before = service.usage().resident;
    let others: Vec<Load> = (0..PRODUCERS)
        .map(|_| {
            let load = Load::connect(service.producer_address());
            load.write(load.await_start(), 1, 4_000);
            load
        })
        .collect();
    let after = service.usage().resident;
    drop(others);
    Ok(Measured::Memory(after.saturating_sub(before) / PRODUCERS))
}
