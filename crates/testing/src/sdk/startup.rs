//! Startup tracing and the recordings that adopt it.

use std::sync::mpsc::{Receiver, channel};

use ferretto::proto::{DataSourceConfig, TraceConfig};
use ferretto::{DataSourceHandle, DataSourceOptions, ExhaustedPolicy, StartupTracingOptions};
use ferretto_client::Consumer;

use super::noted::{Ends, Noted};
use super::{LIMIT, config, source, start};

pub const NAME: &str = "test.startup";

/// The outcome of startup tracing.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    Adopted,
    Aborted,
}

/// Creates startup tracing options that report the outcome.
pub fn expecting(config: TraceConfig) -> (StartupTracingOptions, Receiver<Outcome>) {
    let (sender, outcome) = channel();
    let aborted = sender.clone();
    let options = StartupTracingOptions::new(config)
        .on_adopted(move || sender.send(Outcome::Adopted).unwrap())
        .on_aborted(move || aborted.send(Outcome::Aborted).unwrap());
    (options, outcome)
}

/// Registers a data source that aborts the process rather than lose data, and creates a config for
/// it.
pub fn stalling() -> (DataSourceHandle<Noted>, Ends) {
    let (noted, ends) = Noted::new();
    let options = DataSourceOptions::new(NAME).policy(ExhaustedPolicy::StallThenAbort);
    (options.register(noted).unwrap(), ends)
}

/// Returns a config with the data source and the events of one category.
pub fn both(category: &str) -> TraceConfig {
    let events = ferretto_wire::encode(|config| {
        config.string(1, "*");
        config.string(2, category);
    });
    config(vec![
        source(NAME, None),
        source("track_event", Some(events)),
    ])
}

/// Returns an equivalent config in another form: events in another order, and with a limit.
pub fn both_reordered(category: &str) -> TraceConfig {
    let mut config = both(category);
    for source in &mut config.data_sources {
        let config: &mut DataSourceConfig = source.config.get_or_insert_default();
        config.trace_duration_ms = Some(600_000);
        if let Some(events) = &mut config.track_event_config {
            *events = ferretto_wire::encode(|config| {
                config.string(2, category);
                config.string(1, "*");
                config.string(1, "*");
            });
        }
    }
    config
}

/// Waits until the recording has adopted startup tracing, at a service that may not know this
/// process yet.
pub fn start_and_wait(consumer: &mut Consumer, config: TraceConfig, outcome: &Receiver<Outcome>) {
    // A recording that starts while data sources are being registered would not include all of
    // them.
    while consumer
        .query_service_state(LIMIT)
        .unwrap()
        .data_sources
        .len()
        < 2
    {
        std::thread::yield_now();
    }
    start(consumer, config);
    assert_eq!(outcome.recv_timeout(LIMIT), Ok(Outcome::Adopted));
    assert!(ferretto::flush(LIMIT));
}
