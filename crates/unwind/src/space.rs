//! A process's address space: its maps, and the files behind them.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use ferretto_elf::Elf;

use crate::budget::Budget;
use crate::cache::Cache;
use crate::cfi::{Kind, Rule};
use crate::files::{Devices, Target};
use crate::frame::{self, Mapping};
use crate::image::Image;
use crate::jit::{self, Jit};
use crate::maps::{self, Map};
use crate::module::Module;
use crate::registers::Machine;

/// The initial and the largest number of cached rules of a process.
const FIRST_SLOTS: usize = 64;
const MAX_SLOTS: usize = 4096;

/// A map, and its mapping once a frame was found in it.
struct MapEntry {
    map: Map,
    mapping: Option<Arc<Mapping>>,
}

/// The map of an address, and its rule.
#[derive(Clone, Copy)]
pub(crate) struct Spot {
    /// The index of the map.
    pub(crate) map_index: u32,
    pub(crate) rule: Rule,
}

#[derive(Clone, Copy)]
struct Slot {
    address: u64,
    spot: Spot,
}

/// An address without code.
const NOWHERE: u64 = u64::MAX;

const EMPTY: Slot = Slot {
    address: NOWHERE,
    spot: Spot {
        map_index: 0,
        rule: Rule::bare(Kind::Missing),
    },
};

/// The maps of a process.
pub(crate) struct Space {
    target: Target,
    entries: Vec<MapEntry>,
    /// A hash table of recent addresses. Its size is a power of two.
    slots: Box<[Slot]>,
    misses: usize,
    jit: Jit,
}

impl Space {
    pub(crate) fn new(target: Target) -> Self {
        Self {
            target,
            entries: Vec::new(),
            slots: vec![EMPTY; FIRST_SLOTS].into(),
            misses: 0,
            jit: Jit::default(),
        }
    }

    /// Replaces the list of maps, and keeps the state of unchanged ones.
    pub(crate) fn set(&mut self, maps: Vec<Map>) {
        let mut old = std::mem::take(&mut self.entries).into_iter().peekable();
        self.entries = maps
            .into_iter()
            .map(|map| {
                while old.next_if(|entry| entry.map.start < map.start).is_some() {}
                let known = old.next_if(|entry| entry.map == map);
                MapEntry {
                    mapping: known.and_then(|entry| entry.mapping),
                    map,
                }
            })
            .collect();
        self.slots.fill(EMPTY);
    }

    /// Returns true if there are no maps.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a map in place of overlapping ones.
    pub(crate) fn add(&mut self, map: Map) {
        let mut maps: Vec<Map> = self.entries.iter().map(|entry| entry.map.clone()).collect();
        if maps::put(&mut maps, map) {
            self.set(maps);
        }
    }

    /// Forgets the files behind the maps.
    pub(crate) fn forget(&mut self) {
        for entry in &mut self.entries {
            entry.mapping = None;
        }
        self.slots = vec![EMPTY; FIRST_SLOTS].into();
        self.misses = 0;
        self.jit.forget();
    }

    /// Returns the name of a JIT-compiled function, if the map at this index may contain such.
    pub(crate) fn jit_name(
        &mut self,
        map_index: u32,
        address: u64,
        maps: &File,
        devices: &Devices,
    ) -> Option<Arc<str>> {
        let map = &self.entries.get(map_index as usize)?.map;
        if map.name.starts_with("[v") {
            return None;
        }
        let target = jit::Target {
            files: &self.target,
            maps,
            devices,
        };
        let maps = self.entries.iter().map(|entry| &entry.map);
        self.jit.name(address, &target, maps)
    }

    /// Returns the highest address with code or data of the process.
    pub(crate) fn end(&self) -> u64 {
        // The last map may be `[vsyscall]`, far from all others.
        self.entries
            .iter()
            .rev()
            .map(|entry| entry.map.end)
            .find(|&end| end >> 63 == 0)
            .unwrap_or(0)
    }

