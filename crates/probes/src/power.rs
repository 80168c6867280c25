//! `linux.sysfs_power`: readings of batteries (kernel documentation: `sysfs-class-power`).

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ferretto_metatrace::Event as Activity;
use ferretto_proto::fields::{battery_counters as field, trace_packet};

use crate::PacketSink;
use crate::clock::boottime_ns;
use crate::source::{DataSource, Kind};

/// Name of the battery data source.
pub const SYSFS_POWER: &str = "linux.sysfs_power";

/// Time between readings, milliseconds.
const PERIOD_MS: u32 = 1000;
/// The maximum number of batteries; others are ignored.
const MAX_BATTERIES: usize = 64;

/// The counters of a battery and their files. Values are in micro-units, such as µA.
const COUNTERS: [(&str, u32); 5] = [
    ("charge_now", field::CHARGE_COUNTER_UAH),
    ("current_now", field::CURRENT_UA),
    // Upstream's probes write the average as the current.
    ("current_avg", field::CURRENT_AVG_UA),
    ("energy_now", field::ENERGY_COUNTER_UWH),
    ("voltage_now", field::VOLTAGE_UV),
];

/// A `linux.sysfs_power` data source.
#[derive(Debug)]
pub struct Batteries {
    /// Names and directories, ordered by name.
    found: Vec<(String, PathBuf)>,
    sink: Box<dyn PacketSink>,
}

impl Batteries {
    /// Creates a data source for the batteries of this machine.
    pub fn new(sink: Box<dyn PacketSink>) -> Self {
        Self::with_root(Path::new("/"), sink)
    }

    /// Creates a data source that reads `sys` under another directory.
    pub fn with_root(root: &Path, sink: Box<dyn PacketSink>) -> Self {
        Self {
            found: find(&root.join("sys/class/power_supply")),
            sink,
        }
    }

    pub(crate) const KIND: Kind = Kind {
        name: SYSFS_POWER,
        create: |_, sink, _| Ok(Box::new(Self::new(sink))),
        starting: None,
        polling: Some(Activity::LinuxPowerSysfsTick),
        on_metadata: None,
        has_incremental_state: false,
    };
}

impl DataSource for Batteries {
    fn poll_period_ms(&self) -> Option<u32> {
        (!self.found.is_empty()).then_some(PERIOD_MS)
    }

    fn poll(&mut self) {
        let named = self.found.len() > 1;
        for (name, folder) in &self.found {
            let timestamp = boottime_ns();
            let counters = ferretto_wire::encode(|out| {
                for (file, number) in COUNTERS {
                    if let Some(value) = read::<i64>(&folder.join(file)) {
                        out.int(number, value);
                    }
                }
                if let Some(percent) = read::<u8>(&folder.join("capacity")) {
                    out.float(field::CAPACITY_PERCENT, percent.into());
                }
                if named {
                    out.string(field::NAME, name);
                }
            });
            self.sink.write_packet(&ferretto_wire::encode(|packet| {
                packet.varint(trace_packet::TIMESTAMP, timestamp);
                packet.bytes(trace_packet::BATTERY, &counters);
            }));
        }
    }

    fn flush(&mut self) {
        self.sink.flush();
    }
}

fn find(supplies: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(supplies).into_iter().flatten().flatten();
    let is_battery = |folder: &PathBuf| {
        read::<String>(&folder.join("type")).as_deref() == Some("Battery")
            && read::<u8>(&folder.join("present")) == Some(1)
    };
    let mut found: Vec<_> = entries
        .map(|entry| {
            (
                entry.file_name().to_string_lossy().into_owned(),
                entry.path(),
            )
        })
        .filter(|(_, folder)| is_battery(folder))
        .collect();
    found.sort();
    found.truncate(MAX_BATTERIES);
    found
}

fn read<T: FromStr>(file: &Path) -> Option<T> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}
