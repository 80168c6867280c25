//! Taking over a tracefs instance and restoring it.

use std::io;

use super::claim::{Claim, Claimed, Undo};
use super::config::{Exclusive, FtraceOptions, FunctionGraph};
use super::tracefs::{PAGE_SIZE_FILE, Tracefs};

/// Default buffer per CPU on machines with little memory, KiB.
const SMALL_BUFFER_KB: u32 = 2048;
/// Default buffer per CPU from [`LARGE_MACHINE`] on, KiB.
const LARGE_BUFFER_KB: u32 = 8192;
/// Physical memory from which the larger default is used, bytes.
const LARGE_MACHINE: u64 = 7 << 30;

/// The clock of an instance, with the numbers of `FtraceClock`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum TraceClock {
    /// Boottime, the clock of the rest of the trace.
    Boot = 0,
    /// A clock that this program does not know.
    Unknown = 1,
    /// The scheduler's clock, made monotonic between CPUs.
    Global = 2,
    /// The scheduler's clock of each CPU.
    Local = 3,
    /// Monotonic without adjustments.
    MonoRaw = 4,
}

impl TraceClock {
    fn from_name(name: &str) -> Self {
        match name {
            "boot" => Self::Boot,
            "global" => Self::Global,
            "local" => Self::Local,
            "mono_raw" => Self::MonoRaw,
            _ => Self::Unknown,
        }
    }
}

/// The reason why an instance could not be taken over.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// Another program uses ftrace.
    #[error("ftrace is in use by something else: {root}/current_tracer is {tracer}, not nop")]
    InUse {
        /// The directory of the instance.
        root: String,
        /// The active tracer.
        tracer: String,
    },
    /// Another process records in the instance.
    #[error("{root} is in use by {}, which records kernel events", user(.pid))]
    Claimed {
        /// The directory of the instance.
        root: String,
        /// The process, if it is known.
        pid: Option<u32>,
    },
    /// The kernel does not wake readers when its buffers fill up.
    #[error(
        "drain_buffer_percent has no effect, as that needs Linux 6.9: events are read once in \
         drain_period_ms only"
    )]
    NoWatermark,
    /// Reading or writing a file failed.
    #[error("{path}: {error}")]
    File {
        /// The file under the instance's directory.
        path: String,
        /// The kernel's error.
        error: io::Error,
    },
}

fn user(pid: &Option<u32>) -> String {
    pid.map_or_else(
        || "another process".to_owned(),
        |pid| format!("process {pid}"),
    )
}

fn failed(path: &str) -> impl FnOnce(io::Error) -> KernelError {
    let path = path.to_owned();
    move |error| KernelError::File { path, error }
}

/// The state of a taken instance, and its previous state.
#[derive(Debug)]
pub(super) struct Taken {
    fs: Tracefs,
    tracing_on: bool,
    rest: Option<Before>,
    exclusive: ExclusiveBefore,
    graph_users: usize,
    claim: Claim,
    /// The clock in use now.
    pub clock: TraceClock,
    /// The requested pages per CPU; 0 for no change.
    pub buffer_pages: usize,
}

/// The previous state, which is not touched if the buffer is to be preserved.
#[derive(Debug)]
struct Before {
    clock: Option<String>,
    /// The size of the pages of buffers, on kernels that can change it.
    page_kb: Option<String>,
    buffer_kb: Option<u32>,
    events: String,
}

#[derive(Debug, Default)]
struct ExclusiveBefore {
    tids_set: bool,
    options: Vec<(String, bool)>,
    cpumask: Option<String>,
}

