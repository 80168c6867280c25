//! Features: the things that are compared.

/// A kind of feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The time from the beginning to the end of the recorded command.
    Duration,
    /// A part of that time, by its cause: the critical path.
    Path,
    /// Time on CPUs: of a process, a thread or a function.
    Cpu,
    /// Time that a thread waited, by its cause.
    Wait,
    /// System calls: their number.
    Calls,
    /// System calls: the time that threads ran in them.
    CallTime,
    /// Page faults: their number.
    Faults,
    /// Bytes that were read or written.
    Traffic,
    /// Requests to a disk: their number.
    Requests,
    /// Requests to a disk: their bytes.
    RequestBytes,
    /// Requests to a disk: the sum of their durations.
    RequestTime,
    /// Slices: their typical duration.
    Median,
    /// Slices: the 99th percentile of their durations.
    Tail,
    /// Slices: their number.
    Slices,
    /// Slices: the sum of their durations without those of slices within them.
    SelfTime,
    /// The mean value of a counter.
    Counter,
    /// The growth of the memory of a process, from the first sample to the highest.
    Growth,
    /// The most memory that a process of the command had.
    Peak,
    /// Memory that was allocated and not freed.
    Heap,
    /// Threads: their number.
    Threads,
    /// The frequency of the CPUs.
    Frequency,
}

/// The unit of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unit {
    /// Nanoseconds.
    Time,
    /// A number of events.
    Count,
    /// Bytes.
    Bytes,
    /// The unit of a counter, which is not known.
    Value,
}

impl Kind {
    /// Returns the name of the kind in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Duration => "duration",
            Self::Path => "path",
            Self::Cpu => "cpu",
            Self::Wait => "wait",
            Self::Calls => "calls",
            Self::CallTime => "call-time",
            Self::Faults => "faults",
            Self::Traffic => "traffic",
            Self::Requests => "requests",
            Self::RequestBytes => "request-bytes",
            Self::RequestTime => "request-time",
            Self::Median => "median",
            Self::Tail => "p99",
            Self::Slices => "slices",
            Self::SelfTime => "self-time",
            Self::Counter => "counter",
            Self::Growth => "growth",
            Self::Peak => "peak",
            Self::Heap => "heap",
            Self::Threads => "threads",
            Self::Frequency => "frequency",
        }
    }

    /// Returns the unit of its values.
    pub fn unit(self) -> Unit {
        match self {
            Self::Duration | Self::Path | Self::Cpu | Self::Wait => Unit::Time,
            Self::Median | Self::Tail | Self::SelfTime | Self::CallTime => Unit::Time,
            Self::RequestTime => Unit::Time,
            Self::Requests => Unit::Count,
            Self::RequestBytes => Unit::Bytes,
            Self::Calls | Self::Slices | Self::Faults | Self::Threads => Unit::Count,
            Self::Counter | Self::Frequency => Unit::Value,
            Self::Growth | Self::Peak | Self::Heap | Self::Traffic => Unit::Bytes,
        }
    }

    /// Returns true if its values are sums over the compared time.
    pub(crate) fn is_total(self) -> bool {
        !matches!(
            self,
            Self::Median
                | Self::Tail
                | Self::Counter
                | Self::Peak
                | Self::Threads
                | Self::Frequency
        )
    }

    /// Returns true if its values are 0 in recordings that do not have it. Otherwise they are not
    /// known.
    pub(crate) fn is_zero_if_absent(self) -> bool {
        match self {
            Self::Threads => true,
            Self::Growth | Self::Faults | Self::Traffic => false,
            _ => self.is_total(),
        }
    }

    /// Returns true if its values tell that something is slower, not why.
    pub fn is_effect(self) -> bool {
        matches!(
            self,
            Self::Duration | Self::Median | Self::Tail | Self::SelfTime
        )
    }
}

/// A thing that is compared. Its names mean the same in all recordings: numbers of processes and
/// threads are not among them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Feature {
    /// The kind.
    pub kind: Kind,
    /// The process. Empty if the feature is of the machine.
    pub process: String,
    /// The thread. Empty if the feature is of the process.
    pub thread: String,
    /// The cause, the slice or the counter. Empty if the feature is all of the thread.
    pub name: String,
    /// The part of it: a function or a system call. Empty if the feature is all of it.
    pub detail: String,
}

impl Feature {
    /// Returns a feature of a process.
    pub fn of_process(kind: Kind, process: &str) -> Self {
        Self {
            kind,
            process: process.to_owned(),
            thread: String::new(),
            name: String::new(),
            detail: String::new(),
        }
    }

    /// Returns this feature of a thread.
    #[must_use]
    pub fn thread(mut self, thread: &str) -> Self {
        thread.clone_into(&mut self.thread);
        self
    }

    /// Returns this feature with a name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Returns this feature with a detail.
    #[must_use]
    pub fn detail(mut self, detail: &str) -> Self {
        detail.clone_into(&mut self.detail);
        self
    }

    /// Returns the feature of which this one is a part.
    pub fn parent(&self) -> Option<Self> {
        let mut parent = self.clone();
        match self.kind {
            Kind::Path | Kind::Wait if !self.detail.is_empty() => parent.detail.clear(),
            Kind::Cpu | Kind::Heap if !self.detail.is_empty() => parent.detail.clear(),
            Kind::Cpu if !self.thread.is_empty() => parent.thread.clear(),
            _ => return None,
        }
        Some(parent)
    }

