//! A program that always records, and keeps the events that led to a panic.
//!
//! Run it with `cargo run --example flight_recorder`, then open `flight_recorder.pftrace` at
//! <https://ui.perfetto.dev>.

use std::error::Error;
use std::thread;

use ferretto::{FlightRecorder, counter, slice};

fn main() -> Result<(), Box<dyn Error>> {
    // One MiB of memory holds the last events of the program; older ones are overwritten.
    let recorder = FlightRecorder::options()
        .size_kb(1024)
        .on_panic("flight_recorder.pftrace")
        .start()?;

    let worker = thread::Builder::new().name("worker".to_owned());
    let worker = worker.spawn(|| (0..100_000).map(work).sum::<u64>())?;
    if worker.join().is_err() {
        println!("what led to it is in flight_recorder.pftrace");
    }

    // The recorder goes on. A trace can be written at any time, here into memory.
    let trace = recorder.dump_into(Vec::new())?;
    println!("the last moments take {} bytes", trace.len());
    Ok(())
}

/// Executes a step, which usually succeeds.
fn work(step: u64) -> u64 {
    let _slice = slice!("app", "step", number = step);
    counter!("app", "progress", step);
    assert_ne!(step, 76_543, "this step does not work");
    step % 7
}
