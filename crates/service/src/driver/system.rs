//! Facts about this machine.

use ferretto_proto::SystemInfo;
use rustix::rand::GetRandomFlags;

use super::clocks;
use crate::ServiceOptions;

/// Returns options for a service with the facts about this machine, without the time zone.
pub fn service_options() -> ServiceOptions {
    ServiceOptions {
        seed: seed(),
        uid: ferretto_shm::user_id(),
        machine_name: String::from_utf8_lossy(&ferretto_ipc::names::machine_name()).into_owned(),
        system_info: system_info(),
        stopwatch: Some(clocks::monotonic),
        ..ServiceOptions::default()
    }
}

/// Returns the description of the machine for the trace.
pub fn system_info() -> SystemInfo {
    SystemInfo {
        page_size: u32::try_from(ferretto_shm::page_size()).ok(),
        ..ferretto_ipc::machine::system_info()
    }
}

/// Returns 128 unpredictable bits.
fn seed() -> u128 {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            // This happens on no kernel since 3.17. A predictable trace id is better than no
            // service.
            Err(_) => {
                let now = clocks::read();
                return u128::from(now.realtime) << 64 | u128::from(now.monotonic_raw);
            }
        }
    }
    u128::from_le_bytes(bytes)
}
