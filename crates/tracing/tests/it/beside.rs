//! The layer in combination with others.

use std::sync::atomic::{AtomicUsize, Ordering};

use ferretto_testing::sdk::events::Recorder;
use ferretto_wire::encode;
use tracing::subscriber::set_global_default;
use tracing::{Event, Subscriber, info, info_span, warn};
use tracing_ferretto::FerrettoLayer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::prelude::*;

static SEEN: AtomicUsize = AtomicUsize::new(0);

/// Counts events.
struct Count;

impl<S: Subscriber> Layer<S> for Count {
    fn on_event(&self, _event: &Event<'_>, _context: Context<'_, S>) {
        SEEN.fetch_add(1, Ordering::Relaxed);
    }
}

fn work() {
    warn!("both");
    info!("only recorded");
    let _span = info_span!("span").entered();
}

// One test, since a process has one connection.
#[test]
fn other_layers_are_not_affected() {
    ferretto_testing::own_process!();
    let mut recorder = Recorder::new();
    let layer = FerrettoLayer::new().log_messages(true).locations(true);
    let subscriber = tracing_subscriber::registry()
        .with(layer.recorded())
        .with(Count.with_filter(LevelFilter::WARN));
    set_global_default(subscriber).unwrap();

    work();
    assert_eq!(SEEN.load(Ordering::Relaxed), 1);

    let decoded = recorder.record(None, work);
    assert_eq!(SEEN.load(Ordering::Relaxed), 2);
    let expected = [
        "I it::beside both level=\"WARN\"",
        "I it::beside only recorded level=\"INFO\"",
        "B it::beside span",
        "E",
    ];
    assert_eq!(decoded.lines(), expected);

    // Other layers still get spans that are not recorded.
    let nothing = encode(|config| config.string(1, "*"));
    let decoded = recorder.record(Some(nothing), work);
    assert_eq!(SEEN.load(Ordering::Relaxed), 3);
    assert_eq!(decoded.lines(), [""; 0]);
}
