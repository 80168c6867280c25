//! What becomes of each record of the rings.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ferretto_unwind::{Machine, Registers};
use rustc_hash::FxHashMap;

use super::lookup::Lookup;
use super::names::Names;
use super::off_cpu::Absences;
use crate::config::{Callstacks, Plan, UserFrames};
use crate::filter::{CommandLine, Filter};
use crate::output::{Content, Sample, SkipReason, Task};
use crate::process::{Identity, LookupError, Process, ProcessFolder, ProcessTable, Stage};
use crate::record::{self, Abi, CpuMode, Record, UserRegisters, Words};
use crate::unwinding::{self, Job, RawSample, Unwinders};

/// Decides what becomes of each record, and remembers what it has to.
#[derive(Debug)]
pub(super) struct Intake {
    pub(super) source: Arc<unwinding::Source>,
    callstacks: Callstacks,
    max_enqueued_bytes: u64,
    descriptor_timeout: Duration,
    filter: Filter,
    pub(super) processes: ProcessTable,
    /// When processes became other programs, while there may be samples from before.
    execs: [FxHashMap<u32, u64>; 2],
    /// What the timebase had counted at the sample before, by CPU.
    counted: FxHashMap<u32, u64>,
    pub(super) absences: Option<Absences>,
    /// Names of processes and threads, if they are wanted.
    pub(super) names: Option<Names>,
    /// Samples that are finished.
    pub(super) done: Vec<Sample>,
    /// CPUs that lost records, and how many.
    pub(super) lost: Vec<(u32, u64)>,
}

/// What a record is handled with.
pub(super) struct Helpers<'a> {
    pub(super) unwinders: &'a mut Unwinders,
    pub(super) lookup: &'a mut Lookup,
    pub(super) now: Instant,
}

impl Intake {
    pub(super) fn new(
        source: Arc<unwinding::Source>,
        plan: &Plan,
        filter: Filter,
        is_off_cpu: bool,
    ) -> Self {
        Self {
            source,
            callstacks: plan.callstacks,
            max_enqueued_bytes: plan.max_enqueued_bytes.unwrap_or(u64::MAX),
            descriptor_timeout: plan.descriptor_timeout,
            filter,
            processes: ProcessTable::default(),
            execs: Default::default(),
            counted: FxHashMap::default(),
            absences: is_off_cpu.then(Absences::default),
            names: None,
            done: Vec::new(),
            lost: Vec::new(),
        }
    }

    pub(super) fn record(&mut self, cpu: u32, record: Record<'_>, helpers: &mut Helpers<'_>) {
        match record {
            Record::Sample(sample) => self.sample(&sample, helpers),
            Record::Lost { count } => self.lost.push((cpu, count)),
            // Nobody knows how many records these were; at least one.
            Record::Malformed { .. } => self.lost.push((cpu, 1)),
            Record::Exit(task) => {
                self.processes.suspect(task.pid);
                if let Some(names) = &mut self.names {
                    names.ended(task.tid);
                }
            }
            Record::Comm {
                time,
                pid,
                exec: true,
                ..
            } => {
                self.forget(pid, helpers.unwinders);
                self.execs[0].insert(pid, time);
                if let Some(names) = &mut self.names {
                    names.executed(pid);
                }
            }
            Record::Comm { pid, tid, name, .. } => {
                if let Some(names) = &mut self.names {
                    names.renamed(pid, tid, name);
                }
            }
            Record::Switch(switch) if !switch.out => {
                if let Some(absences) = &mut self.absences {
                    absences.resumed(switch.tid, switch.time);
                }
            }
            _ => {}
        }
    }

    /// Every ring has been read.
    pub(super) fn end_of_round(&mut self, unwinders: &mut Unwinders) {
        self.execs.swap(0, 1);
        self.execs[0].clear();
        for pid in self.processes.expire() {
            unwinders.tell(pid, Job::Forget(pid));
        }
    }

    fn forget(&mut self, pid: u32, unwinders: &mut Unwinders) {
        if self.processes.remove(pid) {
            unwinders.tell(pid, Job::Forget(pid));
        }
    }

    /// Has waits end that have been in vain.
    pub(super) fn time_out(&mut self, helpers: &mut Helpers<'_>) {
        for pid in self.processes.time_out(helpers.now) {
            helpers.unwinders.tell(pid, Job::TimedOut(pid));
        }
    }

    fn sample(&mut self, sample: &record::Sample<'_>, helpers: &mut Helpers<'_>) {
        if !self.callstacks.sampled() {
            return self.finish(sample, Content::Counters);
        }
        let stage = self.decide(sample, helpers);
        if let Some(names) = self.names.as_mut().filter(|_| stage != Stage::Rejected) {
            names.seen(sample.pid, sample.tid);
        }
        let content = match stage {
            Stage::TimedOut => Content::Skipped(SkipReason::ReadStage),
            Stage::Rejected => Content::Skipped(SkipReason::NotInScope),
            Stage::Accepted | Stage::Resolving { .. } => {
                let user_only = sample.cpu_mode == CpuMode::User;
                if self.callstacks.user != UserFrames::None || !user_only {
                    return self.enqueue(sample, helpers);
                }
                Content::Counters
            }
        };
        self.finish(sample, content);
    }

    fn finish(&mut self, sample: &record::Sample<'_>, content: Content) {
        if self.absences.is_some() && matches!(content, Content::Skipped(SkipReason::NotInScope)) {
            return;
        }
        let done = self.told(sample, content);
        if let Some(absences) = &mut self.absences {
            absences.left(sample.tid, sample.time);
        }
        self.done.push(done);
    }

