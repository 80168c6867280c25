//! Names of JIT-compiled functions, from `/tmp/perf-PID.map` and from `jitdump` files.
//!
//! The target writes the map as text into a folder that everybody can write to. So it is read only
//! if it is a regular file of the target's user (or root), is not a link, and up to a size. The
//! dump is trusted because the target has mapped it.

mod dump;
mod found;
mod map;

use std::fs::File;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferretto_elf::open_regular_within;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use crate::files::{self, Devices};
use crate::maps::Map;
use dump::Dump;
use found::{Found, MAX_FUNCTIONS, MAX_NAMES};

/// The largest number of bytes of a file to read.
const MAX_BYTES: u64 = 64 << 20;
/// The shortest time between two reads of the files for unknown addresses.
const AGAIN: Duration = Duration::from_millis(100);

/// A compiled function.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Function {
    start: u64,
    end: u64,
    name: Arc<str>,
}

/// The known compiled functions of a process.
#[derive(Default)]
pub(crate) struct Jit {
    /// Functions sorted by address, without overlaps: later ones replace earlier ones.
    functions: Vec<Function>,
    map_read: u64,
    dumps: Vec<(u64, Dump)>,
    looked: Option<Instant>,
}

impl Jit {
    /// Returns the name of the function at `address`. Reads the files again if it is unknown, at
    /// most once in [`AGAIN`].
    pub(crate) fn name<'m>(
        &mut self,
        address: u64,
        target: &Target<'_>,
        maps: impl Iterator<Item = &'m Map>,
    ) -> Option<Arc<str>> {
        if let Some(name) = self.find(address) {
            return Some(name);
        }
        let is_due = self.looked.is_none_or(|looked| looked.elapsed() >= AGAIN);
        if !is_due {
            return None;
        }
        self.looked = Some(Instant::now());
        let known = std::mem::take(&mut self.functions);
        let mut found = Found::new(&known);
        let is_new = self.read_map(target, &mut found);
        self.read_dumps(target, maps, &mut found);
        let found = found.functions;
        self.functions = if is_new { Vec::new() } else { known };
        if !found.is_empty() {
            self.add(found);
        }
        self.find(address)
    }

    /// Forgets everything, since the files may have been rewritten.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    fn find(&self, address: u64) -> Option<Arc<str>> {
        let after = self
            .functions
            .partition_point(|function| function.start <= address);
        let function = self.functions.get(after.checked_sub(1)?)?;
        (address < function.end).then(|| Arc::clone(&function.name))
    }

    /// Adds functions. Later ones replace earlier ones at the same addresses, since memory of
    /// compiled code is reused.
    fn add(&mut self, new: Vec<Function>) {
        let mut all = std::mem::take(&mut self.functions);
        all.extend(new);
        let mut free = MAX_NAMES;
        let kept = all.iter().rev().take(MAX_FUNCTIONS).take_while(|function| {
            let fits = free.checked_sub(function.name.len());
            free = fits.unwrap_or(0);
            fits.is_some()
        });
        let excess = all.len() - kept.count();
        all.drain(..excess);
        // The sort is stable, so the last of several functions at an address is the newest.
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by_key(|&index| (all[index].start, std::cmp::Reverse(index)));
        let mut kept: Vec<(usize, Function)> = Vec::with_capacity(all.len());
        for index in order {
            let function = &all[index];
            match kept.last_mut() {
                Some((_, last)) if last.start == function.start => continue,
                Some((newer, last)) if last.end > function.start => {
                    if *newer > index {
                        // The rest of a partly replaced function is dropped.
                        continue;
                    }
                    last.end = function.start;
                }
                _ => {}
            }
            kept.push((index, function.clone()));
        }
        self.functions = kept.into_iter().map(|(_, function)| function).collect();
    }

    /// Reads the map. Returns true if it was rewritten, which invalidates all functions.
    fn read_map(&mut self, target: &Target<'_>, found: &mut Found<'_>) -> bool {
        let Some(file) = target.perf_map() else {
            return false;
        };
        let size = file.metadata().map_or(0, |metadata| metadata.len());
        let is_new = size < self.map_read;
        if is_new {
            self.map_read = 0;
        }
        let limit = MAX_BYTES.saturating_sub(self.map_read);
        if let Some(read) = map::read(&file, self.map_read, limit.min(size - self.map_read), found)
        {
            self.map_read += read;
        }
        is_new
    }

    fn read_dumps<'m>(
        &mut self,
        target: &Target<'_>,
        maps: impl Iterator<Item = &'m Map>,
        found: &mut Found<'_>,
    ) {
        const MAX_DUMPS: usize = 16;
        for map in maps.filter(|map| dump::is_named_so(&map.name)) {
            let known = self.dumps.iter().position(|dump| dump.0 == map.inode);
            let index = match known {
                Some(index) => index,
                None if self.dumps.len() < MAX_DUMPS => {
                    let file = target.files.open(map, target.devices);
                    let Some(dump) = file.and_then(Dump::open) else {
                        continue;
                    };
                    self.dumps.push((map.inode, dump));
                    self.dumps.len() - 1
                }
                None => continue,
            };
            self.dumps[index].1.read(found);
        }
    }
}

/// The process with the compiled functions.
pub(crate) struct Target<'a> {
    pub(crate) files: &'a files::Target,
    pub(crate) devices: &'a Devices,
    /// `/proc/PID/maps`, which belongs to the target's user.
    pub(crate) maps: &'a File,
}

impl Target<'_> {
    /// Opens `/tmp/perf-PID.map` in the target's mount namespace, with the pid in its pid
    /// namespace.
    fn perf_map(&self) -> Option<File> {
        let root = format!("/proc/{}/root", self.files.pid);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(root, flags, Mode::empty()).ok()?;
        let name = format!("tmp/perf-{}.map", self.own_pid()?);
        let no_link = rustix::fs::statat(root.as_fd(), &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if FileType::from_raw_mode(no_link.st_mode) != FileType::RegularFile {
            return None;
        }
        let file = open_regular_within(&root, &name).ok()?;
        let stat = rustix::fs::fstat(&file).ok()?;
        let owner = rustix::fs::fstat(self.maps).ok()?.st_uid;
        let is_same = (stat.st_ino, stat.st_dev) == (no_link.st_ino, no_link.st_dev);
        (is_same && (stat.st_uid == owner || stat.st_uid == 0)).then_some(file)
    }

    /// Returns the pid of the target in its own pid namespace.
    fn own_pid(&self) -> Option<u32> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.files.pid)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        match line {
            Some(line) => line.split_whitespace().last()?.parse().ok(),
            None => Some(self.files.pid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(start: u64, end: u64, name: &str) -> Function {
        let name = name.into();
        Function { start, end, name }
    }

    #[test]
    fn newer_functions_replace_older_ones() {
        let mut jit = Jit::default();
        jit.add(vec![function(100, 200, "a"), function(200, 300, "b")]);
        jit.add(vec![function(150, 220, "c"), function(400, 500, "d")]);
        jit.add(vec![function(400, 450, "e")]);
        let names = [100, 149, 150, 219, 220, 400, 449, 450, 99]
            .map(|address| jit.find(address).map(|name| name.to_string()));
        let names = names.each_ref().map(|name| name.as_deref());
        let (a, c, e) = (Some("a"), Some("c"), Some("e"));
        assert_eq!(names, [a, a, c, c, None, e, e, None, None]);
    }
}
