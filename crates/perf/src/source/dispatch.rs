//! Dispatch of the records of the rings.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferretto_unwind::{Machine, Process as Unwound, Registers};
use rustc_hash::FxHashMap;

use super::lookup::Lookup;
use super::names::Names;
use super::off_cpu::{Absences, Waits};
use super::pending_exec::PendingExec;
use crate::config::{Callstacks, Plan, UserFrames};
use crate::filter::{CommandLine, Filter};
use crate::output::{Content, Sample, SkipReason, Task, Unsampled};
use crate::process::{
    Histories, Identity, LookupError, Mapped, Process, ProcessFolder, ProcessTable, Stage,
};
use crate::record::{Abi, CpuMode, Record, SampleRecord, UserRegisters, Words};
use crate::unwinding::{self, Job, Unwindable, Unwinders};

/// The process id in samples of a task that has ended.
const NO_PROCESS: u32 = u32::MAX;

/// Dispatches each record by its type and process.
#[derive(Debug)]
pub(super) struct RecordDispatch {
    pub(super) source: Arc<unwinding::Source>,
    callstacks: Callstacks,
    max_enqueued_bytes: u64,
    descriptor_timeout: Duration,
    filter: Filter,
    pub(super) processes: ProcessTable,
    /// The times at which processes executed other programs, while there may be earlier samples.
    execs: [FxHashMap<u32, u64>; 2],
    /// The histories of processes, including ended ones.
    histories: Histories,
    pending: PendingExec,
    /// The number of rounds so far.
    round: u64,
    /// The timebase count of the previous sample, by CPU.
    counted: FxHashMap<u32, u64>,
    pub(super) absences: Option<Absences>,
    /// The names of processes and threads, if requested.
    pub(super) names: Option<Names>,
    /// Finished samples.
    pub(super) done: Vec<Sample>,
    /// CPUs with lost records, and the numbers of these.
    pub(super) lost: Vec<(u32, u64)>,
    /// Set if records were lost, or too many samples were pending.
    pub(super) has_lost: bool,
}

/// The parts of the source that the dispatch uses.
pub(super) struct DispatchContext<'a> {
    pub(super) unwinders: &'a mut Unwinders,
    pub(super) lookup: &'a mut Lookup,
    pub(super) now: Instant,
}

