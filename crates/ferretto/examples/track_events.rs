//! Slices, instants, counters and states of a small pipeline on two threads: jobs are slices on
//! their own tracks, and flows lead from their producer to their worker.
//!
//! Record it with `ferretto record -- cargo run --example track_events`.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use ferretto::{CounterTrack, Flow, Track, Unit, counter, end_slice, instant, slice, state};

ferretto::categories! {
    /// The categories of this program, which users can select.
    static CATEGORIES = {
        MAIN: "main", "What the main thread does";
        WORK: "work", "What the worker thread does";
    }
}

/// The parent track of all jobs.
static JOBS: Track = Track::named("jobs", 0);

/// A counter with a unit.
static BYTES: CounterTrack = CounterTrack::new("bytes summed up").unit(Unit::Bytes);

fn main() -> Result<(), ferretto::InitError> {
    ferretto::register_categories(CATEGORIES);
    ferretto::init()?;

    let (sender, jobs) = mpsc::channel();
    let worker = thread::Builder::new()
        .name("worker".to_owned())
        .spawn(move || worker(&jobs));
    for job in 0..100u64 {
        let _slice = slice!(MAIN, "produce", job = job, flow: Flow::process(job));
        counter!(MAIN, "jobs sent", job + 1);
        if job % 10 == 0 {
            instant!(MAIN, &format!("checkpoint {}", job / 10));
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
    // Not required for data to arrive, but after this it certainly has.
    ferretto::flush(Duration::from_secs(1));
    Ok(())
}

fn worker(jobs: &mpsc::Receiver<u64>) {
    let mut bytes = 0;
    for job in jobs {
        state!(WORK, "worker", "busy");
        let _slice = slice!(WORK, "job", job = job, terminating_flow: Flow::process(job));
        let track = Track::named("job", job).child_of(&JOBS);
        let on_track = slice!(WORK, "sum", track: track);
        let sum: u64 = (0..job * 1000).sum();
        end_slice!(on_track, sum = sum);
        bytes += job * 1000 * size_of::<u64>() as u64;
        counter!(WORK, BYTES, bytes);
        state!(WORK, "worker", None);
    }
    ferretto::flush(Duration::from_secs(1));
}