    /// What is told of a sample whatever becomes of it.
    fn told(&mut self, sample: &record::Sample<'_>, content: Content) -> Sample {
        let count = sample.counts.first().copied().unwrap_or(0);
        let before = self.counted.insert(sample.cpu, count).unwrap_or(0);
        Sample {
            time: sample.time,
            cpu: sample.cpu,
            task: Some(Task {
                pid: sample.pid,
                tid: sample.tid,
                mode: sample.cpu_mode,
            }),
            count,
            followers: sample.counts.get(1..).unwrap_or_default().into(),
            weight: count.saturating_sub(before),
            content,
        }
    }

    fn enqueue(&mut self, sample: &record::Sample<'_>, helpers: &mut Helpers<'_>) {
        let stacks = &helpers.unwinders.stacks;
        if stacks.bytes().saturating_add(sample.stack.len() as u64) >= self.max_enqueued_bytes {
            return self.finish(sample, Content::Skipped(SkipReason::UnwindEnqueue));
        }
        let stack = stacks.copy(sample.stack);
        let raw = Box::new(RawSample {
            sample: self.told(sample, Content::Counters),
            registers: sample.registers.as_ref().and_then(registers),
            stack,
            stack_full: sample.stack_maxed,
            kernel_chain: words(&sample.callchain.kernel),
            user_chain: sample
                .callchain
                .user
                .as_ref()
                .map(words)
                .unwrap_or_default(),
        });
        if let Some(absences) = &mut self.absences {
            absences.left(sample.tid, sample.time);
        }
        if let Err(mut sample) = helpers.unwinders.enqueue(&self.source, raw) {
            sample.content = Content::Skipped(SkipReason::UnwindEnqueue);
            self.done.push(sample);
        }
    }

    /// Where the process of this sample stands; decided now if it is its first.
    fn decide(&mut self, sample: &record::Sample<'_>, helpers: &mut Helpers<'_>) -> Stage {
        if let Some(process) = self.processes.get(sample.pid) {
            return stage_at(sample.time, process);
        }
        let since = self.execs.iter().filter_map(|execs| execs.get(&sample.pid));
        let since = since.copied().max().unwrap_or(0);
        let (stage, identity) = self.first_look(sample, helpers);
        let process = Process {
            stage,
            identity,
            since,
        };
        self.processes.insert(sample.pid, process);
        stage_at(sample.time, &process)
    }

    fn first_look(
        &mut self,
        sample: &record::Sample<'_>,
        helpers: &mut Helpers<'_>,
    ) -> (Stage, Option<Identity>) {
        let pid = sample.pid;
        let folder = match pid {
            0 => Err(LookupError::Gone),
            pid => ProcessFolder::open(pid),
        };
        let identity = match &folder {
            Ok(folder) => folder.identity().ok(),
            Err(_) => None,
        };
        let is_kernel_thread = match identity {
            Some(identity) => identity.is_kernel_thread,
            None => pid == 0 || self.lacks_user_state(sample),
        };
        let cmdline: Option<CommandLine> = match &folder {
            Ok(folder) if !is_kernel_thread && self.filter.needs_cmdline() => {
                folder.command_line().ok()
            }
            _ => None,
        };
        let no_frames = is_kernel_thread && !self.callstacks.kernel;
        if no_frames || !self.filter.keeps(pid, cmdline.as_ref()) {
            return (Stage::Rejected, identity);
        }
        if is_kernel_thread || self.callstacks.user == UserFrames::None {
            helpers.unwinders.tell(pid, Job::NoUserspace(pid));
            return (Stage::Accepted, identity);
        }
        let stage = match helpers.lookup.descriptors(pid, folder) {
            Ok(descriptors) => {
                if let Err(sentence) = helpers.unwinders.adopt(pid, descriptors) {
                    helpers.lookup.tell(sentence);
                }
                Stage::Accepted
            }
            // There is nobody to wait for.
            Err(LookupError::Gone) => Stage::TimedOut,
            Err(LookupError::Denied(_) | LookupError::Failed(_)) => Stage::Resolving {
                until: helpers.now + self.descriptor_timeout,
            },
        };
        (stage, identity)
    }

    /// Whether what a program would have is missing in a sample that should have it.
    fn lacks_user_state(&self, sample: &record::Sample<'_>) -> bool {
        match self.callstacks.user {
            UserFrames::Dwarf | UserFrames::FramePointer => sample.registers.is_none(),
            UserFrames::KernelFramePointer => sample.callchain.user.is_none(),
            UserFrames::None => false,
        }
    }
}

/// Where a process stood then: the program it ran before can no longer be looked at.
fn stage_at(time: u64, process: &Process) -> Stage {
    match process.stage {
        Stage::Rejected => Stage::Rejected,
        _ if time < process.since => Stage::TimedOut,
        stage => stage,
    }
}

fn words(words: &Words<'_>) -> Box<[u64]> {
    words.iter().collect()
}

fn registers(registers: &UserRegisters<'_>) -> Option<Registers> {
    let abi = match registers.abi {
        Abi::Bits32 => 1,
        Abi::Bits64 => 2,
    };
    let values: Vec<u64> = registers.values.iter().collect();
    Registers::from_perf(Machine::NATIVE, abi, registers.mask, &values)
}
