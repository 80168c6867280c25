//! Opening the files that a process has mapped, and no others.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferretto_elf::{open_regular, open_regular_within};
use rustix::fs::{Mode, OFlags};

use crate::maps::Map;

/// The process whose files are looked for.
pub(crate) struct Target {
    pub(crate) pid: u32,
    /// Its memory; `None` if it is gone.
    pub(crate) memory: Option<Arc<File>>,
    /// Folders that may be, or may have been, its root.
    pub(crate) roots: Vec<Arc<OwnedFd>>,
}

/// Device numbers of maps, with those that their files report: file systems with parts of their
/// own, or made of several others, have two numbers.
#[derive(Debug, Default)]
pub(crate) struct Devices(Mutex<Vec<((u32, u32), u64)>>);

/// The most of them that are known.
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
    /// The file that `map` of the process is of, if it can be opened: by the map itself, which
    /// needs privileges and works for deleted files too; by its name in the process's mount
    /// namespace; or as the program the process runs. The name may lead to another file by now, or
    /// may do so for us; such a file is not taken.
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

    /// Returns whether `file` is the one that is mapped: it has the same inode on the same device;
    /// or, where file systems give other device numbers than the kernel's list does, the same inode
    /// and bytes.
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
