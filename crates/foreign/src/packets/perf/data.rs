//! Files of `perf record`.

use std::io::{Read, Seek};
use std::rc::Rc;

use crate::Format;
use crate::perf_data::{Event, Layout, Mapping, PerfData, Record, Sample};
use ferretto_format::CpuMode;
use ferretto_format::decompression::DecompressionBudget;
use ferretto_profiling::{Interner, MappingOf, MappingRange};
use ferretto_symbols::kernel::KernelSymbols;

use super::files::{Files, Here};
use super::maps::{Mapped, Memory};
use super::samples::{EventSpec, Head, Samples, Unit};
use super::stacks::{self, Stacks, Unwound};
use super::tasks::Tasks;
use crate::packets::report::Report;
use crate::packets::sorter::Sorter;
use crate::packets::writer::Writer;
use crate::packets::{ImportError, Options};

/// The name of the mapping of kernel frames. Trace readers recognise them by it.
const KERNEL: &[u8] = b"kernel";

/// Imports a file.
pub(crate) fn data<R: Read + Seek>(
    input: R,
    options: &Options,
    writer: &mut Writer<'_>,
) -> Result<Report, ImportError> {
    let mut file = PerfData::open(input)?;
    let layout = file.layout().clone();
    let mut sorter = Sorter::new(options.memory);
    let mut report = Report::new(Format::PerfData);
    file.limit_decompression(DecompressionBudget::new(options.decompressed));
    file.records(|bytes| match layout.parse(bytes) {
        Record::Other { kind } => {
            if let Some(what) = unsupported(kind) {
                report.losses.add(&what);
            }
            Ok(())
        }
        Record::Malformed => {
            report.losses.add("damaged records");
            Ok(())
        }
        record => {
            // At equal times, mappings and names come before the samples that need them.
            let (time, rank) = match &record {
                Record::Sample(sample) => (sample.time, 1),
                Record::Lost { time, .. } => (*time, 1),
                Record::Exit(task) => (task.time, 2),
                Record::Fork(task) => (task.time, 0),
                Record::Comm { time, .. } => (*time, 0),
                Record::Mapping(mapping) => (mapping.time, 0),
                _ => (0, 0),
            };
            let time = i64::try_from(time).unwrap_or(i64::MAX);
            sorter.push((time, rank), bytes)
        }
    })?;
    if let Some(damage) = file.damage() {
        report
            .losses
            .add(&format!("damaged end of the file ({damage})"));
        report.is_damaged = true;
    }
    let files = Files::new(file.build_ids(), options.reads_files);
    let mut samples = Samples::default();
    let mut periods = Vec::new();
    for event in file.events() {
        let (period, is_frequency) = (event.attr.period, event.attr.is_frequency);
        periods.push((!is_frequency).then_some(period));
        samples.add_event(EventSpec {
            name: event.name.clone(),
            unit: unit(event),
            followers: Vec::new(),
            period: (!is_frequency).then_some(period),
            frequency: is_frequency.then_some(period),
        });
    }
    let mut import = Import {
        writer,
        kernel: files.kernel(),
        stacks: if options.reads_files {
            Stacks::new()
        } else {
            None
        },
        files,
        memory: Memory::default(),
        tasks: Tasks::default(),
        samples,
        periods,
        report,
    };
    sorter.finish(|ts, bytes| import.record(ts as u64, &layout, bytes))?;
    Ok(import.report)
}

/// Returns the unit of an event's periods.
fn unit(event: &Event) -> Unit {
    const HARDWARE: u32 = 0;
    const SOFTWARE: u32 = 1;
    match (event.attr.kind, event.attr.config) {
        (SOFTWARE, 0 | 1) => Unit::Nanoseconds,
        (HARDWARE, 0 | 6 | 9) => Unit::Cycles,
        (HARDWARE, 1) => Unit::Instructions,
        _ => Unit::of_event(&event.name),
    }
}

