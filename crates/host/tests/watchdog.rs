//! A host that watches what it uses.

use std::os::unix::net::UnixStream;

use ferretto_host::{Host, HostOptions, RunWild, WatchdogLimits};

#[test]
fn a_service_that_runs_wild_ends_itself_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = HostOptions::in_folder(folder.path());
    // Every process needs more than nothing.
    options.watchdog = Some(WatchdogLimits {
        memory_slack: 0,
        memory_window: 1,
        interval: 0,
        ..WatchdogLimits::default()
    });
    let host = Host::bind(options).unwrap();
    let path = folder.path().join("producer.sock");
    // It looks only when something happens.
    let knocking = std::thread::spawn(move || while UnixStream::connect(&path).is_ok() {});
    let error = host.run().unwrap_err();
    knocking.join().unwrap();
    let text = error.to_string();
    let RunWild::Memory { used_mib, .. } = error.downcast().unwrap() else {
        panic!("{text}");
    };
    assert!(
        text.starts_with("the service ended itself: for 0 s it used "),
        "{text}"
    );
    assert!(used_mib > 0);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
