//! Metadata of the trace.

use crate::schema::MetadataRow;
use crate::store::Store;
use crate::strings::StringId;

/// The scope of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FactScope {
    /// The whole trace.
    Global,
    /// The current file.
    Trace,
    /// The current machine.
    Machine,
    /// The current machine in the current file.
    MachineAndTrace,
}

/// The value of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fact {
    /// An integer.
    Int(i64),
    /// A text.
    Text(StringId),
}

/// The maximum number of entries.
const MAX_FACTS: u32 = 1 << 16;

/// The metadata of the trace.
#[derive(Debug, Default)]
pub(crate) struct MetadataTracker;

impl MetadataTracker {
    /// Sets an entry that exists only once. Replaces an earlier value.
    pub(crate) fn set(&mut self, store: &mut Store, name: &str, fact: Fact, scope: FactScope) {
        let row = Self::row(store, name, "single", fact, scope);
        let table = &mut store.tables.metadata;
        for id in 0..table.len() {
            let same = table.name.get(id) == row.name
                && table.machine_id.get(id) == row.machine_id
                && table.trace_id.get(id) == row.trace_id;
            if same {
                table.int_value.set(id, row.int_value);
                table.str_value.set(id, row.str_value);
                return;
            }
        }
        self.push(store, row);
    }

    /// Changes the scope of a global entry to the current file.
    pub(crate) fn restrict_to_file(&mut self, store: &mut Store, name: &str) {
        let Some(name) = store.strings.find(name) else {
            return;
        };
        let table = &mut store.tables.metadata;
        let mut rows = 0..table.len();
        let is_global = |id| table.machine_id.get(id).is_none() && table.trace_id.get(id).is_none();
        if let Some(id) = rows.find(|id| table.name.get(*id) == name && is_global(*id)) {
            table.trace_id.set(id, Some(store.trace_file));
        }
    }

    /// Adds an entry that may exist several times.
    pub(crate) fn add(&mut self, store: &mut Store, name: &str, fact: Fact, scope: FactScope) {
        let row = Self::row(store, name, "multi", fact, scope);
        self.push(store, row);
    }

    /// Returns an entry of the current machine.
    pub(crate) fn get(&self, store: &Store, name: &str) -> Option<Fact> {
        let name = store.strings.find(name)?;
        let table = &store.tables.metadata;
        let known = (0..table.len()).find(|id| {
            table.name.get(*id) == name
                && table
                    .machine_id
                    .get(*id)
                    .is_none_or(|machine| machine == store.machine)
        })?;
        let row = table.row(known)?;
        Some(match row.int_value {
            Some(value) => Fact::Int(value),
            None => Fact::Text(row.str_value),
        })
    }

    fn row(
        store: &mut Store,
        name: &str,
        key_type: &str,
        fact: Fact,
        scope: FactScope,
    ) -> MetadataRow {
        use FactScope::{Machine, MachineAndTrace, Trace};
        let (int_value, str_value) = match fact {
            Fact::Int(value) => (Some(value), StringId::NULL),
            Fact::Text(text) => (None, text),
        };
        MetadataRow {
            name: store.strings.intern(name),
            key_type: store.strings.intern(key_type),
            int_value,
            str_value,
            machine_id: matches!(scope, Machine | MachineAndTrace).then_some(store.machine),
            trace_id: matches!(scope, Trace | MachineAndTrace).then_some(store.trace_file),
        }
    }

    fn push(&mut self, store: &mut Store, row: MetadataRow) {
        if store.tables.metadata.len() < MAX_FACTS {
            store.tables.metadata.push(row);
        }
    }
}
