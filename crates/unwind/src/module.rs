//! The tables of a mapped ELF file.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use ferretto_elf::{Elf, Symbols};
use rustc_hash::FxHashMap;

use crate::budget::Budget;
use crate::cfi::{Kind, Rule, Table};
use crate::memory_budget::MemoryBudget;
use crate::registers::Machine;

/// The largest number of cached rules of a file. Beyond it, all are dropped.
const MAX_RULES: usize = 1 << 16;
/// The memory of a cached rule.
const RULE_BYTES: usize = 48;

/// The largest number of cached names of a file. Beyond it, all are dropped.
const MAX_NAMES: usize = 1 << 13;
/// The memory of a cached name besides its bytes.
const NAME_BYTES: usize = 64;

/// An ELF file, shared by all processes that have it mapped.
///
/// Everything but its headers can be dropped at any time and is then read again.
pub(crate) struct Module {
    elf: Elf,
    /// Set if the file is read from a process's memory, which is gone when the process is.
    may_vanish: bool,
    /// The tables, read when first needed.
    table: Mutex<Found<Table>>,
    /// The cached rules by address in the file.
    rules: Mutex<FxHashMap<u64, Rule>>,
    symbols: Mutex<Found<Symbols>>,
    /// The cached names of functions.
    names: Mutex<Names>,
    used: AtomicU64,
    budget: Arc<MemoryBudget>,
}

#[derive(Default)]
struct Names {
    /// The names by address in the file.
    by_address: FxHashMap<u64, Option<Arc<str>>>,
    bytes: usize,
}

/// The state of a value that is looked up once.
enum Found<T> {
    NotYet,
    /// The value is missing, or does not fit into the budget.
    Nothing,
    /// The value and its size.
    Something(Arc<T>, usize),
}

impl<T> Found<T> {
    fn get(&self) -> Option<Arc<T>> {
        match self {
            Self::Something(found, _) => Some(Arc::clone(found)),
            Self::NotYet | Self::Nothing => None,
        }
    }

    fn forget(&mut self) -> usize {
        match std::mem::replace(self, Self::NotYet) {
            Self::Something(_, bytes) => bytes,
            Self::NotYet | Self::Nothing => 0,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        self.may_vanish = false;
        self.forget();
    }
}

impl Module {
    pub(crate) fn new(elf: Elf, may_vanish: bool, budget: Arc<MemoryBudget>) -> Self {
        Self {
            elf,
            may_vanish,
            table: Mutex::new(Found::NotYet),
            rules: Mutex::default(),
            symbols: Mutex::new(Found::NotYet),
            names: Mutex::default(),
            used: AtomicU64::new(budget.now()),
            budget,
        }
    }

    pub(crate) fn elf(&self) -> &Elf {
        &self.elf
    }

    /// Returns the time of the last use, on the clock of [`MemoryBudget`].
    pub(crate) fn last_used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Drops the tables and caches, except those that another thread is using.
    pub(crate) fn forget(&self) {
        let rules = try_lock(&self.rules).map_or(0, |mut rules| std::mem::take(&mut *rules).len());
        let symbols = try_lock(&self.symbols).map_or(0, |mut symbols| symbols.forget());
        let names = try_lock(&self.names).map_or(0, |mut names| std::mem::take(&mut *names).bytes);
        // The tables of a vanished file could not be read again.
        let table = try_lock(&self.table).filter(|_| !self.may_vanish);
        let table = table.map_or(0, |mut table| table.forget());
        self.budget
            .give_back(rules * RULE_BYTES + symbols + names + table);
    }

    /// Returns the unwind tables; `None` if they are too large, damaged, of another machine, or do
    /// not fit into the budget.
    pub(crate) fn table(&self, machine: Machine) -> Option<Arc<Table>> {
        let mut found = lock(&self.table);
        if matches!(*found, Found::NotYet) {
            *found = self.find_table(machine);
        }
        found.get()
    }

    fn find_table(&self, machine: Machine) -> Found<Table> {
        if self.elf.machine() != machine.elf_machine() {
            return Found::Nothing;
        }
        let Ok(table) = Table::read(&self.elf, machine, self.may_vanish) else {
            return Found::Nothing;
        };
        let bytes = table.memory() + self.elf.memory();
        if self.budget.take(bytes) {
            Found::Something(Arc::new(table), bytes)
        } else {
            Found::Nothing
        }
    }

    /// Returns the name of the function at an address in the file; `None` if the index does not fit
    /// into the budget.
    pub(crate) fn function_name(&self, address: u64) -> Option<Arc<str>> {
        self.used.store(self.budget.now(), Ordering::Relaxed);
        if let Some(name) = lock(&self.names).by_address.get(&address) {
            return name.clone();
        }
        let name = self.symbols()?.lookup(address);
        let name = name.map(|(name, _)| Arc::from(name));
        let bytes = NAME_BYTES + name.as_deref().map_or(0, str::len);
        if self.budget.take(bytes) {
            self.remember_name(address, name.clone(), bytes);
        }
        name
    }

    /// Caches a name whose memory is reserved.
    fn remember_name(&self, address: u64, name: Option<Arc<str>>, bytes: usize) {
        let mut names = lock(&self.names);
        let mut too_much = 0;
        if names.by_address.len() >= MAX_NAMES {
            too_much = std::mem::take(&mut *names).bytes;
        }
        if names.by_address.insert(address, name).is_none() {
            names.bytes += bytes;
        } else {
            too_much += bytes;
        }
        drop(names);
        self.budget.give_back(too_much);
    }

    fn symbols(&self) -> Option<Arc<Symbols>> {
        let mut found = lock(&self.symbols);
        if matches!(*found, Found::NotYet) {
            *found = self.find_symbols();
        }
        found.get()
    }

    fn find_symbols(&self) -> Found<Symbols> {
        let most = usize::try_from(self.elf.symbols_size()).unwrap_or(usize::MAX);
        if !self.budget.take(most) {
            return Found::Nothing;
        }
        let symbols = self.elf.read_symbols();
        let bytes = symbols.memory().min(most);
        self.budget.give_back(most - bytes);
        Found::Something(Arc::new(symbols), bytes)
    }

    /// Returns the rule for an address in the file.
    pub(crate) fn rule(&self, address: u64, machine: Machine, budget: &mut Budget) -> Rule {
        self.used.store(self.budget.now(), Ordering::Relaxed);
        if let Some(rule) = lock(&self.rules).get(&address) {
            return *rule;
        }
        let Some(table) = self.table(machine) else {
            return Rule::bare(Kind::Missing);
        };
        let rule = table.rule(address, budget);
        if !budget.is_exhausted() && self.budget.take(RULE_BYTES) {
            self.remember(address, rule);
        }
        rule
    }

    /// Caches a rule whose memory is reserved.
    fn remember(&self, address: u64, rule: Rule) {
        let mut rules = lock(&self.rules);
        let mut too_much = 0;
        if rules.len() >= MAX_RULES {
            too_much = std::mem::take(&mut *rules).len();
        }
        if rules.insert(address, rule).is_some() {
            // Another thread was first.
            too_much += 1;
        }
        drop(rules);
        self.budget.give_back(too_much * RULE_BYTES);
    }
}
