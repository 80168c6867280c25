//! `tracing_ferretto::init` as the first call of a program that another process records.

use std::process::Command;

use ferretto_client::Consumer;
use ferretto_testing::sdk::events::Decoded;
use ferretto_testing::sdk::{LIMIT, Service, config, source, start, stop};

/// Set in the recorded program.
const RECORDED: &str = "FERRETTO_TEST_RECORDED";

/// The work of the recorded program.
fn program() {
    tracing_ferretto::init().unwrap();
    for id in 0..3u64 {
        let _span = tracing::info_span!("request", id).entered();
        tracing::info!(id, "inside");
    }
}

#[test]
fn the_first_spans_are_recorded() {
    ferretto_testing::own_process!();
    const NAME: &str = "first::the_first_spans_are_recorded";
    if std::env::var_os(RECORDED).is_some() {
        program();
        return;
    }
    let service = Service::start();
    let mut consumer = Consumer::connect(&service.consumers, LIMIT).unwrap();
    start(&mut consumer, config(vec![source("track_event", None)]));
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME])
        .env(RECORDED, "1")
        .env("PERFETTO_PRODUCER_SOCK_NAME", service.producers.to_string())
        .status()
        .unwrap();
    assert!(status.success());
    let lines = Decoded::new(&stop(&mut consumer)).lines();
    let expected = (0..3).flat_map(|id| {
        [
            format!("B it::first request id=u{id}"),
            format!("I it::first inside level=\"INFO\" id=u{id}"),
            "E".to_owned(),
        ]
    });
    assert_eq!(lines, expected.collect::<Vec<_>>());
}
