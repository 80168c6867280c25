//! Facts about this machine.

use ferretto_proto::{MessageField, SystemInfo, Utsname};
use rustix::rand::GetRandomFlags;

use super::clocks;
use crate::ServiceOptions;

/// Returns what a service should know about its surroundings, apart from the time zone.
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

/// A description of the machine for the trace.
pub fn system_info() -> SystemInfo {
    let name = rustix::system::uname();
    let utsname = Utsname {
        sysname: Some(name.sysname().to_bytes().to_vec()),
        version: Some(name.version().to_bytes().to_vec()),
        release: Some(name.release().to_bytes().to_vec()),
        machine: Some(name.machine().to_bytes().to_vec()),
        ..Utsname::default()
    };
    let memory = rustix::system::sysinfo();
    let unit = u64::from(memory.mem_unit.max(1));
    SystemInfo {
        utsname: MessageField::some(utsname),
        page_size: u32::try_from(ferretto_shm::page_size()).ok(),
        num_cpus: configured_cpus(),
        system_ram_bytes: Some((memory.totalram as u64).saturating_mul(unit)),
        ..SystemInfo::default()
    }
}

/// Returns how many CPUs the machine can have, also those that are offline now.
fn configured_cpus() -> Option<u32> {
    let folder = std::fs::read_dir("/sys/devices/system/cpu").ok()?;
    let is_cpu = |name: &str| {
        name.strip_prefix("cpu")
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    };
    let count = folder
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(is_cpu));
    u32::try_from(count.count()).ok().filter(|&count| count > 0)
}

/// 128 bits that nobody can guess.
fn seed() -> u128 {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            // Not on any kernel since 3.17; a trace id that can be guessed is
            // better than no service.
            Err(_) => {
                let now = clocks::read();
                return u128::from(now.realtime) << 64 | u128::from(now.monotonic_raw);
            }
        }
    }
    u128::from_le_bytes(bytes)
}
