//! A host that watches its own memory and CPU time.

use std::os::unix::net::UnixStream;

use crate::common::TestHost;
use ferretto_host::{
    CpuAllowance, Host, HostOptions, RelayEndpoints, WatchdogError, WatchdogLimits, WatchdogScope,
};
use ferretto_ipc::Address;
use ferretto_ipc::client::Event;
use ferretto_ipc::port::producer;
use ferretto_ipc::socket::Socket;

const MIB: usize = 1 << 20;

/// Returns limits that are checked whenever an event happens.
fn attentive(scope: WatchdogScope, slack: usize) -> WatchdogLimits {
    WatchdogLimits {
        scope,
        memory_slack: slack as u64,
        memory_window: 1,
        interval: 0,
        ..WatchdogLimits::default()
    }
}

#[test]
fn a_service_that_exceeds_its_limits_ends_with_a_reason() {
    ferretto_testing::own_process!();
    for scope in [WatchdogScope::Own, WatchdogScope::Process] {
        // Memory that is not accounted for.
        let leak = vec![1_u8; 100 * MIB];
        let folder = tempfile::tempdir().unwrap();
        let mut options = HostOptions::in_folder(folder.path());
        options.watchdog = Some(attentive(scope, 64 * MIB));
        let host = Host::bind(options).unwrap();
        let path = folder.path().join("producer.sock");
        // The host only checks when an event happens.
        let knocking = std::thread::spawn(move || while UnixStream::connect(&path).is_ok() {});
        let error = host.run().unwrap_err();
        knocking.join().unwrap();
        let text = error.to_string();
        let WatchdogError::Memory { used_mib, .. } = error.downcast().unwrap() else {
            panic!("{text}");
        };
        assert!(
            text.starts_with("the service ended itself: for 0 s it used "),
            "{text}"
        );
        assert!(used_mib >= 100);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        drop(leak);
    }
}

#[test]
fn a_user_who_exceeds_the_allowance_is_throttled_and_then_disconnected_by_name() {
    ferretto_testing::own_process!();
    let host = TestHost::start_with(|options| {
        options.limits.cpu_per_user = Some(CpuAllowance {
            percent: 1,
            burst: 40_000_000,
            patience: 1,
        });
        options.producers.push("127.0.0.1:0".parse().unwrap());
        options.relays = RelayEndpoints::Everywhere;
    });
    let mut busy = host.producer();
    busy.initialize("busy");
    let sync = producer::Request::Sync(Default::default());
    'connected: loop {
        for _ in 0..100 {
            if busy.0.invoke(&sync, None, true).is_err() {
                break 'connected;
            }
        }
        for _ in 0..100 {
            if let Event::Disconnected(_) = busy.event() {
                break 'connected;
            }
        }
    }
    let name = format!("producer 1 (pid {})", std::process::id());
    let me = format!("user {}", rustix::process::getuid().as_raw());
    let throttled = format!("clients of {me} are throttled: they use more than 1 % of a CPU");
    let disconnected = format!(
        "{name} was disconnected: clients of {me} have been throttled for 0 s, and this one caused the most work"
    );
    assert_eq!(host.notice(), throttled);
    // On a busy machine the user may have had a pause in between.
    let mut notices = std::iter::from_fn(|| Some(host.notice()));
    assert_eq!(notices.find(|it| *it != throttled), Some(disconnected));
    // Other users are served all the while.
    let address = Address::Tcp {
        host: "127.0.0.1".to_owned(),
        port: host.port.unwrap(),
    };
    let other = Socket::connect(&address).unwrap();
    let mut other = crate::common::Client::<producer::Port>::bind(other);
    other.initialize("other");
    assert!(other.call(&sync).result.is_ok());
}
