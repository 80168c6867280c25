//! Opening the files that a process has mapped, and no others.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use ferretto_elf::{open_regular, open_regular_within};
use rustix::fs::{Mode, OFlags};

use crate::maps::Map;

/// The file that `map` of the process is of, if it can be opened: by the map itself, which needs privileges and works for
/// deleted files too; by its name in the process's mount namespace; or as the program the process runs. The name may lead to
/// another file by now, or may do so for us; such a file is not taken.
pub(crate) fn open(pid: u32, memory: &File, map: &Map) -> Option<File> {
    if !map.is_file() || map.is_device() {
        return None;
    }
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
    let is_mapped = |file: &File| is_mapped(file, memory, map);
    by_map()
        .filter(is_mapped)
        .or_else(|| by_name().filter(is_mapped))
        .or_else(|| program().filter(is_mapped))
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
