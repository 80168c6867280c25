//! Kernel names that have numbers in traces: counters of `/proc` and system calls.

static MEMINFO: &str = include_str!("../data/meminfo.txt");
static VMSTAT: &str = include_str!("../data/vmstat.txt");
static SYSTEM_CALLS: &str = include_str!("../data/syscalls.tsv");

/// Returns the keys of `/proc/meminfo` that have a counter, with their numbers.
pub fn meminfo_keys() -> impl Iterator<Item = (&'static str, u64)> {
    lines(MEMINFO).zip(1..)
}

/// Returns the keys of `/proc/vmstat` that have a counter, with their numbers.
pub fn vmstat_keys() -> impl Iterator<Item = (&'static str, u64)> {
    lines(VMSTAT).zip(1..)
}

/// Returns the lines of a list without comments.
pub(crate) fn lines(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.lines().filter(|line| !line.starts_with('#'))
}

/// An architecture with known system call numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "named as the kernel names them")]
pub enum Architecture {
    X86_64,
    Arm64,
}

impl Architecture {
    /// Returns the architecture of this program.
    pub const fn own() -> Option<Self> {
        if cfg!(target_arch = "x86_64") {
            Some(Self::X86_64)
        } else if cfg!(target_arch = "aarch64") {
            Some(Self::Arm64)
        } else {
            None
        }
    }

    /// Returns the architecture with this name in `uname`.
    pub fn of_machine(name: &str) -> Option<Self> {
        match name {
            "x86_64" => Some(Self::X86_64),
            "aarch64" => Some(Self::Arm64),
            _ => None,
        }
    }

    /// Returns the names of system calls, with their numbers.
    pub fn system_calls(self) -> impl Iterator<Item = (&'static str, u32)> {
        let column = match self {
            Self::X86_64 => 1,
            Self::Arm64 => 2,
        };
        lines(SYSTEM_CALLS).filter_map(move |line| {
            let mut columns = line.split('\t');
            let name = columns.next()?;
            Some((name, columns.nth(column - 1)?.parse().ok()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_schemas_numbers() {
        assert_eq!(meminfo_keys().next(), Some(("MemTotal", 1)));
        assert_eq!(vmstat_keys().next(), Some(("nr_free_pages", 1)));
        let find = |arch: Architecture, name| {
            let mut all = arch.system_calls();
            all.find(|(known, _)| *known == name)
        };
        assert_eq!(find(Architecture::X86_64, "write"), Some(("write", 1)));
        assert_eq!(find(Architecture::Arm64, "write"), Some(("write", 64)));
        assert_eq!(find(Architecture::Arm64, "open"), None);
        for arch in [Architecture::X86_64, Architecture::Arm64] {
            assert_eq!(find(arch, "cachestat"), Some(("cachestat", 451)));
            assert_eq!(find(arch, "fchmodat2"), Some(("fchmodat2", 452)));
            assert_eq!(find(arch, "mseal"), Some(("mseal", 462)));
            assert_eq!(find(arch, "listns"), Some(("listns", 470)));
            let newest = ("rseq_slice_yield", 471);
            assert_eq!(find(arch, newest.0), Some(newest));
        }
    }
}
