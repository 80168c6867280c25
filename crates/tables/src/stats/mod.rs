//! Statistics about the recording and the import.

mod list;

use std::collections::BTreeMap;

pub use self::list::Stat;

use crate::schema::{StatsRow, StatsTable};
use crate::strings::StringPool;

/// The severity of a value other than 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// No problem.
    Info,
    /// A condition that may be unexpected.
    Notice,
    /// Data is missing.
    DataLoss,
    /// A fault.
    Error,
}

/// The origin of a statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The recording.
    Trace,
    /// The import.
    Analysis,
}

/// The scope of a statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The whole import.
    Global,
    /// A file.
    Trace,
    /// A machine, in all files.
    MachineOnly,
    /// A machine in a file.
    Machine,
}

macro_rules! define {
    ($( $name:ident, $key:ident, $severity:ident, $source:ident, $scope:ident; )+) => {
        /// Names a number of the table `stats`.
        #[allow(non_camel_case_types, missing_docs)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Stat {
            $( $name, )+
        }

        impl Stat {
            /// All of them, in the order of their keys.
            pub const ALL: &[Self] = &[$( Self::$name, )+];

            /// Returns the name.
            pub fn name(self) -> &'static str {
                match self {
                    $( Self::$name => stringify!($name), )+
                }
            }

            /// Returns true if there are several, one for each CPU, buffer or the like.
            pub(crate) fn is_indexed(self) -> bool {
                match self {
                    $( Self::$name => stringify!($key).len() == "indexed".len(), )+
                }
            }

            /// Returns the severity of values other than 0.
            pub fn severity(self) -> Severity {
                match self {
                    $( Self::$name => Severity::$severity, )+
                }
            }

            /// Returns the origin.
            pub fn source(self) -> Source {
                match self {
                    $( Self::$name => Source::$source, )+
                }
            }

            /// Returns the scope.
            pub fn scope(self) -> Scope {
                match self {
                    $( Self::$name => Scope::$scope, )+
                }
            }
        }
    };
}

use define;

impl Severity {
    /// Returns the name in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Notice => "notice",
            Self::DataLoss => "data_loss",
            Self::Error => "error",
        }
    }
}

impl Source {
    /// Returns the name in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Analysis => "analysis",
        }
    }
}

/// The descriptions of all statistics, in the order of their keys: `NAME: TEXT`.
const DESCRIPTIONS: &str = include_str!("descriptions.txt");

/// Returns the description in a line.
fn description(line: &str) -> &str {
    line.split_once(": ").map_or("", |(_, text)| text)
}

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
        for (stat, line) in Stat::ALL.iter().copied().zip(DESCRIPTIONS.lines()) {
            let description = strings.intern(description(line));
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_statistics_are_described() {
        let lines: Vec<_> = DESCRIPTIONS.lines().collect();
        let names = lines.iter().filter_map(|line| line.split_once(": "));
        let names: Vec<_> = names.map(|(name, _)| name).collect();
        let all: Vec<_> = Stat::ALL.iter().map(|stat| stat.name()).collect();
        assert_eq!(names, all);
        assert!(lines.iter().all(|line| description(line).ends_with('.')));
    }
}
