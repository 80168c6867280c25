//! Dynamic kernel events: probes at functions of the kernel and of programs.
//!
//! Such events belong to the whole kernel, not to a tracefs instance. Their group contains the id
//! of the process that created them, so that recordings do not share them, and the remains of a
//! killed process are recognised.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::tracefs::{Tracefs, TracefsError};

/// The prefix of this program's groups, before the process id.
const PREFIX: &str = "ferretto_";

/// The longest name that the kernel accepts.
const MAX_NAME: usize = 60;

/// The location of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeLocation {
    /// A function of the kernel.
    Kernel(String),
    /// An offset in a file, in bytes.
    Program(PathBuf, u64),
}

/// A wanted event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DynamicEvent {
    name: String,
    location: ProbeLocation,
    is_return: bool,
}

impl DynamicEvent {
    /// Creates an event at a location, or at the return from it. Its name is `called` with all
    /// characters but letters and digits replaced.
    pub fn new(called: &str, location: ProbeLocation, is_return: bool) -> Self {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let mut name: String = called.chars().take(MAX_NAME).map(plain).collect();
        if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            name.insert(0, '_');
        }
        Self {
            name,
            location,
            is_return,
        }
    }

    /// Returns the file that lists events of this kind.
    fn list(&self) -> &'static str {
        match self.location {
            ProbeLocation::Kernel(_) => KPROBES,
            ProbeLocation::Program(..) => UPROBES,
        }
    }

    /// Returns the line that creates the event.
    fn line(&self, group: &str) -> String {
        let kind = if self.is_return { 'r' } else { 'p' };
        let name = &self.name;
        match &self.location {
            ProbeLocation::Kernel(function) => format!("{kind}:{group}/{name} {function}"),
            ProbeLocation::Program(path, offset) => {
                format!("{kind}:{group}/{name} {}:{offset:#x}", path.display())
            }
        }
    }
}

const KPROBES: &str = "kprobe_events";
const UPROBES: &str = "uprobe_events";

/// The reason why an event cannot be created.
#[derive(Debug)]
pub enum DynamicError {
    /// This user has no access to a tracefs.
    Tracefs(TracefsError),
    /// The kernel does not support events of this kind.
    Absent(&'static str),
    /// The kernel rejected the event.
    Refused(String, io::Error),
    /// The path of a program cannot be passed to the kernel.
    BadPath(PathBuf),
}

impl fmt::Display for DynamicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tracefs(error) => error.fmt(f),
            Self::Absent(KPROBES) => f.write_str(
                "this kernel has no probes at its functions: it was built without CONFIG_KPROBE_EVENTS, so tracefs \
                 has no kprobe_events; --event records the events that it has",
            ),
            Self::Absent(list) => write!(
                f,
                "this kernel has no probes in programs: it was built without CONFIG_UPROBE_EVENTS, so tracefs has no {list}"
            ),
            Self::Refused(line, error) => write!(f, "the kernel refuses the probe \"{line}\": {error}"),
            Self::BadPath(path) => write!(
                f,
                "the kernel takes no path with white space or other than text: {}; make a link to it",
                path.display()
            ),
        }
    }
}

impl std::error::Error for DynamicError {}

/// Returns the group of the events of this process.
pub(crate) fn dynamic_group() -> String {
    format!("{PREFIX}{}", std::process::id())
}

/// Returns true if a group is one of this program's.
pub(super) fn is_dynamic_group(group: &str) -> bool {
    group.starts_with(PREFIX)
}

/// Returns the names of events, as `group/name`. Duplicates are numbered.
pub fn dynamic_names(events: &[DynamicEvent]) -> Vec<String> {
    let group = dynamic_group();
    unique(events)
        .map(|event| format!("{group}/{}", event.name))
        .collect()
}

/// Returns the events with unique names.
fn unique(events: &[DynamicEvent]) -> impl Iterator<Item = DynamicEvent> {
    events.iter().enumerate().map(|(index, event)| {
        let mut event = event.clone();
        let before = events.iter().take(index);
        let same = before.filter(|other| other.name == event.name).count();
        if same > 0 {
            event.name = format!("{}_{}", event.name, same + 1);
        }
        event
    })
}

