//! Names and numbers of system calls, and the kernel filters made of them.

use std::collections::BTreeSet;

use ferretto_format::kernel_names::Architecture;

/// The system calls that return a new file descriptor.
const OPENING: [&str; 6] = ["open", "openat", "socket", "dup", "dup2", "dup3"];

/// Returns the number of `sys_<name>` on this machine.
pub(super) fn number(event: &str) -> Option<i64> {
    let wanted = event.strip_prefix("sys_")?;
    number_of(wanted)
}

fn number_of(wanted: &str) -> Option<i64> {
    let mut all = Architecture::own()?.system_calls();
    let (_, number) = all.find(|(name, _)| *name == wanted)?;
    Some(number.into())
}

/// Numbers of the system calls that return a new file descriptor.
pub(super) fn opening() -> Vec<i64> {
    OPENING.iter().filter_map(|name| number_of(name)).collect()
}

/// The system calls of one data source, or of all together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Wanted {
    /// No system calls.
    #[default]
    None,
    /// Only these numbers; empty if all names are unknown.
    Only(BTreeSet<i64>),
    /// All system calls.
    All,
}

impl Wanted {
    /// Returns the union of two sets.
    pub fn union(self, other: &Self) -> Self {
        match (self, other) {
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::None, other) => other.clone(),
            (mine, Self::None) => mine,
            (Self::Only(mine), Self::Only(other)) => Self::Only(&mine | other),
        }
    }

    /// Returns the text for the kernel's `filter` files; `0` removes a filter.
    pub fn filter(&self) -> String {
        match self {
            Self::None | Self::All => "0".to_owned(),
            // No system call has this number.
            Self::Only(ids) if ids.is_empty() => "id == -1".to_owned(),
            Self::Only(ids) => {
                let terms: Vec<String> = ids.iter().map(|id| format!("id == {id}")).collect();
                terms.join(" || ")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn numbers_are_those_of_this_machine() {
        assert_eq!(number("sys_openat"), Some(257));
        assert_eq!(number("sys_read"), Some(0));
        assert_eq!(number("openat"), None);
        assert_eq!(number("sys_nonsense"), None);
        assert_eq!(opening(), [2, 257, 41, 32, 33, 292]);
    }

    #[test]
    fn filters_are_in_ascending_order_and_widen() {
        let only = |ids: &[i64]| Wanted::Only(ids.iter().copied().collect());
        assert_eq!(only(&[5, 2]).filter(), "id == 2 || id == 5");
        assert_eq!(only(&[5]).union(&only(&[1])).filter(), "id == 1 || id == 5");
        assert_eq!(only(&[5]).union(&Wanted::All).filter(), "0");
        assert_eq!(Wanted::None.union(&only(&[5])), only(&[5]));
        assert_eq!(only(&[]).filter(), "id == -1");
    }
}
