//! The histories of processes, from the kernel's records.
//!
//! A process that has ended, or executed another program, cannot be examined any more. But the
//! kernel reported its fork, the programs it executed and the code it mapped, and samples contain
//! the stack. So its callstacks can still be unwound.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use ferretto_unwind::Map;
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::{CWD, Mode, OFlags, fstat, openat};

/// The limit of events of all processes together; beyond it all are forgotten.
const MAX_EVENTS: usize = 1 << 16;
/// The limit of processes; beyond it all are forgotten.
const MAX_PROCESSES: usize = 1 << 15;
/// The limit of bytes of distinct paths; beyond it all is forgotten.
const MAX_PATHS: usize = 4 << 20;
/// The limit of anonymous maps per process.
const MAX_NAMELESS: usize = 64;
/// The limit of events per process.
const MAX_OF_PROCESS: usize = 4096;
/// The limit of ancestors to search: a process with unknown maps has its parent's.
const MAX_GENERATIONS: usize = 16;

/// An event in the life of a process.
#[derive(Debug, Clone)]
enum Event {
    /// The process was forked from another one.
    Forked(u32),
    /// The process executed another program.
    Executed,
    /// The process existed before the recording, with these maps.
    Found(Arc<[Map]>),
    Mapped(Box<Map>),
}

impl Event {
    /// Returns true if all previous maps are gone after the event.
    fn begins(&self) -> bool {
        !matches!(self, Self::Mapped(_))
    }
}

#[derive(Debug, Default)]
struct History {
    /// Sorted by time. Events arrive in any order, since the rings of different CPUs are read one
    /// after the other.
    events: Vec<(u64, Event)>,
    nameless: usize,
    /// The process that forked it.
    parent: Option<u32>,
}

impl History {
    /// Returns the range of events of the program that ran at `time`: its first event, and the end.
    fn span(&self, time: u64) -> (Option<usize>, usize) {
        let after = self.events.partition_point(|(at, _)| *at <= time);
        let begin = self.events[..after]
            .iter()
            .rposition(|(_, event)| event.begins());
        let next = self.events[after..]
            .iter()
            .position(|(_, event)| event.begins());
        (begin, next.map_or(self.events.len(), |next| after + next))
    }
}

/// A mapping of code, as the kernel reports it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mapped<'a> {
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) offset: u64,
    pub(crate) device: (u32, u32),
    pub(crate) inode: u64,
    pub(crate) path: &'a [u8],
}

/// The histories of all processes since the start of the recording.
#[derive(Debug, Default)]
pub(crate) struct Histories {
    processes: FxHashMap<u32, History>,
    events: usize,
    paths: FxHashSet<Arc<str>>,
    path_bytes: usize,
    /// Ended processes, each with a time before which events are obsolete once every ring has been
    /// read again, since no samples of that time are left.
    ended: [Vec<(u32, u64)>; 2],
    begun: [Vec<(u32, u64)>; 2],
    /// The root directory of this process.
    own_root: Option<Arc<OwnedFd>>,
}

impl Histories {
    pub(crate) fn forked(&mut self, pid: u32, parent: u32, time: u64) {
        self.add(pid, time, Event::Forked(parent));
        if let Some(history) = self.processes.get_mut(&pid) {
            history.parent = Some(parent);
        }
        self.begun[0].push((pid, time));
    }

    pub(crate) fn executed(&mut self, pid: u32, time: u64) {
        self.add(pid, time, Event::Executed);
        self.begun[0].push((pid, time));
    }

    pub(crate) fn ended(&mut self, pid: u32, time: u64) {
        self.ended[0].push((pid, time));
    }

    /// Records a mapping of a process. Returns the map for the unwinders; `None` if it is not kept.
    pub(crate) fn mapped(&mut self, pid: u32, time: u64, mapped: &Mapped<'_>) -> Option<&Map> {
        let end = mapped.start.checked_add(mapped.length)?;
        let is_nameless = mapped.inode == 0;
        if let Some(history) = self.processes.get_mut(&pid) {
            history.nameless += usize::from(is_nameless);
            let is_too_much = is_nameless && history.nameless > MAX_NAMELESS;
            if is_too_much || history.events.len() >= MAX_OF_PROCESS {
                return None;
            }
        }
        (mapped.start < end).then_some(())?;
        let map = Map {
            start: mapped.start,
            end,
            readable: true,
            writable: false,
            executable: true,
            offset: mapped.offset,
            device: mapped.device,
            inode: mapped.inode,
            name: self.path(mapped.path),
        };
        let at = self.add(pid, time, Event::Mapped(Box::new(map)));
        match self.processes.get(&pid)?.events.get(at)? {
            (_, Event::Mapped(map)) => Some(map),
            _ => None,
        }
    }

