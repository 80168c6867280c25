//! `linux.inode_file_map`: names of files that kernel events refer to by inode and device.
//!
//! Directories are read in small batches, so that the thread is not blocked for long. The name of a
//! file is written once; deleted files have none.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::fs::{self, DirEntry, ReadDir};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use ferretto_proto::fields::{inode_file_map as field, trace_packet};
use ferretto_proto::{InodeFileConfig, decode_lazy};

use crate::PacketSink;
use crate::clock::{boottime_ns, monotonic_ns};
use crate::ftrace::Metadata;
use crate::source::{DataSource, Kind};

/// The name of the data source.
pub const INODE_FILE_MAP: &str = "linux.inode_file_map";

/// The pause before directories are read, and between batches, in milliseconds.
const PAUSE_MS: u32 = 10_000;
/// The shortest pause in a config.
const SHORTEST_MS: u32 = 10;
/// The number of directory entries in a batch.
const BATCH: u32 = 15_000;
/// The largest batch in a config.
const MAX_BATCH: u32 = 100_000;
/// The limit of pending files, and of files known to be done.
const MAX_FILES: usize = 100_000;
/// The limit of directories to be read; others are skipped.
const MAX_FOLDERS: usize = 100_000;

/// A `linux.inode_file_map` data source.
#[derive(Debug)]
pub struct InodeMap {
    options: Options,
    /// The inodes with unknown names, by device.
    wanted: BTreeMap<u64, HashSet<u64>>,
    /// Devices and inodes whose names were written, or not found.
    done: HashSet<(u64, u64)>,
    /// The time of the first request.
    since_ns: Option<u64>,
    walk: Option<Walk>,
    sink: Box<dyn PacketSink>,
}

#[derive(Debug)]
struct Options {
    mounts: PathBuf,
    pause_ms: u32,
    delay_ms: u32,
    batch: u32,
    is_off: bool,
    /// The mount points to be searched; all if empty.
    only: Vec<PathBuf>,
    /// The directories to be searched instead of a mount point.
    instead: Vec<(PathBuf, Vec<PathBuf>)>,
}

/// A walk through the directories of a device.
#[derive(Debug)]
struct Walk {
    device: u64,
    mount_points: Vec<PathBuf>,
    folder: Option<ReadDir>,
    folders: VecDeque<PathBuf>,
}

/// A file that was found.
#[derive(Debug)]
struct Found {
    inode: u64,
    path: PathBuf,
    kind: FileKind,
}

/// Values of `InodeFileMap.Entry.Type`.
#[derive(Debug, Clone, Copy)]
enum FileKind {
    Unknown = 0,
    File = 1,
    Directory = 2,
}

impl InodeMap {
    pub(crate) const KIND: Kind = Kind {
        name: INODE_FILE_MAP,
        create: |config, sink, _| {
            let config = decode_lazy(&config.inode_file_config)?;
            Ok(Box::new(Self::new(&config, sink)))
        },
        starting: None,
        polling: None,
        on_metadata: Some(ferretto_metatrace::Event::PsOnPids),
        has_incremental_state: false,
    };

    /// Creates a data source for the mounted file systems of this machine.
    pub fn new(config: &InodeFileConfig, sink: Box<dyn PacketSink>) -> Self {
        Self::with_mounts(Path::new("/proc/self/mountinfo"), config, sink)
    }

    /// Creates a data source with another list of mounts.
    pub fn with_mounts(mounts: &Path, config: &InodeFileConfig, sink: Box<dyn PacketSink>) -> Self {
        let or = |wanted: Option<u32>, usual: u32| wanted.filter(|it| *it > 0).unwrap_or(usual);
        let path = |bytes: &Vec<u8>| PathBuf::from(OsString::from_vec(bytes.clone()));
        let paths = |all: &[Vec<u8>]| all.iter().map(path).collect::<Vec<_>>();
        let instead = config.mount_point_mapping.iter().map(|mapping| {
            let mount_point = path(mapping.mountpoint.as_ref().unwrap_or(&Vec::new()));
            (mount_point, paths(&mapping.scan_roots))
        });
        Self {
            options: Options {
                mounts: mounts.to_owned(),
                pause_ms: or(config.scan_interval_ms, PAUSE_MS).max(SHORTEST_MS),
                delay_ms: or(config.scan_delay_ms, PAUSE_MS),
                batch: or(config.scan_batch_size, BATCH).min(MAX_BATCH),
                is_off: config.do_not_scan.unwrap_or(false),
                only: paths(&config.scan_mount_points),
                instead: instead.collect(),
            },
            wanted: BTreeMap::new(),
            done: HashSet::new(),
            since_ns: None,
            walk: None,
            sink,
        }
    }

    /// Requests the names of files, given as pairs of device and inode.
    pub fn look_for(&mut self, files: impl IntoIterator<Item = (u64, u64)>) {
        if self.options.is_off {
            return;
        }
        for (device, inode) in files {
            let known: usize = self.wanted.values().map(HashSet::len).sum();
            if known + self.done.len() >= MAX_FILES {
                return;
            }
            if !self.done.contains(&(device, inode)) {
                self.wanted.entry(device).or_default().insert(inode);
                self.since_ns.get_or_insert_with(monotonic_ns);
            }
        }
    }