impl Taken {
    /// Stops and clears the instance, and sets its clock and size.
    ///
    /// # Errors
    ///
    /// Fails if another tracer is active, or if `tracing_on` cannot be written.
    pub(super) fn take(fs: &Tracefs, options: &FtraceOptions) -> Result<Self, KernelError> {
        // First, since it undoes the changes of a killed process.
        let claim = Claim::take(fs).map_err(|Claimed { pid }| KernelError::Claimed {
            root: fs.root().display().to_string(),
            pid,
        })?;
        let tracer = fs.read("current_tracer").unwrap_or_default();
        let tracer = tracer.trim();
        if !options.preserve_buffer && !tracer.is_empty() && tracer != "nop" {
            let root = fs.root().display().to_string();
            return Err(KernelError::InUse {
                root,
                tracer: tracer.to_owned(),
            });
        }
        let on = fs.read("tracing_on").map_err(failed("tracing_on"))?;
        let mut taken = Self {
            fs: fs.clone(),
            tracing_on: on.trim() == "1",
            rest: None,
            exclusive: ExclusiveBefore::default(),
            graph_users: 0,
            claim,
            clock: TraceClock::Unknown,
            buffer_pages: 0,
        };
        taken.note_switch();
        let (clocks, current) = fs.clocks();
        if options.preserve_buffer {
            taken.claim.note(Undo::Write("tracing_on", "0"));
            taken.clock = TraceClock::from_name(current.as_deref().unwrap_or(""));
            return Ok(taken);
        }
        taken.rest = Some(Before {
            clock: current.clone(),
            page_kb: fs.read(PAGE_SIZE_FILE).ok(),
            buffer_kb: buffer_kb_to_restore(fs),
            events: fs.read("set_event").unwrap_or_default(),
        });
        taken.note_rest();
        fs.write("tracing_on", "0").map_err(failed("tracing_on"))?;
        // Access rules may forbid this; then enabled events stay enabled but are filtered out.
        let _ = fs.write("events/enable", "0");
        let _ = fs.clear();
        taken.clock = choose_clock(fs, &clocks, current.as_deref(), options.use_monotonic_raw);
        taken.buffer_pages = buffer_pages(options, physical_memory());
        enlarge_pages(fs, taken.buffer_pages * rustix::param::page_size());
        set_buffer_pages(fs, taken.buffer_pages);
        Ok(taken)
    }

    /// Logs that recording must be enabled again at the end.
    fn note_switch(&mut self) {
        if self.tracing_on {
            self.claim.note(Undo::Write("tracing_on", "1"));
        }
    }

    /// Logs the rest of the previous state.
    fn note_rest(&mut self) {
        let Some(before) = &self.rest else { return };
        for event in before.events.lines() {
            self.claim.note(Undo::Append("set_event", event));
        }
        if let Some(clock) = &before.clock {
            self.claim.note(Undo::Write("trace_clock", clock));
        }
        if let Some(kb) = before.buffer_kb {
            self.claim
                .note(Undo::Write("buffer_size_kb", &kb.to_string()));
        }
        // Before the size of the buffer, which is a multiple of it.
        if let Some(kb) = &before.page_kb {
            self.claim.note(Undo::Write(PAGE_SIZE_FILE, kb.trim()));
        }
        self.claim.note(Undo::Empty("trace"));
        self.claim.note(Undo::Write("events/enable", "0"));
        self.claim.note(Undo::Write("tracing_on", "0"));
        for event in ["sys_enter", "sys_exit"] {
            let filter = format!("events/raw_syscalls/{event}/filter");
            self.claim.note(Undo::Write(&filter, "0"));
        }
    }

    /// Logs how to undo a change.
    pub(super) fn note(&mut self, undo: Undo<'_>) {
        self.claim.note(undo);
    }

    /// Starts recording.
    ///
    /// # Errors
    ///
    /// Fails if `tracing_on` cannot be written.
    pub(super) fn turn_on(&self) -> Result<(), KernelError> {
        self.fs
            .write("tracing_on", "1")
            .map_err(failed("tracing_on"))
    }

    /// Stops recording.
    pub(super) fn turn_off(&self) {
        let _ = self.fs.write("tracing_on", "0");
    }

    /// Applies the settings that only one data source may use.
    ///
    /// # Errors
    ///
    /// Fails if a value is rejected; previous settings stay until [`Taken::give_back`].
    pub(super) fn set_exclusive(&mut self, wanted: &Exclusive) -> Result<(), KernelError> {
        let fs = &self.fs;
        if !wanted.tids.is_empty() {
            let tids: Vec<String> = wanted.tids.iter().map(u32::to_string).collect();
            self.exclusive.tids_set = true;
            self.claim.note(Undo::Empty("set_event_pid"));
            fs.write("set_event_pid", &tids.join(" "))
                .map_err(failed("set_event_pid"))?;
        }
        for (name, on) in &wanted.options {
            let path = format!("options/{name}");
            let before = fs.read(&path).map_err(failed(&path))?;
            self.exclusive
                .options
                .push((name.clone(), before.trim() == "1"));
            self.claim.note(Undo::Write(&path, before.trim()));
            fs.write(&path, if *on { "1" } else { "0" })
                .map_err(failed(&path))?;
        }
        if let Some(mask) = &wanted.cpumask {
            let before = fs
                .read("tracing_cpumask")
                .map_err(failed("tracing_cpumask"))?;
            self.claim
                .note(Undo::Write("tracing_cpumask", before.trim()));
            fs.write("tracing_cpumask", mask)
                .map_err(failed("tracing_cpumask"))?;
            self.exclusive.cpumask = Some(before.trim().to_owned());
        }
        Ok(())
    }

