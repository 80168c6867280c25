//! The memory maps of a process, from `/proc/PID/maps` or from the kernel's records of new maps.

use std::fs::File;
use std::io::{self, Read, Seek as _};
use std::sync::Arc;

/// The largest number of lines to read. The kernel's default limit for a process is 65530.
const MAX_MAPS: usize = 1 << 17;
/// The largest number of bytes to read.
const MAX_BYTES: u64 = 64 << 20;

/// A mapping of a process: a line of `/proc/PID/maps`, or a record `PERF_RECORD_MMAP2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// The first address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
    /// Set if it is readable.
    pub readable: bool,
    /// Set if it is writable.
    pub writable: bool,
    /// Set if it is executable.
    pub executable: bool,
    /// The offset in the file.
    pub offset: u64,
    /// Major and minor number of the file system's device in the maps. Some file systems report
    /// other numbers for their files.
    pub device: (u32, u32),
    /// The inode of the file; 0 for anonymous memory.
    pub inode: u64,
    /// The path of the file in the process's namespace, or a name like `[vdso]`; empty if it has
    /// none.
    pub name: Arc<str>,
}

impl Map {
    /// Reads `/proc/PID/maps` from the start. Malformed lines are left out.
    ///
    /// # Errors
    /// Returns the kernel's error, for example if the process may not be read. An ended process has
    /// no maps.
    pub fn read_all(maps: &File) -> io::Result<Vec<Self>> {
        read(maps)
    }

    /// Returns true if the two maps overlap.
    fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// Returns true if both map the same part of a file at the same address.
    fn is_same(&self, other: &Self) -> bool {
        (self.start, self.end, self.offset, self.inode)
            == (other.start, other.end, other.offset, other.inode)
    }

    /// Returns true if it maps a file with a path.
    pub(crate) fn is_file(&self) -> bool {
        self.inode != 0 && self.name.starts_with('/')
    }

    /// Returns true if it maps a device. Device memory is never read, since a read may have side
    /// effects.
    pub(crate) fn is_device(&self) -> bool {
        self.name.starts_with("/dev/")
            && !self.name.starts_with("/dev/ashmem/")
            && !self.name.starts_with("/dev/shm/")
    }

    pub(crate) fn is_vdso(&self) -> bool {
        &*self.name == "[vdso]"
    }
}

/// Inserts `map` into a sorted list in place of overlapping maps. Returns true if the list changed.
pub(crate) fn put(maps: &mut Vec<Map>, map: Map) -> bool {
    let first = maps.partition_point(|other| other.end <= map.start);
    let count = maps[first..]
        .iter()
        .take_while(|other| other.overlaps(&map))
        .count();
    if count == 1 && maps[first].is_same(&map) || maps.len() >= MAX_MAPS {
        return false;
    }
    maps.splice(first..first + count, [map]);
    true
}

/// Reads all lines again.
pub(crate) fn read(mut file: &File) -> io::Result<Vec<Map>> {
    file.rewind()?;
    let mut text = Vec::with_capacity(16 << 10);
    file.take(MAX_BYTES).read_to_end(&mut text)?;
    Ok(parse(&text))
}

/// Parses maps. Malformed lines and lines out of order are left out.
pub(crate) fn parse(text: &[u8]) -> Vec<Map> {
    let mut maps: Vec<Map> = Vec::new();
    let lines = text.split(|&byte| byte == b'\n').take(MAX_MAPS);
    for map in lines.filter_map(parse_line) {
        if maps.last().is_none_or(|last| last.end <= map.start) {
            maps.push(map);
        }
    }
    maps
}

/// Parses `start-end perms offset major:minor inode name`.
fn parse_line(line: &[u8]) -> Option<Map> {
    let mut rest = line;
    let mut field = || {
        let end = rest
            .iter()
            .position(|&byte| byte == b' ')
            .unwrap_or(rest.len());
        let (field, after) = rest.split_at(end);
        rest = after.get(1..).unwrap_or_default();
        std::str::from_utf8(field).ok()
    };
    let (start, end) = field()?.split_once('-')?;
    let permissions = field()?.as_bytes();
    let offset = field()?;
    let (major, minor) = field()?.split_once(':')?;
    let inode = field()?;
    let name = String::from_utf8_lossy(rest.trim_ascii_start());
    let map = Map {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        readable: permissions.first() == Some(&b'r'),
        writable: permissions.get(1) == Some(&b'w'),
        executable: permissions.get(2) == Some(&b'x'),
        offset: u64::from_str_radix(offset, 16).ok()?,
        device: (
            u32::from_str_radix(major, 16).ok()?,
            u32::from_str_radix(minor, 16).ok()?,
        ),
        inode: inode.parse().ok()?,
        name: unescape(&name).into(),
    };
    (map.start < map.end).then_some(map)
}

/// Decodes a newline in a name, which the kernel writes as `\012`.
fn unescape(name: &str) -> String {
    name.replace("\\012", "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_map_replaces_overlapping_ones() {
        let text = b"1000-2000 r-xp 0 08:02 1 /a\n3000-5000 r-xp 0 08:02 2 /b\n5000-6000 r-xp 0 08:02 3 /c\n";
        let mut maps = parse(text);
        let of = |start, end, inode| Map {
            start,
            end,
            inode,
            ..parse(text)[0].clone()
        };
        assert!(
            !put(&mut maps, of(0x3000, 0x5000, 2)),
            "the map is there already"
        );
        assert!(put(&mut maps, of(0x2000, 0x3000, 4)));
        assert!(put(&mut maps, of(0x4000, 0x5800, 5)));
        let inodes: Vec<u64> = maps.iter().map(|map| map.inode).collect();
        assert_eq!(inodes, [1, 4, 5]);
        assert!(put(&mut maps, of(0x7000, 0x8000, 6)));
        assert!(put(&mut maps, of(0x3000, 0x5000, 2)));
        assert!(maps.is_sorted_by_key(|map| map.start) && maps.len() == 4);
    }

    #[test]
    fn lines_are_parsed() {
        let text =
            b"00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/db us\\012x (deleted)
500000-501000 rw-p 00000000 00:00 0
garbage
500800-502000 rw-p 00000000 00:00 0
600000-601000 r--s 0000f000 fd:00 5 [x]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";
        let maps = parse(text);
        assert_eq!(maps.len(), 4, "{maps:?}: one begins before the last ends");
        let first = &maps[0];
        assert_eq!(
            (first.start, first.end, first.offset),
            (0x40_0000, 0x45_2000, 0x1000)
        );
        assert!(first.executable && first.readable && !first.writable);
        assert_eq!((first.device, first.inode), ((8, 2), 173_521));
        assert_eq!(&*first.name, "/usr/bin/db us\nx (deleted)");
        assert!(!maps[1].executable);
        assert!(!maps[3].readable && maps[3].executable);
    }
}