/// Describes records that the trace cannot express; `None` if they carry no recorded data.
fn unsupported(kind: u32) -> Option<String> {
    let name = match kind {
        5 | 6 => "throttling records",
        8 => "counter values of tasks",
        11 | 12 | 21 | 71 => "records of hardware traces",
        14 | 15 => "context switches",
        16 => "namespace records",
        17 => "symbols of code generated at run time",
        18 => "BPF program records",
        19 => "cgroup records",
        20 => "changes of the kernel's code",
        ..64 => return Some(format!("records of kind {kind}")),
        _ => return None,
    };
    Some(name.to_owned())
}

struct Import<'a, 'w> {
    writer: &'a mut Writer<'w>,
    kernel: Option<KernelSymbols>,
    files: Files,
    /// `None` if no files are read.
    stacks: Option<Stacks>,
    memory: Memory,
    tasks: Tasks,
    samples: Samples,
    /// The constant periods of events, by index.
    periods: Vec<Option<u64>>,
    report: Report,
}

impl Import<'_, '_> {
    /// Converts a record. Records come in the order of time.
    fn record(&mut self, ts: u64, layout: &Layout, bytes: &[u8]) -> Result<(), ImportError> {
        match layout.parse(bytes) {
            Record::Sample(sample) => self.sample(ts, &sample)?,
            Record::Comm {
                pid,
                tid,
                is_exec,
                name,
                ..
            } => {
                if is_exec {
                    self.memory.exec(pid);
                    self.forget(pid);
                }
                self.tasks.name(self.writer, ts, (pid, tid), name)?;
            }
            Record::Mapping(mapping) => self.map(&mapping),
            Record::Fork(task) => {
                self.memory.fork(task.pid, task.parent_pid);
                if task.pid != task.parent_pid {
                    self.forget(task.pid);
                }
                if task.pid == task.tid && task.pid != task.parent_pid {
                    let of = (task.pid, task.parent_pid);
                    self.tasks.fork(self.writer, ts, of)?;
                }
            }
            Record::Exit(task) => {
                self.tasks.exit(task.tid);
                if task.pid == task.tid {
                    self.memory.exit(task.pid);
                }
            }
            Record::Lost { count, .. } => {
                let what = "records that the kernel lost, marked as lost in the trace";
                self.report.losses.add_many(what, count);
                self.samples.lost(self.writer, ts, count)?;
            }
            _ => return Ok(()),
        }
        self.report.events += 1;
        Ok(())
    }

    /// Forgets the state for unwinding a process whose mappings have changed.
    fn forget(&mut self, pid: u32) {
        if let Some(stacks) = &mut self.stacks {
            stacks.forget(pid);
        }
    }

    fn map(&mut self, mapping: &Mapping<'_>) {
        let is_kernel = matches!(mapping.mode, CpuMode::Kernel) || mapping.pid.is_none();
        let path: Rc<[u8]> = if is_kernel {
            KERNEL.into()
        } else {
            mapping.path.into()
        };
        let file = self.files.get(&path, mapping.build_id);
        let pid = if is_kernel { None } else { mapping.pid };
        if let Some(pid) = pid {
            self.forget(pid);
        }
        // Without a build id, another file at the path of the recorded one has another inode.
        let is_recorded =
            |here: &Here| here.is_same || mapping.inode.is_none_or(|inode| inode == here.inode);
        self.memory.map(
            pid,
            Mapped {
                path,
                build_id: file.build_id,
                range: MappingRange {
                    start: mapping.start,
                    end: mapping.start.saturating_add(mapping.length),
                    exact_offset: mapping.offset,
                    start_offset: 0,
                    load_bias: file.load_bias,
                },
                here: file.here.filter(is_recorded),
            },
        );
    }

