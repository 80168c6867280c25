//! Tables shared by processes.

use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferretto_elf::Elf;
use rustc_hash::FxHashMap;

use crate::files::Devices;
use crate::memory_budget::MemoryBudget;
use crate::module::Module;

/// The default limit of memory for indexes of files, in bytes. A program needs a few dozen
/// kilobytes. One with 100,000 functions and symbols needs a megabyte more.
const TABLE_BYTES: usize = 32 << 20;
/// The largest number of unused files to keep.
const MAX_IDLE: usize = 256;

/// The identity of a file. Names change, and inodes are reused.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    File {
        device: u64,
        inode: u64,
        size: i64,
        changed: (i64, i64),
        start: u64,
    },
    /// A file in memory: its build id, and the address of its code relative to its start.
    Build(Vec<u8>),
}

struct Entry {
    /// The file; `None` if it is not an ELF file.
    module: Option<Arc<Module>>,
    used: u64,
}

#[derive(Default)]
struct Entries {
    by_key: FxHashMap<Key, Entry>,
    clock: u64,
}

/// The files that processes have mapped, with their unwind tables. Each file is read once for all
/// processes. Threads share the cache.
pub struct Cache {
    entries: Arc<Mutex<Entries>>,
    budget: Arc<MemoryBudget>,
    pub(crate) devices: Devices,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache")
            .field("table_bytes", &self.budget.used())
            .finish_non_exhaustive()
    }
}

impl Default for Cache {
    fn default() -> Self {
        Self::new()
    }
}

impl Cache {
    /// Creates a cache with the default limit.
    #[must_use]
    pub fn new() -> Self {
        Self::with_table_limit(TABLE_BYTES)
    }

    /// Creates a cache with at most `bytes` of indexes of unwind and symbol tables and of their
    /// entries. The least recently used ones are dropped and read again when needed. A file whose
    /// index alone exceeds the limit counts as having no tables.
    #[must_use]
    pub fn with_table_limit(bytes: usize) -> Self {
        let entries = Arc::<Mutex<Entries>>::default();
        let budget = MemoryBudget::new(bytes);
        let (all, used) = (Arc::downgrade(&entries), Arc::downgrade(&budget));
        budget.on_shortage(move |bytes| {
            if let (Some(entries), Some(budget)) = (all.upgrade(), used.upgrade()) {
                lock(&entries).shrink(bytes, &budget);
            }
        });
        Self {
            entries,
            budget,
            devices: Devices::default(),
        }
    }

    /// Forgets all files. Processes keep the files they use until [`crate::Process::clear`].
    pub fn clear(&self) {
        self.lock().by_key.clear();
    }

    /// Returns the number of ELF files in the cache.
    #[must_use]
    pub fn len(&self) -> usize {
        let entries = self.lock();
        let modules = entries.by_key.values();
        modules.filter(|entry| entry.module.is_some()).count()
    }

    /// Returns true if the cache is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the memory use of indexes in bytes.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        self.budget.used()
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        lock(&self.entries)
    }

    /// Returns the ELF file at offset `start` of `file`.
    pub(crate) fn file(&self, file: &Arc<File>, start: u64) -> Option<Arc<Module>> {
        let stat = rustix::fs::fstat(file).ok()?;
        let key = Key::File {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size,
            changed: (stat.st_ctime, stat.st_ctime_nsec as i64),
            start,
        };
        if let Some(found) = self.find(&key) {
            return found;
        }
        let module = Elf::open(Arc::clone(file), start)
            .ok()
            .map(|elf| Arc::new(Module::new(elf, false, Arc::clone(&self.budget))));
        self.insert(key, module)
    }

    /// Returns the module of `elf`, a file in a process's memory or a copy of it. Modules are
    /// shared by build id; without one, the module is not shared.
    pub(crate) fn image(&self, elf: Elf, may_vanish: bool) -> Option<Arc<Module>> {
        let key = elf.build_id().map(|id| Key::Build(id.to_vec()));
        let module = |elf| {
            Some(Arc::new(Module::new(
                elf,
                may_vanish,
                Arc::clone(&self.budget),
            )))
        };
        let Some(key) = key else {
            return module(elf);
        };
        match self.find(&key) {
            Some(found) => found,
            None => self.insert(key, module(elf)),
        }
    }

    fn find(&self, key: &Key) -> Option<Option<Arc<Module>>> {
        let mut entries = self.lock();
        entries.clock += 1;
        let clock = entries.clock;
        let entry = entries.by_key.get_mut(key)?;
        entry.used = clock;
        Some(entry.module.clone())
    }

    /// Inserts a file, unless another thread was first. Returns the shared one.
    fn insert(&self, key: Key, module: Option<Arc<Module>>) -> Option<Arc<Module>> {
        let mut entries = self.lock();
        entries.evict(self.budget.is_scarce());
        let used = entries.clock;
        let entry = entries.by_key.entry(key).or_insert(Entry { module, used });
        entry.module.clone()
    }
}

fn lock(entries: &Mutex<Entries>) -> MutexGuard<'_, Entries> {
    entries.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Entry {
    fn is_idle(&self) -> bool {
        let module = self.module.as_ref();
        module.is_none_or(|module| Arc::strong_count(module) == 1)
    }
}

impl Entries {
    /// Drops the older half of unused files, if they are many or memory is scarce.
    fn evict(&mut self, is_scarce: bool) {
        let idle = self.by_key.values().filter(|entry| entry.is_idle());
        let mut idle: Vec<u64> = idle.map(|entry| entry.used).collect();
        if idle.is_empty() || idle.len() <= MAX_IDLE && !is_scarce {
            return;
        }
        let middle = idle.len() / 2;
        let (_, &mut middle, _) = idle.select_nth_unstable(middle);
        self.by_key
            .retain(|_, entry| !entry.is_idle() || entry.used > middle);
    }

    /// Drops unused files, and then the tables of the least recently used ones, until at most this
    /// many bytes are in use.
    fn shrink(&mut self, bytes: usize, budget: &MemoryBudget) {
        self.evict(true);
        if budget.used() <= bytes {
            return;
        }
        let modules = self
            .by_key
            .values()
            .filter_map(|entry| entry.module.as_ref());
        let mut modules: Vec<_> = modules.map(|module| (module.last_used(), module)).collect();
        modules.sort_unstable_by_key(|(used, _)| *used);
        for (_, module) in modules {
            if budget.used() <= bytes {
                return;
            }
            module.forget();
        }
    }
}