/// Kernel events created by this process, removed on drop.
#[derive(Debug)]
pub struct DynamicEvents {
    fs: Tracefs,
    made: Vec<DynamicEvent>,
}

impl DynamicEvents {
    /// Creates events, after removing those of killed processes.
    ///
    /// # Errors
    ///
    /// Fails if the kernel does not support or rejects one of the events; then none is created.
    pub fn create(events: &[DynamicEvent]) -> Result<Self, DynamicError> {
        let fs = Tracefs::find_or_mount().map_err(DynamicError::Tracefs)?;
        remove_orphans(&fs);
        let mut made = Self {
            fs,
            made: Vec::new(),
        };
        let group = dynamic_group();
        for event in unique(events) {
            if let ProbeLocation::Program(path, _) = &event.location
                && !is_parsable(path)
            {
                return Err(DynamicError::BadPath(path.clone()));
            }
            let line = event.line(&group);
            match made.fs.append(event.list(), &line) {
                Ok(()) => made.made.push(event),
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound
                        && !made.fs.root().join(event.list()).exists() =>
                {
                    return Err(DynamicError::Absent(event.list()));
                }
                Err(error) => return Err(DynamicError::Refused(line, error)),
            }
        }
        Ok(made)
    }
}

impl Drop for DynamicEvents {
    fn drop(&mut self) {
        let group = dynamic_group();
        for event in &self.made {
            remove(&self.fs, event.list(), &format!("{group}/{}", event.name));
        }
    }
}

/// Returns true if the kernel can parse a path in its list.
fn is_parsable(path: &Path) -> bool {
    let text = path.to_str();
    text.is_some_and(|text| !text.contains(|c: char| c.is_whitespace() || c.is_control()))
}

fn remove(fs: &Tracefs, list: &str, event: &str) {
    // The kernel refuses while the event is enabled elsewhere; the next recording tries again.
    let _ = fs.append(list, &format!("-:{event}"));
}

/// Removes the events of ended processes.
pub(super) fn remove_orphans(fs: &Tracefs) {
    for list in [KPROBES, UPROBES] {
        let text = fs.read(list).unwrap_or_default();
        for event in text.lines().filter_map(event_of) {
            if owner(event).is_some_and(|pid| !crate::procfs::is_alive(pid)) {
                remove(fs, list, event);
            }
        }
    }
}

/// Returns the event of a line, `group/name`. Lines have the form `p:group/name location`.
fn event_of(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(':')?;
    rest.split_whitespace().next()
}

/// Returns the process that created an event.
fn owner(event: &str) -> Option<u32> {
    let (group, _) = event.split_once('/')?;
    group.strip_prefix(PREFIX)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_unique_names_and_their_owner_in_the_group() {
        let of = |called| DynamicEvent::new(called, ProbeLocation::Kernel("f".to_owned()), false);
        let names = dynamic_names(&[of("a::b<T>"), of("0x12"), of("a::b<T>")]);
        let group = dynamic_group();
        assert_eq!(
            names,
            [
                format!("{group}/a__b_T_"),
                format!("{group}/_0x12"),
                format!("{group}/a__b_T__2"),
            ]
        );
        assert_eq!(owner(&names[0]), Some(std::process::id()));
        assert_eq!(owner("kprobes/x"), None);
        let line =
            DynamicEvent::new("x", ProbeLocation::Program("/bin/sh".into(), 16), true).line("g");
        assert_eq!(line, "r:g/x /bin/sh:0x10");
        assert_eq!(event_of(&line), Some("g/x"));
    }

    #[test]
    fn paths_that_the_kernel_cannot_parse_are_rejected() {
        assert!(is_parsable(Path::new("/usr/bin/app")));
        assert!(!is_parsable(Path::new("/usr/bin/my app")));
    }
}