    /// Returns the index of the map with code at `address`.
    pub(crate) fn find(&self, address: u64) -> Option<u32> {
        let after = self
            .entries
            .partition_point(|entry| entry.map.start <= address);
        let index = after.checked_sub(1)?;
        let map = &self.entries[index].map;
        (address < map.end && map.executable).then_some(index as u32)
    }

    /// Returns the rule for `address`, and its map.
    #[inline]
    pub(crate) fn spot(
        &mut self,
        address: u64,
        machine: Machine,
        cache: &Cache,
        budget: &mut Budget,
    ) -> Option<Spot> {
        let slot = self.slots[self.slot_of(address)];
        if slot.address == address && address != NOWHERE {
            return Some(slot.spot);
        }
        self.search(address, machine, cache, budget)
    }

    #[inline]
    fn slot_of(&self, address: u64) -> usize {
        let mixed = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        mixed as usize & (self.slots.len() - 1)
    }

    #[cold]
    fn search(
        &mut self,
        address: u64,
        machine: Machine,
        cache: &Cache,
        budget: &mut Budget,
    ) -> Option<Spot> {
        let map_index = self.find(address)?;
        let mapping = self.mapping(map_index, cache);
        let rule = match &mapping.module {
            Some(module) => {
                let address = address.wrapping_sub(mapping.slide);
                module.rule(address, machine, budget)
            }
            None => Rule::bare(Kind::Missing),
        };
        let spot = Spot { map_index, rule };
        if !budget.is_exhausted() {
            self.remember(Slot { address, spot });
        }
        Some(spot)
    }

    fn remember(&mut self, slot: Slot) {
        self.misses += 1;
        if self.misses > 2 * self.slots.len() && self.slots.len() < MAX_SLOTS {
            let larger = vec![EMPTY; self.slots.len() * 4].into();
            let old = std::mem::replace(&mut self.slots, larger);
            for slot in old.iter().filter(|slot| slot.address != NOWHERE) {
                let index = self.slot_of(slot.address);
                self.slots[index] = *slot;
            }
            self.misses = 0;
        }
        let index = self.slot_of(slot.address);
        self.slots[index] = slot;
    }

    /// Returns the mapping of the map with this index, as in frames.
    #[inline]
    pub(crate) fn mapping(&mut self, map_index: u32, cache: &Cache) -> &Arc<Mapping> {
        let index = map_index as usize;
        if self.entries[index].mapping.is_none() {
            let mapping = self.resolve(index, cache);
            self.entries[index].mapping = Some(Arc::new(mapping));
        }
        let mapping = self.entries[index].mapping.as_ref();
        mapping.expect("the mapping was just resolved")
    }

    /// Finds the file of a map, and the ELF file within.
    fn resolve(&self, index: usize, cache: &Cache) -> Mapping {
        let map = &self.entries[index].map;
        let (module, start_offset) = self
            .file_module(index, cache)
            .or_else(|| self.image_module(index, cache))
            .map_or((None, map.offset), |(module, start)| (Some(module), start));
        let elf = module.as_ref().map(|module| module.elf());
        let start_offset = if elf.is_some() { start_offset } else { 0 };
        let mut path = map.name.to_string();
        if let Some(soname) = elf.filter(|_| start_offset != 0).and_then(Elf::soname) {
            path = format!("{path}!{soname}");
        }
        let build_id = elf.and_then(Elf::build_id).filter(|_| !path.is_empty());
        let load_bias = elf.map_or(0, |elf| load_bias(elf, map, start_offset));
        let within = map.offset.wrapping_sub(start_offset);
        let slide = map.start.wrapping_sub(within.wrapping_add(load_bias));
        Mapping {
            id: frame::next_id(),
            build_id: build_id.unwrap_or_default().to_vec(),
            path,
            start: map.start,
            end: map.end,
            exact_offset: map.offset,
            start_offset,
            load_bias,
            slide: elf.map_or(0, |_| slide),
            module,
        }
    }

    fn file_module(&self, index: usize, cache: &Cache) -> Option<(Arc<Module>, u64)> {
        let map = &self.entries[index].map;
        let file = Arc::new(self.target.open(map, &cache.devices)?);
        self.starts(index)
            .find_map(|start| Some((cache.file(&file, start)?, start)))
    }

