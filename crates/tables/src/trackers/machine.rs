//! Machines, their CPUs and GPUs.

use rustc_hash::FxHashMap;

use crate::schema::{CpuRow, GpuRow, MachineRow, TableId};
use crate::store::Store;
use crate::strings::StringId;

/// The maximum number of CPUs of a machine. `cpu.id` is this times the row of the machine, plus the
/// number of the CPU.
pub(crate) const CPUS_PER_MACHINE: u32 = 4096;

/// The maximum number of machines, to bound memory. Further machines count as the first one.
const MAX_MACHINES: usize = 64;

/// The machines of the trace.
#[derive(Debug, Default)]
pub(crate) struct MachineTracker {
    by_raw_id: FxHashMap<i64, u32>,
    last: Option<(i64, u32)>,
    /// The names and rows of machines that a manifest declares.
    declared: Vec<(String, u32)>,
}

/// The id of the first declared machine. It is larger than all machine ids of traces.
const FIRST_DECLARED: i64 = 1 << 32;

impl MachineTracker {
    /// Returns the row of the machine with this id, and adds the machine and its CPUs if they are
    /// new. The flag is true if the row is new.
    #[inline]
    pub(crate) fn intern(&mut self, store: &mut Store, raw_id: u32) -> (u32, bool) {
        let raw_id = i64::from(raw_id);
        match self.last {
            Some((last, id)) if last == raw_id => (id, false),
            _ => self.look_up(store, raw_id),
        }
    }

    /// Returns the row of the machine with this name, and adds it if it is new. The first declared
    /// machine takes the row of the recording machine, for which no data was read yet. The flag is
    /// true if the row is new.
    pub(crate) fn declare(&mut self, store: &mut Store, name: &str) -> (u32, bool) {
        if let Some((_, row)) = self.declared.iter().find(|(known, _)| known == name) {
            return (*row, false);
        }
        let raw_id = FIRST_DECLARED + self.declared.len() as i64;
        let (row, is_new) = if self.declared.is_empty() {
            self.by_raw_id = FxHashMap::from_iter([(raw_id, 0)]);
            self.last = None;
            store.tables.machine.raw_id.set(0, raw_id);
            (0, false)
        } else {
            self.look_up(store, raw_id)
        };
        let text = store.strings.intern(name);
        store.tables.machine.name.set(row, text);
        self.declared.push((name.to_owned(), row));
        (row, is_new)
    }

    /// Returns true if a machine with this id exists.
    pub(crate) fn has(&self, raw_id: u32) -> bool {
        self.by_raw_id.contains_key(&raw_id.into())
    }

    #[cold]
    fn look_up(&mut self, store: &mut Store, raw_id: i64) -> (u32, bool) {
        if let Some(id) = self.by_raw_id.get(&raw_id).copied() {
            self.last = Some((raw_id, id));
            return (id, false);
        }
        if self.by_raw_id.len() >= MAX_MACHINES {
            return (0, false);
        }
        let id = store.tables.machine.push(MachineRow {
            raw_id,
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

/// The CPUs that occur in the trace.
#[derive(Debug, Default)]
pub(crate) struct CpuTracker {
    seen: Vec<u64>,
}

impl CpuTracker {
    /// Returns `cpu.id` of a CPU of the current machine, whether it occurs or not; `None` if the
    /// number is too large.
    pub(crate) fn row(store: &Store, cpu: u32) -> Option<u32> {
        (cpu < CPUS_PER_MACHINE).then(|| store.machine * CPUS_PER_MACHINE + cpu)
    }

    /// Returns `cpu.id` of a CPU of the current machine, and marks it as occurring; `None` if the
    /// number is too large.
    #[inline]
    pub(crate) fn intern(&mut self, store: &mut Store, cpu: u32) -> Option<u32> {
        let ucpu = Self::row(store, cpu)?;
        let (index, bit) = (ucpu as usize / 64, 1 << (ucpu % 64));
        if self.seen.get(index).is_none_or(|word| word & bit == 0) {
            if self.seen.len() <= index {
                self.seen.resize(index + 1, 0);
            }
            self.seen[index] |= bit;
            store.tables.cpu.cpu.set(ucpu, Some(cpu));
        }
        Some(ucpu)
    }
}

/// The maximum number of GPUs of all machines. Further GPUs count as the first one.
const MAX_GPUS: usize = 1 << 12;

/// The GPUs that occur in the trace.
#[derive(Debug, Default)]
pub(crate) struct GpuTracker {
    by_number: FxHashMap<(u32, u32), u32>,
}

impl GpuTracker {
    /// Returns `gpu.id` of a GPU of the current machine, and adds it if it is new.
    pub(crate) fn intern(&mut self, store: &mut Store, gpu: u32) -> u32 {
        let key = (store.machine, gpu);
        if let Some(ugpu) = self.by_number.get(&key) {
            return *ugpu;
        }
        if self.by_number.len() >= MAX_GPUS {
            return 0;
        }
        let ugpu = store.tables.gpu.push(GpuRow {
            gpu,
            machine_id: store.machine,
            name: StringId::NULL,
            vendor: StringId::NULL,
            model: StringId::NULL,
            architecture: StringId::NULL,
            uuid: StringId::NULL,
            pci_bdf: StringId::NULL,
            arg_set_id: None,
        });
        self.by_number.insert(key, ugpu);
        ugpu
    }
}