impl RecordDispatch {
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
            histories: Histories::default(),
            pending: PendingExec::default(),
            round: 0,
            counted: FxHashMap::default(),
            absences: is_off_cpu.then(Absences::default),
            names: None,
            done: Vec::new(),
            lost: Vec::new(),
            has_lost: false,
        }
    }

    pub(super) fn record(&mut self, cpu: u32, record: Record<'_>, cx: &mut DispatchContext<'_>) {
        match record {
            Record::Sample(sample) => self.sample(&sample, cx),
            Record::Lost { count } => {
                self.has_lost = true;
                self.lost.push((cpu, count));
            }
            // The number of records is unknown; at least one.
            Record::Malformed { .. } => self.lost.push((cpu, 1)),
            Record::Fork(task) if task.pid != task.parent_pid => {
                self.histories.forked(task.pid, task.parent_pid, task.time);
            }
            Record::Exit(task) => {
                if let Some(absences) = &mut self.absences {
                    absences.exited(task.tid, task.time);
                }
                self.processes.suspect(task.pid);
                if task.is_process() {
                    self.histories.ended(task.pid, task.time);
                }
                if let Some(names) = &mut self.names {
                    names.ended(task.tid);
                }
            }
            Record::Mmap2 {
                time,
                pid,
                start,
                length,
                offset,
                device,
                inode,
                path,
                ..
            } => {
                let mapped = Mapped {
                    start,
                    length,
                    offset,
                    device,
                    inode,
                    path,
                };
                self.mapped(pid, time, &mapped, cx.unwinders);
            }
            Record::Comm {
                time,
                pid,
                exec: true,
                ..
            } => {
                self.forget(pid, cx.unwinders);
                self.execs[0].insert(pid, time);
                self.histories.executed(pid, time);
                if let Some(names) = &mut self.names {
                    names.executed(pid);
                }
            }
            Record::Comm { pid, tid, name, .. } => {
                if let Some(names) = &mut self.names {
                    names.renamed(pid, tid, name);
                }
            }
            Record::Switch(switch) => {
                if let Some(absences) = &mut self.absences {
                    if switch.out {
                        absences.left(switch.pid, switch.tid, switch.time);
                    } else {
                        absences.resumed(switch.tid, switch.time);
                    }
                }
            }
            _ => {}
        }
    }

    /// Handles a mapping of code. The unwinder of the process is notified, since the process may
    /// end before its maps can be read again.
    fn mapped(&mut self, pid: u32, time: u64, mapped: &Mapped<'_>, unwinders: &mut Unwinders) {
        let process = self.processes.get(pid);
        let is_unwound = mapped.inode != 0
            && process.is_some_and(|process| {
                process.stage == Stage::Accepted && process.since <= time && process.has_program
            });
        let map = self.histories.mapped(pid, time, mapped);
        if let Some(map) = map.filter(|_| is_unwound) {
            unwinders.assign(pid, Job::Mapped(pid, Box::new(map.clone())));
        }
    }

    /// Ends the matching of absences at `now`. Returns the times without a sample, and the numbers
    /// of all absences; `None` if only running threads are sampled.
    pub(super) fn finish_absences(&mut self, now: u64) -> Option<(Vec<Unsampled>, Waits)> {
        let filter = &mut self.filter;
        let absences = self.absences.as_mut()?;
        Some(absences.finish(now, |pid| filter.keeps(pid, None)))
    }

    /// Ends a round, in which every ring has been read.
    pub(super) fn end_of_round(&mut self, unwinders: &mut Unwinders) {
        self.round += 1;
        let waited = self.pending.end_of_round();
        self.unwind_pending(waited, unwinders);
        self.histories.end_of_round();
        self.execs.swap(0, 1);
        self.execs[0].clear();
        for pid in self.processes.expire() {
            unwinders.assign(pid, Job::Forget(pid));
        }
    }

    fn forget(&mut self, pid: u32, unwinders: &mut Unwinders) {
        if self.processes.remove(pid) {
            unwinders.assign(pid, Job::Forget(pid));
        }
    }

    /// Times out pending processes.
    pub(super) fn time_out(&mut self, cx: &mut DispatchContext<'_>) {
        for pid in self.processes.time_out(cx.now) {
            cx.unwinders.assign(pid, Job::TimedOut(pid));
        }
    }

    fn sample(&mut self, sample: &SampleRecord<'_>, cx: &mut DispatchContext<'_>) {
        if !self.callstacks.sampled() {
            return self.finish(sample, Content::Counters);
        }
        let process = self.decide(sample, cx);
        if let Some(names) = self
            .names
            .as_mut()
            .filter(|_| process.stage != Stage::Rejected)
        {
            names.seen(sample.pid, sample.tid);
        }
        let is_earlier = sample.time < process.since;
        let content = match process.stage {
            Stage::Rejected => Content::Skipped(SkipReason::NotInScope),
            Stage::Gone => return self.enqueue(sample, true, cx),
            _ if is_earlier => return self.enqueue(sample, true, cx),
            Stage::TimedOut => Content::Skipped(SkipReason::ReadStage),
            Stage::Accepted | Stage::Resolving { .. } => {
                let user_only = sample.cpu_mode == CpuMode::User;
                if self.callstacks.user != UserFrames::None || !user_only {
                    let is_new = process.has_program && self.round < process.round + 2;
                    return self.enqueue(sample, is_new, cx);
                }
                Content::Counters
            }
        };
        self.finish(sample, content);
    }

    /// Unwinds all pending samples, after all rings have been read.
    pub(super) fn unwind_all_pending(&mut self, unwinders: &mut Unwinders) {
        let waited = self.pending.all();
        self.unwind_pending(waited, unwinders);
    }

    /// Drops all pending samples.
    pub(super) fn purge(&mut self, unwinders: &Unwinders) {
        for unwindable in self.pending.all() {
            unwinders.stacks.give_back(unwindable.stack);
        }
    }

    /// Unwinds samples that are no longer pending: their programs are known by now.
    fn unwind_pending(&mut self, waited: Vec<Unwindable>, unwinders: &mut Unwinders) {
        // By process and the start time of its program.
        let mut gone: FxHashMap<(u32, u64), Vec<Unwindable>> = FxHashMap::default();
        for unwindable in waited {
            let time = unwindable.sample.time;
            let pid = unwindable.pid();
            let process = self.processes.get(pid);
            let process = process.filter(|process| process.since <= time);
            match process.map(|process| process.stage) {
                Some(Stage::Accepted | Stage::Resolving { .. }) => {
                    self.hand_over(Box::new(unwindable), unwinders);
                }
                Some(Stage::TimedOut | Stage::Rejected) => {
                    self.skip(unwindable, SkipReason::ReadStage, unwinders);
                }
                Some(Stage::Gone) | None => {
                    let begun = self.histories.begun_at(pid, time);
                    gone.entry((pid, begun)).or_default().push(unwindable);
                }
            }
        }
        for ((pid, _), unwindables) in gone {
            self.unwind_gone(pid, unwindables, unwinders);
        }
    }

    /// Unwinds samples of one program that cannot be examined any more.
    fn unwind_gone(&mut self, pid: u32, unwindables: Vec<Unwindable>, unwinders: &mut Unwinders) {
        let time = unwindables
            .first()
            .map_or(0, |unwindable| unwindable.sample.time);
        let code = self.histories.code_at(pid, time).unwrap_or_default();
        let program = code.iter().find(|map| map.inode != 0);
        let cmdline = program.map(|map| CommandLine::of_program(&map.name));
        let has_frames = unwindables.iter().any(Unwindable::has_program);
        let is_wanted =
            (has_frames || self.callstacks.kernel) && self.filter.keeps(pid, cmdline.as_ref());
        let reason = match () {
            () if !is_wanted => Some(SkipReason::NotInScope),
            () if code.is_empty() && has_frames => Some(SkipReason::ReadStage),
            () => None,
        };
        if let Some(reason) = reason {
            for unwindable in unwindables {
                self.skip(unwindable, reason, unwinders);
            }
            return;
        }
        let process = Unwound::gone(pid, code, self.histories.roots(pid));
        for mut sample in unwinders.enqueue_gone(&self.source, pid, process, unwindables) {
            sample.content = Content::Skipped(SkipReason::UnwindEnqueue);
            self.done.push(sample);
        }
    }

    fn skip(&mut self, unwindable: Unwindable, reason: SkipReason, unwinders: &Unwinders) {
        unwinders.stacks.give_back(unwindable.stack);
        if self.absences.is_some() && reason == SkipReason::NotInScope {
            return;
        }
        let mut sample = unwindable.sample;
        sample.content = Content::Skipped(reason);
        self.done.push(sample);
    }

    fn hand_over(&mut self, unwindable: Box<Unwindable>, unwinders: &mut Unwinders) {
        if let Err(mut sample) = unwinders.enqueue(&self.source, unwindable) {
            self.has_lost = true;
            sample.content = Content::Skipped(SkipReason::UnwindEnqueue);
            self.done.push(sample);
        }
    }

    fn finish(&mut self, sample: &SampleRecord<'_>, content: Content) {
        let is_unwanted = matches!(content, Content::Skipped(SkipReason::NotInScope));
        let done = self.sample_of(sample, content);
        if self.absences.is_some() && is_unwanted {
            return;
        }
        if let Some(absences) = &mut self.absences {
            absences.sampled(sample.tid, sample.time);
        }
        self.done.push(done);
    }

    /// Returns the sample with the fields common to all kinds of content.
    fn sample_of(&mut self, sample: &SampleRecord<'_>, content: Content) -> Sample {
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

    /// Enqueues a sample to be unwound, or keeps it until its program is known.
    fn enqueue(
        &mut self,
        sample: &SampleRecord<'_>,
        may_be_earlier: bool,
        cx: &mut DispatchContext<'_>,
    ) {
        let stacks = &cx.unwinders.stacks;
        if stacks.bytes().saturating_add(sample.stack.len() as u64) >= self.max_enqueued_bytes {
            return self.finish(sample, Content::Skipped(SkipReason::UnwindEnqueue));
        }
        let stack = stacks.copy(sample.stack);
        let unwindable = Unwindable {
            sample: self.sample_of(sample, Content::Counters),
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
        };
        if let Some(absences) = &mut self.absences {
            absences.sampled(sample.tid, sample.time);
        }
        if !may_be_earlier {
            return self.hand_over(Box::new(unwindable), cx.unwinders);
        }
        if let Err(unwindable) = self.pending.put(unwindable) {
            self.skip(*unwindable, SkipReason::UnwindEnqueue, cx.unwinders);
        }
    }

    /// Returns the stage of the sample's process, and decides it on the first sample.
    fn decide(&mut self, sample: &SampleRecord<'_>, cx: &mut DispatchContext<'_>) -> Process {
        if let Some(process) = self.processes.get(sample.pid) {
            return *process;
        }
        let since = self.execs.iter().filter_map(|execs| execs.get(&sample.pid));
        let since = since.copied().max().unwrap_or(0);
        let (stage, identity) = self.first_look(sample, cx);
        let process = Process {
            stage,
            identity,
            since,
            round: self.round,
            has_program: identity.is_some_and(|identity| !identity.is_kernel_thread)
                && self.callstacks.user != UserFrames::None,
        };
        self.processes.insert(sample.pid, process);
        process
    }

    fn first_look(
        &mut self,
        sample: &SampleRecord<'_>,
        cx: &mut DispatchContext<'_>,
    ) -> (Stage, Option<Identity>) {
        let pid = sample.pid;
        let folder = match pid {
            0 => Err(LookupError::Gone),
            pid => ProcessFolder::open(pid),
        };
        // The filter is applied once the program is known.
        let is_gone = matches!(folder, Err(LookupError::Gone)) && pid != 0 && pid != NO_PROCESS;
        if is_gone && self.callstacks.user != UserFrames::None {
            return (Stage::Gone, None);
        }
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
            cx.unwinders.assign(pid, Job::NoUserspace(pid));
            return (Stage::Accepted, identity);
        }
        let stage = match cx.lookup.descriptors(pid, folder) {
            Ok(descriptors) => match cx.unwinders.adopt(pid, descriptors, self.roots(pid)) {
                Ok(true) => Stage::Accepted,
                Ok(false) => Stage::Gone,
                Err(sentence) => {
                    cx.lookup.remark(sentence);
                    Stage::Accepted
                }
            },
            Err(LookupError::Gone) => Stage::Gone,
            Err(LookupError::Denied(_) | LookupError::Failed(_)) => Stage::Resolving {
                until: cx.now + self.descriptor_timeout,
            },
        };
        (stage, identity)
    }

    /// Returns the directories in which file names of a process are looked up.
    pub(super) fn roots(&mut self, pid: u32) -> Vec<Arc<OwnedFd>> {
        self.histories.roots(pid)
    }

    /// Returns true if a sample lacks the user state that it should have.
    fn lacks_user_state(&self, sample: &SampleRecord<'_>) -> bool {
        match self.callstacks.user {
            UserFrames::Dwarf | UserFrames::FramePointer => sample.registers.is_none(),
            UserFrames::KernelFramePointer => sample.callchain.user.is_none(),
            UserFrames::None => false,
        }
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
