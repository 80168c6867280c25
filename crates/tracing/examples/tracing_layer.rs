//! A program that uses `tracing`, with tasks that run on several threads.
//!
//! Run it with `ferretto record -- cargo run -p tracing-ferretto --example tracing_layer`, then
//! `ferretto open`.

use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use tracing::{Span, info, info_span, instrument, warn};
use tracing_ferretto::{FerrettoLayer, Spans};

/// A request that passes from thread to thread. Each enters its span.
struct Request {
    id: u64,
    span: Span,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    ferretto::init()?;
    // Requests are entered by several threads, one after the other: arrows connect their slices.
    FerrettoLayer::new()
        .spans_by(|metadata| match metadata.name() {
            "request" => Spans::Flows,
            _ => Spans::Threads,
        })
        .log_messages(true)
        .init()?;

    let (to_worker, requests) = channel();
    let worker = thread::Builder::new()
        .name("worker".to_owned())
        .spawn(move || work(&requests))?;
    for id in 1..=20 {
        let span = info_span!("request", id, status = tracing::field::Empty);
        span.in_scope(|| accept(id));
        to_worker.send(Request { id, span })?;
        // A counter, because of the field's name.
        info!(counter.requests = id);
    }
    drop(to_worker);
    worker.join().map_err(|_| "the worker panicked")?;
    ferretto::flush(Duration::from_secs(5));
    Ok(())
}

#[instrument]
fn accept(id: u64) {
    thread::sleep(Duration::from_millis(2));
    if id.is_multiple_of(7) {
        warn!(id, "a slow one");
    }
}

fn work(requests: &Receiver<Request>) {
    for request in requests {
        let _entered = request.span.enter();
        let status = answer(request.id);
        // Added to the slice when it ends.
        request.span.record("status", status);
    }
}

#[instrument(level = "info")]
fn answer(id: u64) -> u32 {
    thread::sleep(Duration::from_millis(id % 5));
    if id.is_multiple_of(7) { 503 } else { 200 }
}