    /// Returns the possible offsets of the ELF file in the file: the map's own, 0, and those of
    /// earlier read-only maps.
    fn starts(&self, index: usize) -> impl Iterator<Item = u64> {
        let map = &self.entries[index].map;
        let before = self.before(index);
        [map.offset, 0].into_iter().chain(before)
    }

    /// Returns the offsets of earlier maps of the same file, the nearest first.
    fn before(&self, index: usize) -> impl Iterator<Item = u64> {
        const MAX_BEFORE: usize = 8;
        let map = &self.entries[index].map;
        self.entries[..index]
            .iter()
            .rev()
            .take(MAX_BEFORE)
            .map(|entry| &entry.map)
            .take_while(|before| before.inode == map.inode && before.name == map.name)
            .filter(|before| before.readable && !before.executable && before.offset < map.offset)
            .map(|before| before.offset)
    }

    /// Returns the module of the vDSO, or of a file that is gone or cannot be opened.
    fn image_module(&self, index: usize, cache: &Cache) -> Option<(Arc<Module>, u64)> {
        let map = &self.entries[index].map;
        if map.is_device() || !(map.is_vdso() || map.inode != 0) {
            return None;
        }
        if map.is_vdso() {
            return Some((
                cache.image(vdso(self.target.memory.as_deref(), map)?, false)?,
                0,
            ));
        }
        let memory = self.target.memory.as_ref()?;
        let same = self.entries.iter().map(|entry| &entry.map).filter(|other| {
            other.inode == map.inode && other.device == map.device && other.name == map.name
        });
        let parts: Vec<Map> = same.cloned().collect();
        self.starts(index).find_map(|start| {
            let image = Image::new(Arc::clone(memory), parts.iter());
            let elf = Elf::open(image, start).ok()?;
            Some((cache.image(elf, true)?, start))
        })
    }
}

/// Returns a copy of the vDSO; this process's own if the target is gone.
fn vdso(memory: Option<&File>, map: &Map) -> Option<Elf> {
    const MAX_SIZE: u64 = 1 << 20;
    let size = map.end - map.start;
    if size > MAX_SIZE {
        return None;
    }
    let mut bytes = vec![0; size as usize];
    match memory {
        Some(memory) => memory.read_exact_at(&mut bytes, map.start).ok()?,
        None => {
            let own = maps::read(&File::open("/proc/self/maps").ok()?).ok()?;
            let own = own.into_iter().find(Map::is_vdso)?;
            // A vDSO of another size is that of another kind of program.
            (own.end - own.start == size).then_some(())?;
            let memory = File::open("/proc/self/mem").ok()?;
            memory.read_exact_at(&mut bytes, own.start).ok()?;
        }
    }
    Elf::open(bytes, 0).ok()
}

/// Returns the address minus the offset in the ELF file of the executable segment of `map`.
/// Programs rewritten after linking, such as rustc's libraries, have several segments with
/// different values.
fn load_bias(elf: &Elf, map: &Map, start_offset: u64) -> u64 {
    let offset = map.offset.wrapping_sub(start_offset);
    let end = offset.saturating_add(map.end - map.start);
    elf.segments()
        .iter()
        .find(|segment| {
            segment.is_executable()
                && segment.offset < end
                && offset < segment.offset.saturating_add(segment.file_size)
        })
        .map_or(elf.load_bias(), |segment| {
            segment.address.wrapping_sub(segment.offset)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_address_has_no_map() {
        let memory = File::open("/dev/null").expect("a file");
        let mut space = Space::new(Target {
            pid: std::process::id(),
            memory: Some(Arc::new(memory)),
            roots: Vec::new(),
        });
        let mut budget = Budget::default();
        // The address before 0, from a chain that ends with 0.
        let spot = space.spot(u64::MAX, Machine::NATIVE, &Cache::default(), &mut budget);
        assert!(spot.is_none());
    }
}