    fn path(&mut self, path: &[u8]) -> Arc<str> {
        let path = String::from_utf8_lossy(path);
        if let Some(known) = self.paths.get(&*path) {
            return Arc::clone(known);
        }
        let path: Arc<str> = path.into();
        self.path_bytes += path.len() + 32;
        self.paths.insert(Arc::clone(&path));
        path
    }

    /// Inserts an event by time. Returns its position.
    fn add(&mut self, pid: u32, time: u64, event: Event) -> usize {
        let is_too_much = self.events >= MAX_EVENTS
            || self.processes.len() >= MAX_PROCESSES
            || self.path_bytes >= MAX_PATHS;
        if is_too_much {
            let own_root = self.own_root.take();
            *self = Self {
                own_root,
                ..Self::default()
            };
        }
        let events = &mut self.processes.entry(pid).or_default().events;
        let at = events.partition_point(|(other, _)| *other <= time);
        events.insert(at, (time, event));
        self.events += 1;
        at
    }

    /// Drops the history that no sample can refer to any more, after every ring has been read.
    pub(crate) fn end_of_round(&mut self) {
        self.begun.swap(0, 1);
        for (pid, time) in std::mem::take(&mut self.begun[0]) {
            let Some(history) = self.processes.get_mut(&pid) else {
                continue;
            };
            let begin = history.span(time).0.unwrap_or(0);
            let before = history.events.drain(..begin).count();
            self.events -= before;
        }
        self.ended.swap(0, 1);
        for (pid, time) in std::mem::take(&mut self.ended[0]) {
            let known = self.processes.get(&pid);
            // Another process may have its id by now.
            let is_same = known.is_some_and(|history| history.span(time).1 == history.events.len());
            if is_same && let Some(history) = self.processes.remove(&pid) {
                self.events -= history.events.len();
            }
        }
    }

    /// Returns the start time of the program that ran in a process at `time`; 0 if unknown.
    pub(crate) fn begun_at(&self, pid: u32, time: u64) -> u64 {
        let begun = self.processes.get(&pid).and_then(|history| {
            let begin = history.span(time).0?;
            Some(history.events.get(begin)?.0)
        });
        begun.unwrap_or(0)
    }

    /// Returns the code that a process had mapped at `time`; `None` if unknown.
    pub(crate) fn code_at(&mut self, pid: u32, time: u64) -> Option<Vec<Map>> {
        let mut spans: Vec<(u32, u64)> = vec![(pid, time)];
        let mut maps = Vec::new();
        while spans.len() < MAX_GENERATIONS {
            let &(pid, time) = spans.last()?;
            let history = self.processes.get(&pid);
            let begin = history.and_then(|history| {
                let begin = history.span(time).0?;
                history.events.get(begin)
            });
            let (begun, event) = match begin {
                Some((begun, event)) => (*begun, event.clone()),
                // The process existed before the recording.
                None => (0, self.find(pid)?),
            };
            match event {
                Event::Forked(parent) => spans.push((parent, begun)),
                Event::Found(found) => {
                    maps.extend(found.iter().filter(|map| map.executable).cloned());
                    break;
                }
                Event::Executed | Event::Mapped(_) => break,
            }
        }
        // From the oldest generation on: later maps replace earlier ones.
        for (generation, &(pid, time)) in spans.iter().enumerate().rev() {
            let Some(history) = self.processes.get(&pid) else {
                continue;
            };
            let (begin, end) = history.span(time);
            let of_span = &history.events[begin.unwrap_or(0)..end];
            // The parent's mappings after the fork are not the child's.
            let until = if generation == 0 { u64::MAX } else { time };
            maps.extend(of_span.iter().filter_map(|(at, event)| match event {
                Event::Mapped(map) if *at <= until => Some((**map).clone()),
                _ => None,
            }));
        }
        (!maps.is_empty()).then_some(maps)
    }

    /// Examines a process from before the recording, if it has not executed another program since.
    fn find(&mut self, pid: u32) -> Option<Event> {
        let maps = Map::read_all(&File::open(format!("/proc/{pid}/maps")).ok()?).ok()?;
        let maps: Arc<[Map]> = maps.into_iter().filter(|map| map.executable).collect();
        if maps.is_empty() || maps.len() > MAX_OF_PROCESS {
            return None;
        }
        self.add(pid, 0, Event::Found(Arc::clone(&maps)));
        Some(Event::Found(maps))
    }