    /// Undoes [`Taken::set_exclusive`].
    pub(super) fn restore_exclusive(&mut self) {
        let before = std::mem::take(&mut self.exclusive);
        if before.tids_set {
            let _ = self.fs.truncate("set_event_pid");
        }
        for (name, on) in before.options.iter().rev() {
            let _ = self
                .fs
                .write(&format!("options/{name}"), if *on { "1" } else { "0" });
        }
        if let Some(mask) = before.cpumask {
            let _ = self.fs.write("tracing_cpumask", &mask);
        }
    }

    /// Enables the function graph tracer; a second user only adds functions.
    ///
    /// # Errors
    ///
    /// Fails if the kernel does not know a function or lacks the tracer.
    pub(super) fn set_function_graph(&mut self, graph: &FunctionGraph) -> Result<(), KernelError> {
        let fs = &self.fs;
        let first = self.graph_users == 0;
        if first {
            for file in ["set_ftrace_filter", "set_graph_function"] {
                self.claim.note(Undo::Empty(file));
                fs.truncate(file).map_err(failed(file))?;
            }
            self.claim.note(Undo::Write("current_tracer", "nop"));
            fs.write("max_graph_depth", "0")
                .map_err(failed("max_graph_depth"))?;
        }
        for (file, list) in [
            ("set_ftrace_filter", &graph.filters),
            ("set_graph_function", &graph.roots),
        ] {
            if !list.is_empty() {
                fs.append(file, &list.join("\n")).map_err(failed(file))?;
            }
        }
        let depth = graph.max_depth.to_string();
        fs.write("max_graph_depth", &depth)
            .map_err(failed("max_graph_depth"))?;
        if first {
            fs.write("current_tracer", "function_graph")
                .map_err(failed("current_tracer"))?;
        }
        self.graph_users += 1;
        Ok(())
    }

    /// Restores the instance. All raw pipes must be closed, since the kernel does not change the
    /// tracer while they are open.
    pub(super) fn give_back(&mut self) {
        let fs = &self.fs;
        self.turn_off();
        if std::mem::take(&mut self.graph_users) > 0 {
            let _ = fs.write("current_tracer", "nop");
            for file in ["set_ftrace_filter", "set_graph_function"] {
                let _ = fs.truncate(file);
            }
        }
        let _ = fs.write("events/enable", "0");
        self.restore_exclusive();
        let fs = &self.fs;
        let _ = fs.clear();
        if let Some(before) = &self.rest {
            if let Some(kb) = &before.page_kb {
                let _ = fs.write(PAGE_SIZE_FILE, kb.trim());
            }
            if let Some(kb) = before.buffer_kb {
                let _ = fs.write("buffer_size_kb", &kb.to_string());
            }
            let (_, current) = fs.clocks();
            if let Some(clock) = before
                .clock
                .as_ref()
                .filter(|clock| current.as_ref() != Some(clock))
            {
                let _ = fs.write("trace_clock", clock);
            }
            for event in before.events.lines() {
                let _ = fs.append("set_event", event);
            }
        }
        if self.tracing_on {
            let _ = fs.write("tracing_on", "1");
        }
    }
}

/// Returns the size to restore. The kernel enlarges an unused small buffer for its next user, but
/// not after a size was written; then the enlarged size is returned.
fn buffer_kb_to_restore(fs: &Tracefs) -> Option<u32> {
    let text = fs.read("buffer_size_kb").ok()?;
    let (number, expanded) = text.split_once(" (expanded: ").unwrap_or((&text, ""));
    let expanded = expanded.trim_end().trim_end_matches(')');
    expanded.parse().ok().or_else(|| number.trim().parse().ok())
}

