//! Opening the files that a process has mapped, and no others.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use ferretto_elf::{open_regular, open_regular_within};
use rustix::fs::{Mode, OFlags};

use crate::maps::Map;

/// The file that `map` of the process is of, if it can be opened: by the map itself, which needs privileges and works for
/// deleted files too, or by its name in the process's mount namespace. The name may lead to another file by now, or may
/// do so for us; such a file is not taken.
pub(crate) fn open(pid: u32, memory: &File, map: &Map) -> Option<File> {
    if !map.is_file() || map.is_device() {
        return None;
    }
    let by_map = format!("/proc/{pid}/map_files/{:x}-{:x}", map.start, map.end);
    let by_name = || {
        let root = format!("/proc/{pid}/root");
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(root, flags, Mode::empty()).ok()?;
        open_regular_within(root, &*map.name).ok()
    };
    open_regular(by_map)
        .ok()
        .filter(|file| is_mapped(file, memory, map))
        .or_else(|| by_name().filter(|file| is_mapped(file, memory, map)))
        .or_else(|| of_the_dead(map))
}

/// The file by its name as it is for us, for processes that have ended and have no namespace any more. It must be the same
/// file beyond doubt.
fn of_the_dead(map: &Map) -> Option<File> {
    let file = open_regular(&*map.name).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    let device = (
        rustix::fs::major(stat.st_dev),
        rustix::fs::minor(stat.st_dev),
    );
    (stat.st_ino == map.inode && device == map.device).then_some(file)
}

/// Whether `file` is the one that is mapped: it has the same inode on the same device; or, where file systems give other
/// device numbers than the kernel's list does, the same inode and bytes.
fn is_mapped(file: &File, memory: &File, map: &Map) -> bool {
    let Ok(stat) = rustix::fs::fstat(file) else {
        return false;
    };
    if stat.st_ino != map.inode {
        return false;
    }
    let device = (
        rustix::fs::major(stat.st_dev),
        rustix::fs::minor(stat.st_dev),
    );
    device == map.device || same_bytes(file, memory, map).unwrap_or(false)
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
