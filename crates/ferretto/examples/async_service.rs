//! An async service with a track per request, recorded by an async session in the same process.
//!
//! Run it with `cargo run --example async_service`, then open `async_service.pftrace` at
//! <https://ui.perfetto.dev>.

use std::error::Error;
use std::time::Duration;

use ferretto::session::{Backend, RecordingConfig, Session, TrackEvents};
use ferretto::{Backends, Flow, Track, counter, instant, slice};
use tokio::sync::mpsc;

/// The time limit of each call to the recorder.
const LIMIT: Duration = Duration::from_secs(10);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    ferretto::Options::new()
        .backends(Backends::IN_PROCESS)
        .wait(LIMIT)
        .init()?;
    // Calls of the session are plain futures: nothing here is specific to tokio.
    let session = Session::open(Backend::InProcess)?;
    session.set_up(RecordingConfig::new().track_events(TrackEvents::new()));
    session.start(LIMIT).await?;

    let (sender, queue) = mpsc::channel(4);
    let storage = tokio::spawn(store(queue));
    let requests: Vec<_> = (1..=8)
        .map(|id| tokio::spawn(handle(id, sender.clone())))
        .collect();
    drop(sender);
    for request in requests {
        request.await?;
    }
    storage.await?;

    ferretto::flush(LIMIT);
    session.stop(LIMIT).await?;
    let trace = session.read(LIMIT).await?;
    std::fs::write("async_service.pftrace", &trace)?;
    println!("wrote {} bytes to async_service.pftrace", trace.len());
    Ok(())
}

/// Handles a request. Requests are concurrent, so each has its own track: on the thread's track
/// their slices would appear nested.
async fn handle(id: u64, storage: mpsc::Sender<u64>) {
    let track = Track::named("request", id);
    let _request = slice!("service", "request", id = id, track: track);
    {
        let _read = slice!("service", "read body", track: track);
        tokio::time::sleep(Duration::from_millis(3 * id)).await;
    }
    // The flow is an arrow from here to the start of the job in the storage.
    instant!("service", "send to storage", track: track, flow: Flow::process(id));
    if storage.send(id).await.is_err() {
        instant!("service", "no storage", track: track);
    }
}

/// Executes jobs one after the other.
async fn store(mut queue: mpsc::Receiver<u64>) {
    let track = Track::named("storage", 0);
    while let Some(id) = queue.recv().await {
        counter!("service", "jobs waiting", queue.len());
        let _store = slice!("service", "store", track: track, terminating_flow: Flow::process(id));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
