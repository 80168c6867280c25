//! The CPUs of this machine.

use std::fs;

use crate::config::{Kernel, Plan};

/// More CPUs than any kernel supports; longer lists are cut.
const MAX_CPUS: u32 = 8192;

/// Parses a list such as `0,2-4` to ascending numbers.
pub(crate) fn parse_list(text: &str) -> Vec<u32> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) else {
            continue;
        };
        numbers.extend((first..=last).take_while(|&number| number < MAX_CPUS));
    }
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Returns the online CPUs, ascending.
pub fn online(kernel: &Kernel) -> Vec<u32> {
    let root = kernel.sysfs.join("devices/system/cpu");
    if let Ok(text) = fs::read_to_string(root.join("online")) {
        return parse_list(&text);
    }
    // Without that file: those with a directory, except those marked as offline.
    let entries = fs::read_dir(&root).into_iter().flatten().flatten();
    let mut cpus: Vec<u32> = entries
        .filter_map(|entry| {
            entry
                .file_name()
                .to_str()?
                .strip_prefix("cpu")?
                .parse()
                .ok()
        })
        .filter(|cpu| {
            let state = fs::read_to_string(root.join(format!("cpu{cpu}/online")));
            match state {
                Ok(state) => state.starts_with('1'),
                Err(error) => error.kind() == std::io::ErrorKind::NotFound,
            }
        })
        .collect();
    cpus.sort_unstable();
    cpus
}

impl Plan {
    /// Returns the CPUs to count on: those that are online, selected by the config, and supported
    /// by all events.
    ///
    /// To follow CPU hotplug, call this regularly, and open or drop a
    /// [`Reader`](crate::event::Reader).
    pub fn online_cpus(&self, kernel: &Kernel) -> Vec<u32> {
        let cpus = &self.cpus;
        let mut chosen = online(kernel);
        chosen.retain(|cpu| cpus.targets.is_empty() || cpus.targets.contains(cpu));
        for event in self.events() {
            chosen.retain(|cpu| event.cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu)));
        }
        if !cpus.id_prefixes.is_empty() {
            let ids = arm_ids(kernel);
            let wanted = |id: &str| {
                let mut prefixes = cpus.id_prefixes.iter();
                !id.is_empty() && prefixes.any(|prefix| id.as_bytes().starts_with(prefix))
            };
            chosen.retain(|cpu| ids.iter().any(|(number, id)| number == cpu && wanted(id)));
        }
        chosen
    }
}

/// Returns the number and Arm id of each CPU in `/proc/cpuinfo`: implementer, part, variant and
/// revision in hexadecimal digits.
fn arm_ids(kernel: &Kernel) -> Vec<(u32, String)> {
    let text = fs::read_to_string(kernel.procfs.join("cpuinfo")).unwrap_or_default();
    text.split("\n\n").filter_map(arm_id).collect()
}

fn arm_id(block: &str) -> Option<(u32, String)> {
    let field = |name: &str| {
        block.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim())
        })
    };
    let number = |name: &str| {
        let text = field(name)?;
        match text.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    };
    let cpu = number("processor")?;
    let (Some(implementer), Some(part)) = (number("CPU implementer"), number("CPU part")) else {
        return Some((cpu, String::new()));
    };
    let mut id = format!("{implementer:x}{part:x}");
    if let Some(variant) = number("CPU variant") {
        id += &format!("{variant:x}");
        if let Some(revision) = number("CPU revision") {
            id += &format!("{revision:x}");
        }
    }
    Some((cpu, id))
}