    /// Returns true if it is the number of calls that the work of a thread does not determine
    /// alone: those of contended locks depend on the machine, those that a heap grows with on the
    /// random addresses of a process.
    pub(crate) fn is_incidental(&self) -> bool {
        let names = ["futex", "sched_yield", "brk", "mprotect", "madvise"];
        self.kind == Kind::Calls && names.contains(&self.detail.as_str())
    }

    /// Returns true if it is the time of system calls that copy or free page tables: it depends on
    /// the huge pages that the machine had.
    pub(crate) fn is_of_page_tables(&self) -> bool {
        let names = ["clone", "clone3", "fork", "munmap", "mremap", "exit_group"];
        let is_call = self.kind == Kind::CallTime || self.name == CALLS;
        is_call && names.contains(&self.detail.as_str())
    }

    /// Returns true if it is the time of a function of the kernel that clears new pages: it depends
    /// on the memory of the machine, and of the one that a virtual machine runs on.
    pub(crate) fn is_clearing(&self) -> bool {
        let names = ["clear_page", "clear_huge_page", "folio_zero_user"];
        self.kind == Kind::Cpu && names.iter().any(|name| self.detail.starts_with(name))
    }

    /// Returns the features that tell the same in less detail, as a function's time on CPUs tells
    /// of its time on the critical path.
    pub fn same(&self) -> Vec<Self> {
        let of_thread = || Self::of_process(Kind::Cpu, &self.process).thread(&self.thread);
        let of_process = |kind| Self::of_process(kind, &self.process).detail(&self.detail);
        match (self.kind, self.name.as_str(), self.detail.is_empty()) {
            (Kind::Path, RAN, _) => vec![of_thread().detail(&self.detail)],
            (Kind::Path, CALLS, false) => {
                vec![of_process(Kind::CallTime), of_process(Kind::Calls)]
            }
            (Kind::Path, FAULTS, _) => {
                vec![Self::of_process(Kind::Faults, &self.process).name(PAGE_FAULTS)]
            }
            (Kind::CallTime, ..) => vec![of_process(Kind::Calls)],
            _ => Vec::new(),
        }
    }

    /// Returns true if it is a time in which a thread ran.
    pub(crate) fn is_on_cpu(&self) -> bool {
        let of_path = [RAN, CALLS, FAULTS, KERNEL].contains(&self.name.as_str());
        matches!(self.kind, Kind::Cpu | Kind::CallTime) || self.kind == Kind::Path && of_path
    }

    /// Returns the names of process and thread.
    pub fn subject(&self) -> String {
        match (self.process.as_str(), self.thread.as_str()) {
            ("", thread) => thread.to_owned(),
            (process, "") => process.to_owned(),
            (process, thread) if process == thread => process.to_owned(),
            (process, thread) => format!("{process}/{thread}"),
        }
    }

    /// Returns the feature in words.
    pub fn text(&self) -> String {
        let subject = self.subject();
        let of = |what: &str| match subject.as_str() {
            "" => what.to_owned(),
            subject => format!("{subject}: {what}"),
        };
        let with_detail = |name: &str| match self.detail.as_str() {
            "" => name.to_owned(),
            detail => format!("{name}: {detail}"),
        };
        match self.kind {
            Kind::Duration => of("duration"),
            Kind::Path | Kind::Wait => of(&with_detail(&self.name)),
            Kind::Cpu => match self.detail.as_str() {
                "" => of("time on CPUs"),
                function => of(&format!("time in function {function}")),
            },
            Kind::Calls => of(&format!("system calls {}", self.detail)),
            Kind::CallTime => of(&format!("time in system calls {}", self.detail)),
            Kind::Faults | Kind::Traffic | Kind::Frequency | Kind::Peak => of(&self.name),
            Kind::Requests => of(&format!("requests to disk {}, number", self.name)),
            Kind::RequestBytes => of(&format!("requests to disk {}, bytes", self.name)),
            Kind::RequestTime => of(&format!("requests to disk {}, time", self.name)),
            Kind::Median => of(&format!("slice {}, median", self.name)),
            Kind::Tail => of(&format!("slice {}, 99th percentile", self.name)),
            Kind::Slices => of(&format!("slice {}, number", self.name)),
            Kind::SelfTime => of(&format!("slice {}, without those within it", self.name)),
            Kind::Counter => of(&format!("{}, mean", self.name)),
            Kind::Growth => of(&format!("{}, growth", self.name)),
            Kind::Heap => match self.detail.as_str() {
                "" => of("memory, allocated and not freed"),
                function => of(&format!("memory, allocated by {function} and not freed")),
            },
            Kind::Threads => of("threads, number"),
        }
    }
}

/// The name of the cause of a thread that ran its own code.
pub(crate) const RAN: &str = "ran its own code";
/// The name of the cause of a thread that ran in system calls.
pub(crate) const CALLS: &str = "ran in system calls";
/// The name of the cause of a thread that handled page faults.
pub(crate) const FAULTS: &str = "handled page faults";
/// The name of the cause of a thread that ran in the kernel outside of system calls.
pub(crate) const KERNEL: &str = "ran in the kernel";
/// The name of the cause of a thread that was ready to run.
pub(crate) const WAITED_FOR_CPU: &str = "waited for a CPU";
/// The name of the page faults that did not wait for a disk.
pub(crate) const PAGE_FAULTS: &str = "page faults";
