//! `/proc/PID/maps`.

use std::fs::File;
use std::io::{self, Read, Seek as _};

/// Lines beyond are not read; the kernel's limit for a process is 65530 unless raised.
const MAX_MAPS: usize = 1 << 17;
/// Bytes beyond are not read.
const MAX_BYTES: u64 = 64 << 20;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Map {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    pub(crate) executable: bool,
    /// Position in the file.
    pub(crate) offset: u64,
    pub(crate) device: (u32, u32),
    pub(crate) inode: u64,
    pub(crate) name: Box<str>,
}

impl Map {
    /// Whether it is of a file that has a path.
    pub(crate) fn is_file(&self) -> bool {
        self.inode != 0 && self.name.starts_with('/')
    }

    /// Memory of a device is never read: that may do something.
    pub(crate) fn is_device(&self) -> bool {
        self.name.starts_with("/dev/")
            && !self.name.starts_with("/dev/ashmem/")
            && !self.name.starts_with("/dev/shm/")
    }

    pub(crate) fn is_vdso(&self) -> bool {
        &*self.name == "[vdso]"
    }
}

/// Reads all lines anew.
pub(crate) fn read(mut file: &File) -> io::Result<Vec<Map>> {
    file.rewind()?;
    let mut text = Vec::with_capacity(16 << 10);
    file.take(MAX_BYTES).read_to_end(&mut text)?;
    Ok(parse(&text))
}

/// Lines that cannot be understood are left out, and so are those that do not ascend.
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

/// `start-end perms offset major:minor inode   name`
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

/// The kernel writes a newline in a name as `\012`.
fn unescape(name: &str) -> String {
    name.replace("\\012", "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

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
