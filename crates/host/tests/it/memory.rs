//! Freed memory of a host. This is a program of its own, since it measures the memory of the whole
//! process.

use crate::common::TestHost;
use ferretto_host::{WatchdogLimits, WatchdogScope};

const MIB: u64 = 1 << 20;

fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

#[test]
fn freed_memory_is_not_a_leak_and_returns_to_the_system() {
    ferretto_testing::own_process!();
    let host = TestHost::start_with(|options| {
        options.watchdog = Some(WatchdogLimits {
            scope: WatchdogScope::Own,
            memory_slack: 32 * MIB,
            memory_window: 1,
            interval: 0,
            ..WatchdogLimits::default()
        });
    });
    // The pattern that clients leave: pieces, some of which stay.
    let mut pieces: Vec<Vec<u8>> = (0..128 * 1024).map(|_| vec![1; 1024]).collect();
    let mut number = 0;
    pieces.retain(|_| {
        number += 1;
        number % 1024 == 0
    });
    let kept = resident();
    assert!(kept > 128 * MIB || cfg!(not(target_env = "gnu")));
    // Each connection wakes the host, which then checks its memory.
    for _ in 0..10 {
        host.assert_alive();
    }
    if cfg!(target_env = "gnu") {
        let now = resident();
        assert!(now + 64 * MIB < kept, "{now} of {kept} bytes");
    }
    assert_eq!(pieces.len(), 128);
    host.stop();
}
