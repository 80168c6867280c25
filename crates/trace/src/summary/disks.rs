//! The names of disks.

use std::collections::BTreeMap;

use ferretto_format::disk::{DISK_ATTRIBUTE, disk_numbers};
use ferretto_proto::fields::trace_attributes::{ATTRIBUTE, attribute};
use ferretto_wire::Fields;

use crate::printable::printable;

/// The maximum number of named disks. Others are identified by their numbers.
const MAX_DISKS: usize = 1024;

/// The names of the disks of all machines, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Disks(BTreeMap<(u32, String), String>);

impl Disks {
    /// Reads a `TraceAttributes`.
    pub(super) fn attributes(&mut self, machine: u32, bytes: &[u8]) {
        for entry in Fields::new(bytes).map_while(Result::ok) {
            let Some(entry) = entry.as_bytes().filter(|_| entry.number == ATTRIBUTE) else {
                continue;
            };
            let find = |number| Fields::find(number, entry).and_then(|field| field.as_bytes());
            let key = find(attribute::KEY).unwrap_or_default();
            let (Some(numbers), Some(name)) = (
                key.strip_prefix(DISK_ATTRIBUTE.as_bytes()),
                find(attribute::STRING_VALUE),
            ) else {
                continue;
            };
            if self.0.len() < MAX_DISKS {
                self.0
                    .insert((machine, printable(numbers)), printable(name));
            }
        }
    }

    /// Returns the name of a disk, or its numbers in the format of `lsblk`, such as `8:0`.
    pub(super) fn name(&self, machine: u32, device: u64) -> String {
        let key = (machine, disk_numbers(device));
        match self.0.get(&key) {
            Some(name) => name.clone(),
            None => key.1,
        }
    }
}
