//! Messages of the crate `log`.
#![cfg(feature = "log")]

use ferretto_testing::sdk::events::Recorder;
use tracing_ferretto::FerrettoLayer;

// One test, since a process has one connection.
#[test]
fn messages_of_the_crate_log_are_recorded() {
    ferretto_testing::own_process!();
    let mut recorder = Recorder::new();
    FerrettoLayer::new().init().unwrap();
    log::error!("not recorded");
    let decoded = recorder.record(None, || {
        log::warn!("low on {}", "memory");
        log::info!(target: "somewhere::else", "here");
        log::debug!("not by default");
    });
    let expected = [
        "I it::log low on memory level=\"WARN\"",
        "I somewhere::else here level=\"INFO\"",
    ];
    assert_eq!(decoded.lines(), expected);
}
