//! Functions shared by the tests of this crate.
#![allow(dead_code)]

pub(crate) mod page;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use ferretto_probes::PacketSink;
use ferretto_probes::ftrace::Tracefs;
use ferretto_proto::{FtraceEventBundle, FtraceStats, Message, TracePacket};

/// The packets of a data source, kept in memory and shared with the test.
#[derive(Debug, Clone, Default)]
pub(crate) struct Packets(Arc<Mutex<Vec<Vec<u8>>>>);

impl PacketSink for Packets {
    fn write_packet(&mut self, fields: &[u8]) {
        self.0.lock().expect("not poisoned").push(fields.to_vec());
    }
}

impl Packets {
    pub(crate) fn raw(&self) -> Vec<Vec<u8>> {
        self.0.lock().expect("not poisoned").clone()
    }

    pub(crate) fn decoded(&self) -> Vec<TracePacket> {
        let decode =
            |bytes: &Vec<u8>| TracePacket::decode_from_slice(bytes).expect("a TracePacket");
        self.raw().iter().map(decode).collect()
    }

    pub(crate) fn bundles(&self) -> Vec<FtraceEventBundle> {
        self.decoded().iter().filter_map(bundle_of).collect()
    }

    pub(crate) fn stats(&self) -> Vec<FtraceStats> {
        self.decoded().iter().filter_map(stats_of).collect()
    }
}

fn bundle_of(packet: &TracePacket) -> Option<FtraceEventBundle> {
    use ferretto_proto::trace_packet::Data;
    match &packet.data {
        Some(Data::FtraceEvents(bundle)) => Some((**bundle).clone()),
        _ => None,
    }
}

fn stats_of(packet: &TracePacket) -> Option<FtraceStats> {
    use ferretto_proto::trace_packet::Data;
    match &packet.data {
        Some(Data::FtraceStats(stats)) => Some((**stats).clone()),
        _ => None,
    }
}

/// A private tracefs instance for a test, removed on drop.
pub(crate) struct TestInstance {
    pub(crate) name: String,
    pub(crate) fs: Tracefs,
    path: PathBuf,
}

impl TestInstance {
    /// Creates an instance; `None`, with the reason printed, if the kernel or the user does not
    /// allow it.
    pub(crate) fn new(test: &str) -> Option<Self> {
        let top = match Tracefs::find_or_mount() {
            Ok(top) => top,
            Err(error) => {
                println!("skipped: {error}");
                return None;
            }
        };
        let name = format!("ferretto-test-{}-{test}", std::process::id());
        let path = top.root().join("instances").join(&name);
        if let Err(error) = std::fs::create_dir(&path) {
            println!("skipped: {}: {error}", path.display());
            return None;
        }
        Some(Self {
            name,
            fs: Tracefs::at(&path),
            path,
        })
    }
}

impl Drop for TestInstance {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir(&self.path) {
            println!("{} was not removed: {error}", self.path.display());
        }
    }
}

/// Fills at least one of the instance's buffers, of 256 KiB, to more than a tenth.
pub(crate) fn fill(instance: &TestInstance) {
    let mut marker = std::fs::OpenOptions::new()
        .write(true)
        .open(instance.fs.root().join("trace_marker"))
        .expect("a marker");
    for _ in 0..1000 * instance.fs.cpus().len() {
        std::io::Write::write_all(&mut marker, &[b'x'; 100]).expect("written");
    }
}
