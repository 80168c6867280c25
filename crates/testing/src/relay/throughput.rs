//! Throughput of a service over TCP. The CPU time is that of producer, relay and service together.

use std::sync::mpsc;
use std::time::Instant;

use ferretto_client::{Address, Consumer, Event, ExhaustedPolicy};

use super::World;
use super::upstream::Upstream;
use crate::client::{LIMIT, Recorder, config, next_event, producer_at, unique_address, write_text};

const PACKETS: usize = 200_000;
const PACKET: usize = 5000;

/// Returns the CPU time of this process and another in seconds.
fn cpu(other: Option<u32>) -> f64 {
    let own = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let own = own.tv_sec as f64 + own.tv_nsec as f64 / 1e9;
    let other = other.map_or(0.0, |pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .collect();
        let ticks: u64 = fields[11..13]
            .iter()
            .map(|field| field.parse::<u64>().unwrap())
            .sum();
        ticks as f64 / 100.0
    });
    own + other
}

/// Measures upstream's relay if it is available.
pub fn measure_upstream(world: &World) {
    let listen = unique_address("upstream-relay");
    let variables = [
        ("PERFETTO_RELAY_SOCK_NAME", world.remote.to_string()),
        ("PERFETTO_PRODUCER_SOCK_NAME", listen.to_string()),
    ];
    if let Some(upstream) = Upstream::start("traced_relay", &[], &variables) {
        let pid = Some(upstream.pid());
        measure("upstream's relay", &listen, &world.consumers, pid);
    }
}

/// Prints the throughput of a producer at this address, the CPU time of this and the other process,
/// and the peak memory of this process.
pub fn measure(name: &str, producers: &Address, consumers: &Address, other: Option<u32>) {
    let (took, cpu) = send(producers, consumers, (PACKETS, 32 << 10), other);
    let gigabytes = (PACKETS * PACKET) as f64 / 1e9;
    println!(
        "{name}: {:.1} GB a minute, {:.1} GB a minute of CPU; at most {} kB of memory",
        gigabytes / took * 60.0,
        gigabytes / cpu * 60.0,
        peak_memory_kb()
    );
}

/// Records `packets` packets of 5 kB. Returns the elapsed time, and the CPU time of this and the
/// other process, in seconds.
pub fn send(
    producers: &Address,
    consumers: &Address,
    (packets, buffer_kb): (usize, u32),
    other: Option<u32>,
) -> (f64, f64) {
    let mut producer = producer_at(producers);
    next_event(&mut producer, |event| matches!(event, Event::Connected));
    let (sender, written) = mpsc::channel();
    let policy = ExhaustedPolicy::StallThenAbort;
    let recorder = Recorder::start(producer, policy, move |writer| {
        let text = vec![b'x'; PACKET];
        for _ in 0..packets {
            write_text(writer, &text);
        }
        let _ = sender.send(());
    });
    let all_seen = || {
        let (sender, seen) = mpsc::channel();
        assert!(recorder.handle.sync(move || sender.send(()).unwrap()));
        recorder.handle.wake();
        seen.recv_timeout(10 * LIMIT).unwrap();
    };
    all_seen();
    let (begin, before) = (Instant::now(), cpu(other));
    let mut consumer = Consumer::connect(consumers, LIMIT).unwrap();
    consumer.enable_tracing(config(buffer_kb), None).unwrap();
    written.recv_timeout(10 * LIMIT).unwrap();
    all_seen();
    (begin.elapsed().as_secs_f64(), cpu(other) - before)
}

/// Returns the peak memory of this process in kilobytes.
pub fn peak_memory_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let digits = line.unwrap().trim().trim_end_matches(" kB");
    digits.parse().unwrap()
}
