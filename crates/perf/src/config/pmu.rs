//! Performance monitoring units in sysfs
//! (`Documentation/ABI/testing/sysfs-bus-event_source-devices`).

use std::fs;
use std::path::PathBuf;

use super::Kernel;
use crate::cpus::parse_list;

/// A performance monitoring unit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pmu {
    /// Its type, for `perf_event_attr.type`.
    pub(super) r#type: u32,
    /// The CPUs on which it counts; any CPU if `None`.
    pub(super) cpus: Option<Vec<u32>>,
    /// The meaningful bits of `config`, `config1` and `config2`; `None` if the PMU does not list
    /// them.
    pub(super) meaning: Option<[u64; 3]>,
}

/// Returns the directory of all PMUs.
pub(super) fn directory(kernel: &Kernel) -> PathBuf {
    kernel.sysfs.join("bus/event_source/devices")
}

/// Finds a PMU by name. The error is a clause.
pub(super) fn find(kernel: &Kernel, name: &str) -> Result<Pmu, String> {
    if name.is_empty() || name.contains(['/', '\0']) || name.starts_with("..") || name == "." {
        return Err("not a plain name".to_owned());
    }
    let home = directory(kernel).join(name);
    let path = home.join("type");
    let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
    let r#type = text
        .trim()
        .parse()
        .map_err(|_| format!("{} holds no number", path.display()))?;
    // `cpumask` is for machine-wide PMUs, which one CPU counts for all; `cpus` is for one kind
    // of core.
    let cpus = ["cpumask", "cpus"]
        .iter()
        .find_map(|file| fs::read_to_string(home.join(file)).ok())
        .map(|text| parse_list(&text))
        .filter(|cpus| !cpus.is_empty());
    let meaning = meaning(&home.join("format"));
    Ok(Pmu {
        r#type,
        cpus,
        meaning,
    })
}

/// Returns the bits in the files in `format`, such as `config:0-7,32-35`.
fn meaning(format: &std::path::Path) -> Option<[u64; 3]> {
    let mut bits = [0; 3];
    for entry in fs::read_dir(format).ok()?.flatten() {
        let Ok(text) = fs::read_to_string(entry.path()) else {
            continue;
        };
        let Some((word, ranges)) = text.trim().split_once(':') else {
            continue;
        };
        let word = match word {
            "config" => &mut bits[0],
            "config1" => &mut bits[1],
            "config2" => &mut bits[2],
            _ => continue,
        };
        for bit in parse_list(ranges) {
            *word |= 1u64.checked_shl(bit).unwrap_or(0);
        }
    }
    Some(bits)
}
