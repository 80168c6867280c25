//! The treatment of freed memory by a host. A program of its own, as the memory of a whole process
//! is looked at.

mod common;

use common::TestHost;
use ferretto_host::{WatchdogLimits, WatchdogScope};

const MIB: u64 = 1 << 20;

fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

#[test]
fn memory_that_was_freed_is_no_leak_and_goes_back_to_the_system() {
    let host = TestHost::start_with(|options| {
        options.watchdog = Some(WatchdogLimits {
            scope: WatchdogScope::Own,
            memory_slack: 32 * MIB,
            memory_window: 1,
            interval: 0,
            ..WatchdogLimits::default()
        });
    });
    // As clients leave it behind: in pieces, with some between them that stay.
    let mut pieces: Vec<Vec<u8>> = (0..128 * 1024).map(|_| vec![1; 1024]).collect();
    let mut number = 0;
    pieces.retain(|_| {
        number += 1;
        number % 1024 == 0
    });
    let kept = resident();
    assert!(kept > 128 * MIB || cfg!(not(target_env = "gnu")));
    // Each connection is something that happens, and then it looks.
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