    fn sample(&mut self, ts: u64, sample: &Sample<'_>) -> Result<(), ImportError> {
        let Some((pid, tid)) = sample.task else {
            self.report
                .losses
                .add("samples without a process and thread id");
            return Ok(());
        };
        let unwound = match (&sample.user, &mut self.stacks) {
            (Some(user), Some(stacks)) => stacks.unwind(pid, &self.memory, user),
            _ => None,
        };
        if let Some(what) = lost_of_stack(sample, unwound.as_ref()) {
            self.report.losses.add(what);
        }
        let mut frames: Vec<_> = sample.chain.addresses(sample.mode).collect();
        if unwound.is_some() {
            frames.retain(|(mode, _)| *mode != CpuMode::User);
        }
        let is_in_kernel = sample.mode == CpuMode::Kernel;
        if frames.is_empty() && (unwound.is_none() || is_in_kernel) {
            frames.extend(sample.address.map(|address| (sample.mode, address)));
        }
        let head = Head {
            ts,
            cpu: sample.cpu,
            pid: Some(pid),
            tid,
            mode: sample.mode,
            period: sample
                .period
                .or(self.periods.get(sample.event).copied().flatten()),
            followers: &[],
        };
        let (memory, kernel) = (&self.memory, self.kernel.as_ref());
        let mut unknown = 0;
        self.samples
            .write(self.writer, sample.event, head, |interner| {
                let mut stack = Vec::with_capacity(frames.len());
                for &(mode, address) in &frames {
                    stack.push(match mode {
                        CpuMode::Kernel => kernel_frame(interner, kernel, address),
                        _ => {
                            let mapped = memory.find(Some(pid), address);
                            unknown += u64::from(mapped.is_none());
                            user_frame(interner, mapped, address)
                        }
                    });
                }
                let user = unwound.iter().flat_map(|unwound| unwound.frames);
                stack.extend(user.map(|frame| stacks::intern(interner, frame)));
                stack
            })?;
        self.report.samples += 1;
        let what = "frames at addresses without a known mapping";
        self.report.losses.add_many(what, unknown);
        Ok(())
    }
}

/// Describes the frames that a sample with a copy of the stack lacks, and the remedy; `None` if it
/// lacks none, or has no copy.
fn lost_of_stack(sample: &Sample<'_>, unwound: Option<&Unwound<'_>>) -> Option<&'static str> {
    match unwound {
        _ if !sample.has_stack => None,
        Some(unwound) if unwound.is_whole => None,
        Some(_) => Some(
            "callstacks that end early, as the copied stack was too small (a larger one: \
             --call-graph dwarf,32768) or a file is not there any more",
        ),
        // A kernel thread has no stack to copy.
        None if sample.user.is_none() && sample.mode == CpuMode::Kernel => None,
        None => Some(
            "samples with a copied stack, whose callstacks lack the user frames; import them on \
             the machine of the recording, without --no-system, or record with --call-graph fp",
        ),
    }
}

/// Returns the iid of a kernel frame. A frame with a name has no address, so that kernel addresses
/// stay out of the trace.
fn kernel_frame(interner: &mut Interner, symbols: Option<&KernelSymbols>, address: u64) -> u32 {
    let mapping = interner.mapping(&MappingOf {
        path: KERNEL,
        ..MappingOf::default()
    });
    match symbols.and_then(|symbols| symbols.lookup(address)) {
        Some(name) => interner.frame(mapping, 0, name.as_bytes()),
        None => interner.frame(mapping, address, b""),
    }
}

fn user_frame(interner: &mut Interner, mapped: Option<&Mapped>, address: u64) -> u32 {
    let Some(mapped) = mapped else {
        let mapping = interner.mapping(&MappingOf::default());
        return interner.frame(mapping, address, b"");
    };
    let range = mapped.range;
    let mapping = interner.mapping(&MappingOf {
        path: &mapped.path,
        build_id: &mapped.build_id,
        range,
    });
    let offset = (address - range.start).wrapping_add(range.exact_offset);
    interner.frame(mapping, offset.wrapping_add(range.load_bias), b"")
}
