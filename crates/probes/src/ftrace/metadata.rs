//! Metadata collected in one read pass over the ring buffers.

use rustc_hash::{FxHashMap, FxHashSet};

use super::throttle::Throttle;

/// The number of process ids that are remembered, a power of two, so that repetitions are cheap.
/// Each has the slot of its lowest bits.
const RECENT: usize = 4096;

/// The content of an empty slot.
const NONE: i32 = -1;

/// Pids, renames, ends, opened files and kernel addresses seen in one read pass of one data source.
#[derive(Debug, Default)]
pub struct Metadata {
    pids: Vec<i32>,
    /// The last id of each slot.
    recent: Vec<i32>,
    renamed: Vec<i32>,
    ended: Vec<i32>,
    fds: Vec<(i32, u64)>,
    /// Devices and inodes of files.
    files: FxHashSet<(u64, u64)>,
    /// Device and inode of the current event.
    device: Option<u64>,
    inode: Option<u64>,
    own_pid: Option<i32>,
    addresses: FxHashMap<u64, u32>,
    address_list: Vec<u64>,
    /// The latest sizes of processes' memory. Kept between passes.
    pub(super) throttle: Throttle,
    /// The number of addresses whose names have been written in this pass.
    pub(crate) symbols_written: usize,
}

impl Metadata {
    /// Notes a pid or thread id.
    #[inline]
    pub(crate) fn add_pid(&mut self, pid: i32) {
        if self.recent.get(slot(pid)) != Some(&pid) {
            self.add_new(pid);
        }
    }

    #[cold]
    fn add_new(&mut self, pid: i32) {
        if pid < 0 {
            return;
        }
        if self.recent.is_empty() {
            self.recent.resize(RECENT, NONE);
        }
        self.recent[slot(pid)] = pid;
        self.pids.push(pid);
    }

    /// Notes that a task changed its name.
    pub(crate) fn add_renamed(&mut self, pid: i32) {
        if !self.renamed.contains(&pid) {
            self.renamed.push(pid);
        }
    }

    /// Notes that a task has ended, so that its id can be reused.
    pub(crate) fn add_ended(&mut self, pid: i32) {
        self.ended.push(pid);
    }

    /// Notes that a task opened a file descriptor.
    pub(crate) fn add_fd(&mut self, pid: i32, fd: u64) {
        self.fds.push((pid, fd));
    }

    /// Notes the device in an event.
    pub(super) fn add_device(&mut self, device: u64) {
        self.device = Some(device);
    }

    /// Notes the inode in an event.
    pub(super) fn add_inode(&mut self, inode: u64) {
        self.inode = Some(inode);
    }

    /// Ends an event of this task: its device and inode belong to one file. Events of this process
    /// itself are ignored.
    #[inline]
    pub(super) fn end_event(&mut self, pid: i32) {
        if let (Some(device), Some(inode)) = (self.device.take(), self.inode.take()) {
            let own = *self
                .own_pid
                .get_or_insert_with(|| std::process::id() as i32);
            if pid != own {
                self.files.insert((device, inode));
            }
        }
    }

    /// Returns the index of a kernel address in the trace: 1 for the first one.
    ///
    /// Real addresses are never written: they would reveal the kernel's random layout.
    #[inline]
    pub(crate) fn address_index(&mut self, address: u64) -> u32 {
        let next = self.address_list.len() as u32 + 1;
        *self.addresses.entry(address).or_insert_with(|| {
            self.address_list.push(address);
            next
        })
    }

    /// Returns the addresses, starting with index 1.
    pub fn addresses(&self) -> &[u64] {
        &self.address_list
    }

    /// Returns the process ids in order of appearance, with few duplicates.
    pub fn pids(&self) -> &[i32] {
        &self.pids
    }

    /// Returns the renamed tasks.
    pub fn renamed(&self) -> &[i32] {
        &self.renamed
    }

    /// Returns the tasks that have ended.
    pub fn ended(&self) -> &[i32] {
        &self.ended
    }

    /// Returns pairs of process id and file descriptor.
    pub fn fds(&self) -> &[(i32, u64)] {
        &self.fds
    }

    /// Returns the files in events, as pairs of device and inode.
    pub fn files(&self) -> impl Iterator<Item = (u64, u64)> {
        self.files.iter().copied()
    }

    /// Clears everything after a read pass. Keeps the memory.
    pub fn clear(&mut self) {
        for pid in self.pids.drain(..) {
            self.recent[slot(pid)] = NONE;
        }
        self.renamed.clear();
        self.ended.clear();
        self.fds.clear();
        self.files.clear();
        self.addresses.clear();
        self.address_list.clear();
        self.symbols_written = 0;
    }
}

/// Returns the slot of a process id in [`Metadata::recent`].
#[inline]
fn slot(pid: i32) -> usize {
    pid as u32 as usize % RECENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_is_noted_once_in_a_pass_however_large() {
        let mut metadata = Metadata::default();
        for _ in 0..2 {
            for pid in [
                0,
                7,
                4_000_000,
                i32::MAX,
                7,
                0,
                4_000_000,
                i32::MAX,
                -1,
                i32::MIN,
            ] {
                metadata.add_pid(pid);
            }
            assert_eq!(metadata.pids(), [0, 7, 4_000_000, i32::MAX]);
            metadata.clear();
            assert!(metadata.pids().is_empty());
        }
    }
}
