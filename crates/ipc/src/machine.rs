//! This machine, as others know it.

use std::env;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use ferretto_proto::{MessageField, SystemInfo, Utsname};

use crate::frame::Identity;
use crate::names;

/// Replaces the machine id hint: for machines that share a kernel, such as containers, and are to
/// be told apart nevertheless.
pub const MACHINE_ID_VARIABLE: &str = "FERRETTO_MACHINE_ID";

/// Different at each boot, and the same for all processes.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The identity of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The text that the host makes its id of; empty if there is none, then the host takes the
    /// address of the connection.
    pub id_hint: Vec<u8>,
    /// Its name, for people and for configs.
    pub name: Vec<u8>,
}

impl Machine {
    /// This machine. The environment may say otherwise: see [`MACHINE_ID_VARIABLE`] and
    /// [`MACHINE_NAME_VARIABLE`](names::MACHINE_NAME_VARIABLE).
    pub fn this() -> Self {
        let id_hint = match env::var_os(MACHINE_ID_VARIABLE) {
            Some(hint) if !hint.is_empty() => hint.as_bytes().to_vec(),
            _ => fs::read(BOOT_ID).unwrap_or_default().trim_ascii().to_vec(),
        };
        Self {
            id_hint,
            name: names::machine_name(),
        }
    }

    /// Returns the identity of one of its processes.
    pub fn identity(&self, pid: i32, uid: u32) -> Identity<'_> {
        Identity {
            pid,
            uid: uid as i32,
            machine_id_hint: &self.id_hint,
            machine_name: &self.name,
        }
    }
}

/// Returns a description of this machine, without the size of its pages.
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
        num_cpus: configured_cpus(),
        system_ram_bytes: Some((memory.totalram as u64).saturating_mul(unit)),
        ..SystemInfo::default()
    }
}

/// Returns how many CPUs the machine can have, also those that are offline now.
fn configured_cpus() -> Option<u32> {
    let folder = fs::read_dir("/sys/devices/system/cpu").ok()?;
    let is_cpu = |name: &str| {
        name.strip_prefix("cpu")
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    };
    let count = folder
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(is_cpu));
    u32::try_from(count.count()).ok().filter(|&count| count > 0)
}