fn choose_clock(fs: &Tracefs, clocks: &[String], current: Option<&str>, raw: bool) -> TraceClock {
    if raw && clocks.iter().any(|clock| clock == "mono_raw") {
        let _ = fs.write("trace_clock", "mono_raw");
        return TraceClock::MonoRaw;
    }
    for wanted in ["boot", "global", "local"] {
        if !clocks.iter().any(|clock| clock == wanted) {
            continue;
        }
        if current != Some(wanted) && fs.write("trace_clock", wanted).is_err() {
            continue;
        }
        return TraceClock::from_name(wanted);
    }
    TraceClock::Unknown
}

/// Returns the pages per CPU for a config on a machine with this much memory.
pub(super) fn buffer_pages(options: &FtraceOptions, memory: u64) -> usize {
    let default = if memory >= LARGE_MACHINE {
        LARGE_BUFFER_KB
    } else {
        SMALL_BUFFER_KB
    };
    let asked = options.buffer_size_kb;
    let kb = if asked == 0 || (options.buffer_size_lower_bound && default > asked) {
        default
    } else {
        asked
    };
    (kb as usize / (rustix::param::page_size() / 1024)).max(1)
}

/// Makes the pages of a buffer of this size larger than those of the system, where the kernel can:
/// each `read` passes one page, so fewer calls are needed.
fn enlarge_pages(fs: &Tracefs, buffer_size: usize) {
    let wanted = ring_page_size(buffer_size);
    if wanted > fs.page_size() {
        // If memory for such pages is short, the old ones stay.
        let _ = fs.write(PAGE_SIZE_FILE, &(wanted / 1024).to_string());
    }
}

/// Returns the size of the pages of a buffer. There are enough of them that a full buffer loses
/// only a small part at once.
fn ring_page_size(buffer_size: usize) -> usize {
    const LARGEST: usize = 16 << 10;
    const LEAST_PAGES: usize = 32;
    let size = (buffer_size / LEAST_PAGES).clamp(1024, LARGEST);
    1 << size.ilog2()
}

fn set_buffer_pages(fs: &Tracefs, pages: usize) {
    let kb = pages * (rustix::param::page_size() / 1024);
    // If memory is short the size does not change, which the stats packet shows.
    let _ = fs.write("buffer_size_kb", &kb.to_string());
}

/// Reads the pages per CPU that the kernel reports.
pub(super) fn read_buffer_pages(fs: &Tracefs) -> usize {
    let text = fs.read("buffer_size_kb").unwrap_or_default();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let kb = text[..digits].parse::<usize>().unwrap_or(0);
    kb.div_ceil(rustix::param::page_size() / 1024).max(1)
}

fn physical_memory() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferretto_proto::FtraceConfig;

    #[test]
    fn large_buffers_have_larger_pages_and_at_least_32_of_them() {
        let sizes = [64, 256, 500, 512, 1024, 2048, 8192].map(|kb| ring_page_size(kb << 10) >> 10);
        assert_eq!(sizes, [2, 8, 8, 16, 16, 16, 16]);
    }

    #[test]
    fn pages_are_enlarged_where_the_kernel_can() {
        let folder = tempfile::tempdir().expect("a folder");
        let fs = Tracefs::at(folder.path());
        enlarge_pages(&fs, 8 << 20);
        assert!(fs.read(PAGE_SIZE_FILE).is_err());
        let file = folder.path().join(PAGE_SIZE_FILE);
        for (before, after) in [("4\n", "16"), ("64\n", "64\n")] {
            std::fs::write(&file, before).expect("written");
            enlarge_pages(&fs, 8 << 20);
            assert_eq!(fs.read(PAGE_SIZE_FILE).expect("a size"), after);
        }
    }

    #[test]
    fn probes_012_buffer_size_defaults_depend_on_memory() {
        let pages = |kb, lower, memory| {
            let config = FtraceConfig {
                buffer_size_kb: kb,
                buffer_size_lower_bound: lower,
                ..Default::default()
            };
            buffer_pages(&FtraceOptions::new(&config).expect("valid"), memory)
        };
        let page_kb = rustix::param::page_size() / 1024;
        let (small, large) = (4 << 30, 7 << 30);
        assert_eq!(pages(None, None, small), 2048 / page_kb);
        assert_eq!(pages(Some(0), None, large), 8192 / page_kb);
        assert_eq!(pages(Some(1), None, large), 1);
        assert_eq!(pages(Some(1), Some(true), small), 2048 / page_kb);
        assert_eq!(pages(Some(16384), Some(true), small), 16384 / page_kb);
    }
}