    /// Returns the directories in which file names of a process are looked up: the root of the
    /// process or of its closest living ancestor, and our own.
    pub(crate) fn roots(&mut self, pid: u32) -> Vec<Arc<OwnedFd>> {
        let open = |path: &str| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            openat(CWD, path, flags, Mode::empty()).ok().map(Arc::new)
        };
        let parent = |pid: &u32| self.processes.get(pid)?.parent;
        let forebears = std::iter::successors(Some(pid), parent).take(MAX_GENERATIONS);
        let mut open_roots = forebears.filter_map(|pid| open(&format!("/proc/{pid}/root")));
        let root = open_roots.next();
        if self.own_root.is_none() {
            self.own_root = open("/");
        }
        // Most processes share ours: one descriptor serves them all.
        let id = |root: &Arc<OwnedFd>| {
            let status = fstat(root).ok()?;
            Some((status.st_dev, status.st_ino))
        };
        let own = self.own_root.clone();
        let own_id = own.as_ref().and_then(id);
        let other = root.filter(|root| own_id.is_none() || id(root) != own_id);
        other.into_iter().chain(own).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(start: u64, path: &str) -> Mapped<'_> {
        Mapped {
            start,
            length: 0x1000,
            offset: 0,
            device: (8, 1),
            inode: 7,
            path: path.as_bytes(),
        }
    }

    fn names(histories: &mut Histories, pid: u32, time: u64) -> Vec<String> {
        let code = histories.code_at(pid, time);
        let names = code.unwrap_or_default().into_iter();
        names.map(|map| map.name.to_string()).collect()
    }

    /// Greater than all real ids.
    const SHELL: u32 = u32::MAX - 10;
    const CHILD: u32 = u32::MAX - 9;

    #[test]
    fn perf_029_a_child_has_its_parents_code_until_it_executes_a_program() {
        let mut all = Histories::default();
        all.executed(SHELL, 10);
        all.mapped(SHELL, 11, &mapped(0x1000, "/bin/sh"));
        // Records arrive in any order.
        all.mapped(CHILD, 41, &mapped(0x5000, "/bin/true"));
        all.executed(CHILD, 40);
        all.mapped(CHILD, 25, &mapped(0x3000, "/lib/plugin"));
        all.mapped(SHELL, 30, &mapped(0x2000, "/lib/later"));
        all.forked(CHILD, SHELL, 20);
        assert_eq!(names(&mut all, SHELL, 12), ["/bin/sh", "/lib/later"]);
        assert_eq!(names(&mut all, CHILD, 26), ["/bin/sh", "/lib/plugin"]);
        assert_eq!(names(&mut all, CHILD, 45), ["/bin/true"]);
        assert_eq!(names(&mut all, CHILD, 5), [""; 0]);
        // Ended processes are forgotten when all rings have been read twice.
        all.ended(SHELL, 50);
        all.end_of_round();
        assert_eq!(names(&mut all, CHILD, 26), ["/bin/sh", "/lib/plugin"]);
        all.end_of_round();
        assert_eq!(names(&mut all, CHILD, 26), [""; 0]);
        assert_eq!(names(&mut all, CHILD, 45), ["/bin/true"]);
        all.forked(CHILD, SHELL, 60);
        all.ended(CHILD, 55);
        all.end_of_round();
        all.end_of_round();
        assert_eq!(all.events, 1, "the next process with the number is kept");
        all.ended(CHILD, 70);
        all.end_of_round();
        all.end_of_round();
        assert_eq!((all.events, all.processes.len()), (0, 0));
    }

    #[test]
    fn processes_from_before_the_recording_are_examined() {
        let mut all = Histories::default();
        let own = std::process::id();
        all.forked(CHILD, own, 20);
        let program = std::env::current_exe().unwrap();
        let program = program.to_str().unwrap();
        assert!(
            names(&mut all, CHILD, 30)
                .iter()
                .any(|name| name == program)
        );
        // The root of its parent is ours.
        assert_eq!(all.roots(CHILD).len(), 1);
        // Not if it is another program by now.
        all.executed(own, 40);
        all.end_of_round();
        all.end_of_round();
        assert_eq!(names(&mut all, own, 50), [""; 0]);
    }

    #[test]
    fn storms_of_processes_maps_and_names_are_bounded() {
        let mut all = Histories::default();
        for number in 0..MAX_EVENTS as u64 + 10 {
            all.mapped(number as u32 % 100, number, &mapped(0x1000, "/lib"));
        }
        assert!(all.events <= MAX_EVENTS);
        for number in 0..MAX_PROCESSES as u32 + 10 {
            all.forked(number, 1, number.into());
        }
        assert!(all.processes.len() <= MAX_PROCESSES);
        for number in 0..3000 {
            let path = format!("{number}{}", "x".repeat(4000));
            all.mapped(number, 1, &mapped(0x1000, &path));
        }
        assert!(all.path_bytes <= MAX_PATHS + 5000);
        // Cycles, and histories that never end.
        all.forked(1, 2, 10);
        all.forked(2, 1, 10);
        assert_eq!(names(&mut all, 1, 20), [""; 0]);
    }
}