    /// Starts with the next device, once it has waited long enough.
    fn begin(&mut self) -> Option<Walk> {
        let waited = monotonic_ns().saturating_sub(self.since_ns?);
        if waited < u64::from(self.options.delay_ms) * 1_000_000 {
            return None;
        }
        let Some(device) = self.wanted.keys().next().copied() else {
            self.since_ns = None;
            return None;
        };
        let mount_points = self.options.mount_points_of(device);
        let folders = mount_points.iter().flat_map(|it| self.options.roots_of(it));
        let folders = folders.collect();
        Some(Walk {
            device,
            mount_points,
            folder: None,
            folders,
        })
    }

    fn write(&mut self, walk: &Walk, found: &[Found]) {
        self.sink.write_packet(&ferretto_wire::encode(|packet| {
            packet.varint(trace_packet::TIMESTAMP, boottime_ns());
            packet.nested(trace_packet::INODE_FILE_MAP, |map| {
                map.varint(field::BLOCK_DEVICE_ID, walk.device);
                for mount_point in &walk.mount_points {
                    map.bytes(field::MOUNT_POINTS, mount_point.as_os_str().as_bytes());
                }
                for found in found {
                    map.nested(field::ENTRIES, |entry| {
                        entry.varint(field::entry::INODE_NUMBER, found.inode);
                        entry.bytes(field::entry::PATHS, found.path.as_os_str().as_bytes());
                        entry.varint(field::entry::TYPE, found.kind as u64);
                    });
                }
            });
        }));
    }
}

impl Options {
    /// Returns the mount points of a device.
    fn mount_points_of(&self, device: u64) -> Vec<PathBuf> {
        let mounts = fs::read(&self.mounts).unwrap_or_default();
        let lines = mounts.split(|byte| *byte == b'\n');
        let points = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
        let mut points: Vec<PathBuf> = points.map(unescaped).collect();
        points.retain(|point| self.only.is_empty() || self.only.contains(point));
        points.retain(|point| fs::symlink_metadata(point).is_ok_and(|it| it.dev() == device));
        points.sort();
        points.dedup();
        points
    }

    /// Returns the directories to start with for a mount point.
    fn roots_of(&self, mount_point: &Path) -> Vec<PathBuf> {
        let instead = self.instead.iter().find(|(point, _)| point == mount_point);
        match instead {
            Some((_, roots)) => roots.clone(),
            None => vec![mount_point.to_owned()],
        }
    }
}

impl DataSource for InodeMap {
    fn poll_period_ms(&self) -> Option<u32> {
        (!self.options.is_off).then_some(self.options.pause_ms)
    }

    /// A walk that is not over does not end sooner at the end.
    fn poll_last(&mut self) {}

    fn poll(&mut self) {
        let Some(mut walk) = self.walk.take().or_else(|| self.begin()) else {
            return;
        };
        let mut found = Vec::new();
        let mut is_over = false;
        for _ in 0..self.options.batch {
            let wanted = self.wanted.get_mut(&walk.device);
            let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) else {
                is_over = true;
                break;
            };
            let Some(entry) = walk.next() else {
                is_over = true;
                break;
            };
            if wanted.remove(&entry.ino()) {
                self.done.insert((walk.device, entry.ino()));
                found.push(Found {
                    inode: entry.ino(),
                    path: entry.path(),
                    kind: kind_of(&entry),
                });
            }
        }
        if !found.is_empty() {
            self.write(&walk, &found);
        }
        if is_over {
            // The remaining inodes have no name.
            let left = self.wanted.remove(&walk.device).unwrap_or_default();
            self.done
                .extend(left.into_iter().map(|inode| (walk.device, inode)));
        } else {
            self.walk = Some(walk);
        }
    }

    fn flush(&mut self) {
        self.sink.flush();
    }

    fn on_metadata(&mut self, metadata: &Metadata) {
        self.look_for(metadata.files());
    }
}

impl Walk {
    /// Returns the next entry in the directories on this device.
    fn next(&mut self) -> Option<DirEntry> {
        loop {
            if let Some(folder) = &mut self.folder {
                match folder.next() {
                    Some(Ok(entry)) => {
                        let is_folder = entry.file_type().is_ok_and(|it| it.is_dir());
                        if is_folder && self.folders.len() < MAX_FOLDERS {
                            self.folders.push_back(entry.path());
                        }
                        return Some(entry);
                    }
                    Some(Err(_)) => continue,
                    None => self.folder = None,
                }
            }
            let path = self.folders.pop_front()?;
            // Not the root of another mount.
            let is_here = fs::symlink_metadata(&path).is_ok_and(|it| it.dev() == self.device);
            if is_here {
                self.folder = fs::read_dir(&path).ok();
            }
        }
    }
}

fn kind_of(entry: &DirEntry) -> FileKind {
    match entry.file_type() {
        Ok(kind) if kind.is_dir() => FileKind::Directory,
        Ok(kind) if kind.is_file() => FileKind::File,
        _ => FileKind::Unknown,
    }
}

/// Decodes a path of `mountinfo`, in which blanks and similar characters are octal escapes.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut path = Vec::new();
    let mut rest = text;
    while let [first, more @ ..] = rest {
        let octal = more.get(..3).filter(|_| *first == b'\\');
        let value = octal.and_then(|it| std::str::from_utf8(it).ok());
        match value.and_then(|it| u8::from_str_radix(it, 8).ok()) {
            Some(value) => {
                path.push(value);
                rest = &more[3..];
            }
            None => {
                path.push(*first);
                rest = more;
            }
        }
    }
    PathBuf::from(OsString::from_vec(path))
}
