//! What is known of an ELF file that some process has mapped.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ferretto_elf::Elf;
use rustc_hash::FxHashMap;

use crate::budget::Budget;
use crate::cfi::{Kind, Rule, Table};
use crate::registers::Machine;

/// Rules of a file that are kept; then all are dropped and found again.
const MAX_RULES: usize = 1 << 16;

/// Bytes of unwind tables and symbol tables that may be in memory at a time, and those that are.
#[derive(Debug)]
pub(crate) struct TableMemory {
    used: AtomicUsize,
    limit: usize,
}

impl TableMemory {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            used: AtomicUsize::new(0),
            limit,
        })
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether tables that nobody uses should make room for others.
    pub(crate) fn is_scarce(&self) -> bool {
        self.used() > self.limit / 2
    }

    fn give_back(&self, amount: usize) {
        self.used.fetch_sub(amount, Ordering::Relaxed);
    }

    fn take(&self, amount: usize) -> bool {
        let before = self.used.fetch_add(amount, Ordering::Relaxed);
        let fits = before.saturating_add(amount) <= self.limit;
        if !fits {
            self.used.fetch_sub(amount, Ordering::Relaxed);
        }
        fits
    }
}

/// An ELF file: shared by all processes that have it mapped.
pub(crate) struct Module {
    elf: Elf,
    /// Read when first needed.
    table: OnceLock<Option<Table>>,
    /// What was found in the table, by address in the file.
    rules: Mutex<FxHashMap<u64, Rule>>,
    /// Bytes taken for the symbol tables; `None` if there was no room for them.
    symbols: OnceLock<Option<usize>>,
    memory: Arc<TableMemory>,
}

impl Drop for Module {
    fn drop(&mut self) {
        let table = self.table.get().and_then(Option::as_ref);
        let symbols = self.symbols.get().copied().flatten();
        let used = table.map_or(0, Table::memory) + symbols.unwrap_or(0);
        self.memory.give_back(used);
    }
}

impl Module {
    pub(crate) fn new(elf: Elf, memory: Arc<TableMemory>) -> Self {
        Self {
            elf,
            table: OnceLock::new(),
            rules: Mutex::new(FxHashMap::default()),
            symbols: OnceLock::new(),
            memory,
        }
    }

    pub(crate) fn elf(&self) -> &Elf {
        &self.elf
    }

    /// The unwind tables; `None` if they are too large, damaged, of another machine, or there is no memory for them.
    pub(crate) fn table(&self, machine: Machine) -> Option<&Table> {
        self.table
            .get_or_init(|| {
                if self.elf.machine() != machine.elf_machine() {
                    return None;
                }
                let table = Table::read(&self.elf, machine).ok()?;
                self.memory.take(table.memory()).then_some(table)
            })
            .as_ref()
    }

    /// The name of the function at an address in the file; none if there is no room for the symbol tables.
    pub(crate) fn function_name(&self, address: u64) -> Option<&str> {
        (*self.symbols.get_or_init(|| {
            let size = usize::try_from(self.elf.symbols_size()).ok()?;
            self.memory.take(size).then_some(size)
        }))?;
        self.elf.symbols().lookup(address).map(|found| found.0)
    }

    /// The rule for an address in the file.
    pub(crate) fn rule(&self, address: u64, machine: Machine, budget: &mut Budget) -> Rule {
        let Some(table) = self.table(machine) else {
            return Rule::bare(Kind::Missing);
        };
        let rules = || self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rule) = rules().get(&address) {
            return *rule;
        }
        let rule = table.rule(address, budget);
        if budget.is_exhausted() {
            return rule;
        }
        let mut rules = rules();
        if rules.len() >= MAX_RULES {
            rules.clear();
        }
        rules.insert(address, rule);
        rule
    }
}
