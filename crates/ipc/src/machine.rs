//! The identity of this machine for other machines.

use std::env;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use ferretto_format::Fnv1a;
use ferretto_proto::{MessageField, SystemInfo, Utsname};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use crate::frame::Identity;
use crate::host::machine_id;
use crate::names;

/// The variable that replaces the machine id hint, to distinguish machines that share a kernel,
/// such as containers.
pub const MACHINE_ID_VARIABLE: &str = "FERRETTO_MACHINE_ID";

/// The file with a value that is different at each boot, and the same for all processes.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The identity of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The text from which the host computes the machine's id. If it is empty, the host uses the
    /// address of the connection.
    pub id_hint: Vec<u8>,
    /// The name, for humans and for configs.
    pub name: Vec<u8>,
}

impl Machine {
    /// Returns the identity of this machine. Environment variables can replace it: see
    /// [`MACHINE_ID_VARIABLE`] and [`MACHINE_NAME_VARIABLE`](names::MACHINE_NAME_VARIABLE).
    pub fn this() -> Self {
        let id_hint = match env::var_os(MACHINE_ID_VARIABLE) {
            Some(hint) if !hint.is_empty() => hint.as_bytes().to_vec(),
            _ => id_of_boot(Path::new(BOOT_ID), Path::new("/dev")),
        };
        Self {
            id_hint,
            name: names::machine_name(),
        }
    }

    /// Returns the ids that other machines would compute for this one, from its boot.
    pub fn ids_of_boot() -> Vec<u32> {
        let kernels = fs::read(BOOT_ID).unwrap_or_default();
        let hash = hash_of_boot(Path::new("/dev"));
        let hints = [kernels.trim_ascii().to_vec(), hash.unwrap_or_default()];
        let hints = hints.iter().filter(|hint| !hint.is_empty());
        hints.map(|hint| machine_id(hint)).collect()
    }

    /// Returns the identity of a process of the machine.
    pub fn identity(&self, pid: i32, uid: u32) -> Identity<'_> {
        Identity {
            pid,
            uid: uid as i32,
            machine_id_hint: &self.id_hint,
            machine_name: &self.name,
        }
    }
}

/// Returns an identifier of this machine and this boot: the content of the kernel's file, or a hash
/// of the folder's creation time and the machine's names. Empty if neither can be read.
fn id_of_boot(kernels: &Path, made_at_boot: &Path) -> Vec<u8> {
    let content = fs::read(kernels).unwrap_or_default();
    match content.trim_ascii() {
        [] => hash_of_boot(made_at_boot).unwrap_or_default(),
        id => id.to_vec(),
    }
}

/// Returns the hash that upstream's programs compute.
fn hash_of_boot(made_at_boot: &Path) -> Option<Vec<u8>> {
    let status = statx(CWD, made_at_boot, AtFlags::empty(), StatxFlags::BTIME).ok()?;
    let made = status.stx_btime;
    let mut hash = Fnv1a::new()
        .update(&made.tv_sec.to_ne_bytes())
        .update(&made.tv_nsec.to_ne_bytes())
        .update(&[0; 4]);
    // The names in the kernel's format, 65 bytes each.
    let name = rustix::system::uname();
    for part in [
        name.sysname(),
        name.nodename(),
        name.release(),
        name.version(),
        name.machine(),
        name.domainname(),
    ] {
        let mut field = [0; 65];
        let bytes = part.to_bytes();
        field[..bytes.len()].copy_from_slice(bytes);
        hash = hash.update(&field);
    }
    Some(format!("{:x}", hash.finish()).into_bytes())
}

/// Returns a description of this machine, without its page size.
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

/// Returns the number of CPUs that the machine can have, including those that are offline.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relay_005_without_a_boot_id_the_machine_has_a_hint_nevertheless() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        fs::write(file("boot_id"), "7c1b\n").unwrap();
        assert_eq!(id_of_boot(&file("boot_id"), Path::new("/dev")), b"7c1b");
        let hashed = id_of_boot(&file("none"), Path::new("/dev"));
        assert!(!hashed.is_empty() && hashed.iter().all(u8::is_ascii_hexdigit));
        assert_eq!(hashed, id_of_boot(&file("none"), Path::new("/dev")));
        // The host then uses the address.
        assert_eq!(id_of_boot(&file("none"), &file("none")), b"");
    }
}
