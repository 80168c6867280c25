//! Slices, moments and counters of a small pipeline on two threads.
//!
//! Record it with `ferretto record -- cargo run --example track_events`.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use ferretto::{Category, counter, instant, slice};

/// A category that many places share, with an explanation for people.
static WORK: Category = Category::new("work").description("What the worker thread does");

fn main() -> Result<(), ferretto::InitError> {
    // Waiting a little makes sure that a recording that is running sees the first events as well.
    ferretto::Options::new()
        .wait(Duration::from_secs(1))
        .init()?;

    let (sender, jobs) = mpsc::channel();
    let worker = thread::Builder::new()
        .name("worker".to_owned())
        .spawn(move || worker(&jobs));
    for job in 0..100u64 {
        let _slice = slice!("main", "produce", job = job);
        counter!("main", "jobs sent", job + 1);
        if job % 10 == 0 {
            instant!("main", &format!("checkpoint {}", job / 10));
        }
        thread::sleep(Duration::from_millis(1));
        if sender.send(job).is_err() {
            break;
        }
    }
    drop(sender);
    if let Ok(worker) = worker
        && worker.join().is_err()
    {
        eprintln!("the worker panicked");
    }
    // Not needed for data to arrive; but after this it certainly has.
    ferretto::flush(Duration::from_secs(1));
    Ok(())
}

fn worker(jobs: &mpsc::Receiver<u64>) {
    for job in jobs {
        let _slice = slice!(WORK, "job", job = job, is_even = job % 2 == 0);
        {
            let _slice = slice!(WORK, "sum");
            let sum: u64 = (0..job * 1000).sum();
            instant!(WORK, "result", sum = sum);
        }
    }
    ferretto::flush(Duration::from_secs(1));
}
