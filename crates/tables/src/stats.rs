//! Statistics about the recording and the import.

use std::collections::BTreeMap;
use std::io;

use ferretto_format::health::Health;
pub use ferretto_format::stat::{Scope, Severity, Source, Stat};

use crate::saved::{Reader, Saved, Writer, check};
use crate::schema::{StatsRow, StatsTable};
use crate::strings::StringPool;

/// The maximum number of indexed values, to bound memory.
const MAX_NUMBERS: usize = 1 << 18;

/// The statistics of an import.
#[derive(Debug, Default)]
pub(crate) struct StatsTracker {
    /// The values by machine, statistic and index.
    values: BTreeMap<(u32, Stat, Option<i64>), i64>,
    /// The current machine.
    machine: u32,
    /// The number of machines.
    machines: u32,
}

impl StatsTracker {
    /// Sets the current machine.
    #[inline]
    pub(crate) fn set_machine(&mut self, machine: u32) {
        self.machine = machine;
        self.machines = self.machines.max(machine + 1);
    }

    /// Adds to a value.
    pub(crate) fn add(&mut self, stat: Stat, value: i64) {
        let known = self.value(stat, None);
        *known = known.saturating_add(value);
    }

    /// Adds to an indexed value.
    pub(crate) fn add_indexed(&mut self, stat: Stat, index: i64, value: i64) {
        let known = self.value(stat, Some(index));
        *known = known.saturating_add(value);
    }

    /// Sets a value.
    pub(crate) fn set(&mut self, stat: Stat, value: i64) {
        *self.value(stat, None) = value;
    }

    /// Sets an indexed value.
    pub(crate) fn set_indexed(&mut self, stat: Stat, index: i64, value: i64) {
        *self.value(stat, Some(index)) = value;
    }

    /// Returns a value of the current machine.
    pub(crate) fn get(&self, stat: Stat, index: Option<i64>) -> Option<i64> {
        self.values.get(&self.key(stat, index)).copied()
    }

    /// Returns true if a statistic is not 0 for any index and machine.
    pub(crate) fn has_any(&self, stat: Stat) -> bool {
        self.values
            .iter()
            .any(|((_, known, _), value)| *known == stat && *value != 0)
    }

    fn key(&self, stat: Stat, index: Option<i64>) -> (u32, Stat, Option<i64>) {
        let machine = match stat.scope() {
            Scope::Machine | Scope::MachineOnly => self.machine,
            Scope::Global | Scope::Trace => 0,
        };
        (machine, stat, index)
    }

    fn value(&mut self, stat: Stat, index: Option<i64>) -> &mut i64 {
        let mut key = self.key(stat, index);
        if self.values.len() >= MAX_NUMBERS && !self.values.contains_key(&key) {
            key.2 = index.and(Some(-1));
        }
        self.values.entry(key).or_insert(0)
    }

    /// Writes all values into the table. Statistics without index are included even if they are 0.
    pub(crate) fn finish(&self, table: &mut StatsTable, strings: &mut StringPool) {
        for stat in Stat::ALL.iter().copied() {
            let description = strings.intern(stat.description());
            let machines = match stat.scope() {
                Scope::Machine | Scope::MachineOnly => self.machines.max(1),
                Scope::Global | Scope::Trace => 1,
            };
            for machine in 0..machines {
                let mut row = |idx, value| {
                    let scope = stat.scope();
                    table.push(StatsRow {
                        name: strings.intern(stat.name()),
                        key: stat as i64,
                        idx,
                        severity: strings.intern(stat.severity().as_str()),
                        source: strings.intern(stat.source().as_str()),
                        value,
                        description,
                        machine_id: matches!(scope, Scope::Machine | Scope::MachineOnly)
                            .then_some(machine),
                        trace_id: matches!(scope, Scope::Machine | Scope::Trace).then_some(0),
                    });
                };
                if !stat.is_indexed() {
                    let value = self.values.get(&(machine, stat, None));
                    row(None, value.copied().unwrap_or(0));
                    continue;
                }
                let all = (machine, stat, None)..=(machine, stat, Some(i64::MAX));
                for ((_, _, index), value) in self.values.range(all) {
                    row(*index, *value);
                }
            }
        }
    }

    /// Returns the data of the file that the tables leave out.
    pub(crate) fn health(&self) -> Health {
        let mut health = Health::default();
        for ((_, stat, _), value) in &self.values {
            health.add(*stat, u64::try_from(*value).unwrap_or(0));
        }
        health
    }
}

impl Saved for StatsTracker {
    fn save(&self, writer: &mut Writer<'_>) -> io::Result<()> {
        writer.number(self.machines.into());
        writer.number(self.values.len() as u64);
        for ((machine, stat, index), value) in &self.values {
            writer.number((*machine).into());
            writer.number(*stat as u64);
            writer.optional(*index);
            writer.signed(*value);
        }
        Ok(())
    }

    fn load(reader: &mut Reader) -> io::Result<Self> {
        let mut stats = Self {
            machines: reader.small()?,
            ..Self::default()
        };
        for _ in 0..reader.count()? {
            let machine = reader.small()?;
            let number = reader.number()?;
            let stat = Stat::ALL.iter().find(|stat| **stat as u64 == number);
            check(stat.is_some())?;
            let (index, value) = (reader.optional()?, reader.signed()?);
            stats
                .values
                .extend(stat.map(|stat| ((machine, *stat, index), value)));
        }
        Ok(stats)
    }
}
