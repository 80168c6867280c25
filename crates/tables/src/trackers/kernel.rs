//! Properties of the kernels of machines.

use rustc_hash::FxHashMap;

use crate::store::Store;
use crate::strings::StringId;

/// The version of a kernel: major and minor.
pub(crate) type Version = (u16, u16);

/// The kernels of all machines.
#[derive(Debug, Default)]
pub(crate) struct KernelTracker {
    machines: FxHashMap<u32, Kernel>,
}

/// The kernel of a machine.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Kernel {
    /// The version, if it is known.
    pub(crate) version: Option<Version>,
    /// The architecture in the notation of `uname`, if it is known.
    pub(crate) arch: StringId,
    /// The page size in bytes.
    pub(crate) page_size: Option<u32>,
}

impl KernelTracker {
    /// Returns the kernel of the current machine.
    pub(crate) fn get(&self, store: &Store) -> Kernel {
        self.machines
            .get(&store.machine)
            .copied()
            .unwrap_or_default()
    }

    /// Sets the kernel of the current machine.
    pub(crate) fn set(&mut self, store: &Store, kernel: Kernel) {
        self.machines.insert(store.machine, kernel);
    }
}

/// Parses the version of a release such as `6.1.0-18-amd64`.
pub(crate) fn version(release: &str) -> Option<Version> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let major = numbers.next()?.parse().ok()?;
    let minor = numbers.next()?.parse().ok()?;
    Some((major, minor))
}

/// Returns the letters of a `prev_state` of `sched_switch`; `None` if it has bits that no kernel of
/// this version sets. Without a version, the bits of 4.4 apply: only old recordings have none.
pub(crate) fn state_letters(raw: u16, version: Option<Version>, out: &mut String) -> Option<()> {
    out.clear();
    let version = version.unwrap_or((4, 4));
    let mut add = |bit: u16, letter: char| {
        if raw & bit != 0 {
            out.push(letter);
        }
    };
    for (bit, letter) in [
        (1, 'S'),
        (2, 'D'),
        (4, 'T'),
        (8, 't'),
        (0x10, 'X'),
        (0x20, 'Z'),
    ] {
        add(bit, letter);
    }
    let preempted = match version {
        (5.., _) | (4, 14..) => {
            if raw & 0xfe00 != 0 {
                return None;
            }
            add(0x40, 'P');
            add(0x80, 'I');
            0x100
        }
        _ => {
            // An uninterruptible wait that does not count as load.
            if raw & 0x7ff == 0x402 {
                out.clear();
                out.push('I');
            } else {
                for (bit, letter) in [
                    (0x40, 'x'),
                    (0x80, 'K'),
                    (0x100, 'W'),
                    (0x200, 'P'),
                    (0x400, 'N'),
                ] {
                    add(bit, letter);
                }
            }
            if version >= (4, 8) { 0x1000 } else { 0x800 }
        }
    };
    if out.is_empty() {
        out.push('R');
        if raw & preempted != 0 {
            out.push('+');
        }
    } else {
        out.truncate(3);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters(raw: u16, version: Option<Version>) -> Option<String> {
        let mut out = String::new();
        state_letters(raw, version, &mut out).map(|()| out)
    }

    #[test]
    fn query_074_states_of_current_kernels_have_letters() {
        let expected = [
            (0, "R"),
            (1, "S"),
            (2, "D"),
            (0x80, "I"),
            (0x100, "R+"),
            (3, "SD"),
        ];
        for (raw, text) in expected {
            assert_eq!(letters(raw, Some((6, 1))).as_deref(), Some(text));
        }
        assert_eq!(letters(0x8000, Some((6, 1))), None);
    }

    #[test]
    fn states_of_older_kernels_have_letters() {
        let old = Some((4, 4));
        assert_eq!(letters(0x402, old).as_deref(), Some("I"));
        assert_eq!(letters(0x800, old).as_deref(), Some("R+"));
        assert_eq!(letters(0x1000, Some((4, 9))).as_deref(), Some("R+"));
        assert_eq!(letters(0x40 | 1, old).as_deref(), Some("Sx"));
        assert_eq!(letters(0x800, None).as_deref(), Some("R+"));
        assert_eq!(letters(0x100, None).as_deref(), Some("W"));
        assert_eq!(version("6.1.0-18-amd64"), Some((6, 1)));
        assert_eq!(version("5.10"), Some((5, 10)));
        assert_eq!(version("zen"), None);
    }
}
