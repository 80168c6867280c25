//! Machines and their CPUs.

use rustc_hash::FxHashMap;

use crate::schema::{CpuRow, MachineRow, TableId};
use crate::store::Store;
use crate::strings::StringId;

/// The CPUs that a machine may have; `cpu.id` is the machine's times this, and the CPU's number.
pub(crate) const CPUS_PER_MACHINE: u32 = 4096;

/// Machines beyond this number are taken for the first one, so that memory is bounded.
const MAX_MACHINES: usize = 64;

/// The machines that took part.
#[derive(Debug, Default)]
pub(crate) struct MachineTracker {
    by_raw_id: FxHashMap<u32, u32>,
    last: Option<(u32, u32)>,
}

impl MachineTracker {
    /// Returns the row of the machine with this number in the trace, which is added with its CPUs
    /// if it is new. True if it is.
    #[inline]
    pub(crate) fn intern(&mut self, store: &mut Store, raw_id: u32) -> (u32, bool) {
        match self.last {
            Some((last, id)) if last == raw_id => (id, false),
            _ => self.look_up(store, raw_id),
        }
    }

    #[cold]
    fn look_up(&mut self, store: &mut Store, raw_id: u32) -> (u32, bool) {
        if let Some(id) = self.by_raw_id.get(&raw_id).copied() {
            self.last = Some((raw_id, id));
            return (id, false);
        }
        if self.by_raw_id.len() >= MAX_MACHINES {
            return (0, false);
        }
        let id = store.tables.machine.push(MachineRow {
            raw_id: raw_id.into(),
            name: StringId::NULL,
            sysname: StringId::NULL,
            release: StringId::NULL,
            version: StringId::NULL,
            arch: StringId::NULL,
            num_cpus: None,
            android_build_fingerprint: StringId::NULL,
            android_device_manufacturer: StringId::NULL,
            android_sdk_version: None,
            system_ram_bytes: None,
            system_ram_gb: None,
        });
        if store.wants(TableId::cpu) {
            for _ in 0..CPUS_PER_MACHINE {
                store.tables.cpu.push(CpuRow {
                    cpu: None,
                    cluster_id: 0,
                    processor: StringId::NULL,
                    machine_id: id,
                    capacity: None,
                    arg_set_id: None,
                });
            }
        }
        self.by_raw_id.insert(raw_id, id);
        self.last = Some((raw_id, id));
        (id, true)
    }
}

/// The CPUs that were seen.
#[derive(Debug, Default)]
pub(crate) struct CpuTracker {
    seen: Vec<u64>,
}

impl CpuTracker {
    /// Returns `cpu.id` of a CPU of the machine at hand; `None` if there are not so many. The CPU
    /// counts as seen.
    #[inline]
    pub(crate) fn intern(&mut self, store: &mut Store, cpu: u32) -> Option<u32> {
        if cpu >= CPUS_PER_MACHINE {
            return None;
        }
        let ucpu = store.machine * CPUS_PER_MACHINE + cpu;
        let (place, bit) = (ucpu as usize / 64, 1 << (ucpu % 64));
        if self.seen.get(place).is_none_or(|word| word & bit == 0) {
            if self.seen.len() <= place {
                self.seen.resize(place + 1, 0);
            }
            self.seen[place] |= bit;
            store.tables.cpu.cpu.set(ucpu, Some(cpu));
        }
        Some(ucpu)
    }
}
