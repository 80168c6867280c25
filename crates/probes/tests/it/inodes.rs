//! Tests of the names of files known by inode and device.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::common::Packets;
use ferretto_probes::{DataSource, InodeMap};
use ferretto_proto::InodeFileConfig;
use ferretto_proto::inode_file_config::MountPointMappingEntry;
use ferretto_proto::inode_file_map::entry::Type;
use ferretto_proto::trace_packet::Data;
use tempfile::TempDir;

/// A directory that is treated as a mounted file system.
struct Disk {
    folder: TempDir,
    device: u64,
}

impl Disk {
    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("a disk").tempdir().unwrap();
        fs::create_dir_all(folder.path().join("one/two")).unwrap();
        for index in 0..50 {
            fs::write(folder.path().join(format!("one/two/file {index}")), "").unwrap();
        }
        let device = fs::metadata(folder.path()).unwrap().dev();
        Self { folder, device }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn inode(&self, name: &str) -> u64 {
        fs::symlink_metadata(self.path(name)).unwrap().ino()
    }

    fn map(&self, config: &InodeFileConfig) -> (InodeMap, Packets, TempDir) {
        let lists = tempfile::tempdir().unwrap();
        let mounts = lists.path().join("mountinfo");
        let point = self.folder.path().to_str().unwrap().replace(' ', "\\040");
        let lines = format!("21 1 8:1 / / rw - ext4 x rw\n22 1 8:1 / {point} rw - ext4 x rw\n");
        // The root is another device, or is excluded by the config.
        fs::write(&mounts, lines).unwrap();
        let packets = Packets::default();
        let map = InodeMap::with_mounts(&mounts, config, Box::new(packets.clone()));
        (map, packets, lists)
    }

    fn config(&self) -> InodeFileConfig {
        InodeFileConfig {
            scan_delay_ms: Some(1),
            scan_interval_ms: Some(1),
            scan_mount_points: vec![self.folder.path().to_str().unwrap().into()],
            ..Default::default()
        }
    }
}

/// Returns paths and kinds by inode, and the number of packets. All are about this device.
fn found(packets: &Packets, disk: &Disk) -> (BTreeMap<u64, (PathBuf, Type)>, usize) {
    let mut all = BTreeMap::new();
    let packets = packets.decoded();
    for packet in &packets {
        let Some(Data::InodeFileMap(map)) = &packet.data else {
            panic!("{packet:?}")
        };
        assert!(packet.timestamp.is_some());
        assert_eq!(map.block_device_id, Some(disk.device));
        assert_eq!(
            map.mount_points,
            [disk.folder.path().to_str().unwrap().as_bytes()]
        );
        for entry in &map.entries {
            let path = PathBuf::from(String::from_utf8(entry.paths[0].clone()).unwrap());
            let again = all.insert(entry.inode_number.unwrap(), (path, entry.r#type.unwrap()));
            assert!(again.is_none(), "reported twice");
        }
    }
    (all, packets.len())
}

fn poll_for_long(map: &mut InodeMap) {
    // Longer than the delay of a scan.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(2) {
        std::thread::yield_now();
    }
    for _ in 0..200 {
        map.poll();
    }
}

#[test]
fn names_are_found_in_batches_and_written_once() {
    let disk = Disk::new();
    let config = InodeFileConfig {
        scan_batch_size: Some(7),
        ..disk.config()
    };
    let (mut map, packets, _lists) = disk.map(&config);
    let names = ["one", "one/two/file 3", "one/two/file 44"];
    let gone = u64::MAX;
    for _ in 0..3 {
        map.look_for(names.map(|name| (disk.device, disk.inode(name))));
        map.look_for([(disk.device, gone), (disk.device + 1, disk.inode("one"))]);
        poll_for_long(&mut map);
    }
    let (all, count) = found(&packets, &disk);
    assert!(count >= 2, "in pieces");
    let kinds = [Type::DIRECTORY, Type::FILE, Type::FILE];
    let expected = names.into_iter().zip(kinds);
    let expected = expected.map(|(name, kind)| (disk.inode(name), (disk.path(name), kind)));
    assert_eq!(all, expected.collect());
}

#[test]
fn a_config_can_select_directories() {
    let disk = Disk::new();
    let mapping = |root: &Path| MountPointMappingEntry {
        mountpoint: Some(disk.folder.path().to_str().unwrap().into()),
        scan_roots: vec![root.to_str().unwrap().into()],
        ..Default::default()
    };
    let config = InodeFileConfig {
        mount_point_mapping: vec![mapping(&disk.path("one/two"))],
        ..disk.config()
    };
    let (mut map, packets, _lists) = disk.map(&config);
    let wanted = [disk.inode("one"), disk.inode("one/two/file 1")];
    map.look_for(wanted.map(|inode| (disk.device, inode)));
    poll_for_long(&mut map);
    let (all, _) = found(&packets, &disk);
    assert!(all.keys().eq([&wanted[1]]), "{all:?}");
    let config = InodeFileConfig {
        do_not_scan: Some(true),
        ..disk.config()
    };
    let (mut map, packets, _lists) = disk.map(&config);
    assert_eq!(map.poll_period_ms(), None);
    map.look_for(wanted.map(|inode| (disk.device, inode)));
    poll_for_long(&mut map);
    assert_eq!(found(&packets, &disk).1, 0);
}
