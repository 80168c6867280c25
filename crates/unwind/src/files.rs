//! Opens the files that a process has mapped, and no others.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferretto_elf::{open_regular, open_regular_within};
use rustix::fs::{Mode, OFlags};

use crate::maps::Map;

/// The process whose files are opened.
pub(crate) struct Target {
    pub(crate) pid: u32,
    /// Its memory; `None` if the process is gone.
    pub(crate) memory: Option<Arc<File>>,
    /// The possible root folders of the process, now or before.
    pub(crate) roots: Vec<Arc<OwnedFd>>,
}

/// Pairs of the device number of a map and the one that its file reports. They differ on file
/// systems with subvolumes and on overlays.
#[derive(Debug, Default)]
pub(crate) struct Devices(Mutex<Vec<((u32, u32), u64)>>);

/// The largest number of pairs.
const MAX_DEVICES: usize = 64;

impl Devices {
    fn lock(&self) -> MutexGuard<'_, Vec<((u32, u32), u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn are_same(&self, of_map: (u32, u32), of_file: u64) -> bool {
        let numbers = (rustix::fs::major(of_file), rustix::fs::minor(of_file));
        numbers == of_map || self.lock().contains(&(of_map, of_file))
    }

    fn learn(&self, of_map: (u32, u32), of_file: u64) {
        let mut known = self.lock();
        if known.len() < MAX_DEVICES {
            known.push((of_map, of_file));
        }
    }
}

impl Target {
    /// Opens the file of `map`: through the map itself, which needs privileges and works for
    /// deleted files, too; by its name in the process's mount namespace; or as the program that the
    /// process runs. Rejects another file that now has the name.
    pub(crate) fn open(&self, map: &Map, devices: &Devices) -> Option<File> {
        if !map.is_file() || map.is_device() {
            return None;
        }
        let is_mapped = |file: &File| self.is_mapped(file, map, devices);
        let in_roots = || {
            let mut roots = self.roots.iter();
            roots.find_map(|root| {
                let file = open_regular_within(root, &*map.name).ok();
                file.filter(is_mapped)
            })
        };
        if self.memory.is_none() {
            return in_roots();
        }
        let pid = self.pid;
        let by_map = || {
            let name = format!("/proc/{pid}/map_files/{:x}-{:x}", map.start, map.end);
            open_regular(name).ok()
        };
        let by_name = || {
            let root = format!("/proc/{pid}/root");
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let root = rustix::fs::open(root, flags, Mode::empty()).ok()?;
            open_regular_within(root, &*map.name).ok()
        };
        let program = || open_regular(format!("/proc/{pid}/exe")).ok();
        by_map()
            .filter(is_mapped)
            .or_else(|| by_name().filter(is_mapped))
            .or_else(|| program().filter(is_mapped))
            .or_else(in_roots)
    }

    /// Returns true if `file` is the mapped one: it has the same inode on the same device, or, if
    /// the file system reports another device number than the maps, the same inode and bytes.
    fn is_mapped(&self, file: &File, map: &Map, devices: &Devices) -> bool {
        let Ok(stat) = rustix::fs::fstat(file) else {
            return false;
        };
        if stat.st_ino != map.inode {
            return false;
        }
        if devices.are_same(map.device, stat.st_dev) {
            return true;
        }
        let memory = self.memory.as_deref();
        let is_same = memory.and_then(|memory| same_bytes(file, memory, map));
        if is_same == Some(true) {
            devices.learn(map.device, stat.st_dev);
        }
        is_same == Some(true)
    }
}

fn same_bytes(file: &File, memory: &File, map: &Map) -> Option<bool> {
    let size = usize::try_from(map.end - map.start).ok()?.min(4096);
    let mut of_file = vec![0; size];
    let mut of_memory = vec![0; size];
    let read = file.read_at(&mut of_file, map.offset).ok()?;
    memory
        .read_exact_at(&mut of_memory[..read], map.start)
        .ok()?;
    Some(read > 0 && of_file[..read] == of_memory[..read])
}
