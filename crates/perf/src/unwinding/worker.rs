//! The thread of one unwinder.

use std::collections::HashMap;
use std::sync::Arc;

use ferretto_metatrace::{Counter, Event, Recorder};
use ferretto_profiling::Frame;
use ferretto_unwind::{Cache, Mode, Process, StackCopy, UnwindError};
use rustc_hash::FxHashMap;

use super::panics::caught;
use super::queue::{Queue, Source, Taken};
use super::{Job, StackPool, Unwindable};
use crate::barrier::SourceKey;
use crate::config::UserFrames;
use crate::output::{Content, Mailbox, Message, Sample, SkipReason, Stack};

/// The number of finished samples in a batch.
const BATCH: usize = 32;

/// The largest number of processes that are reported as impossible to unwind.
const MAX_REPORTED: usize = 16;

/// A function that unwinds a sample of an accessible process.
type Unwind =
    fn(&Source, &mut Process, &Cache, &Unwindable, &mut Vec<ferretto_unwind::Frame>) -> Content;

/// The state of a process in an unwinder.
enum ProcessState {
    /// The descriptors may still arrive; the samples wait here.
    Waiting(Vec<Unwindable>),
    Known(Box<Process>),
    /// The samples are skipped.
    TimedOut,
    NoUserspace,
}

/// The caches shared by all unwinding of a thread.
struct Unwinder {
    cache: Arc<Cache>,
    recorder: Arc<Recorder>,
    frames: Vec<ferretto_unwind::Frame>,
    unwind: Unwind,
}

impl Unwinder {
    /// Returns the callstack of a sample.
    ///
    /// # Errors
    ///
    /// Fails if the process cannot be unwound: the remark.
    fn callstack(
        &mut self,
        source: &Source,
        process: &mut Process,
        unwindable: &Unwindable,
    ) -> Result<Content, String> {
        let pid = unwindable.pid();
        let current = Counter::ProfilerUnwindCurrentPid;
        self.recorder.counter(current, || pid as i32);
        let scope = self.recorder.scope(Event::ProfilerUnwindSample);
        let (cache, frames, unwind) = (&self.cache, &mut self.frames, self.unwind);
        let unwound = caught(pid, || unwind(source, process, cache, unwindable, frames));
        drop(scope);
        self.recorder.counter(current, || 0);
        unwound
    }
}

pub(super) struct Worker {
    queue: Arc<Queue>,
    mailbox: Arc<Mailbox>,
    stacks: Arc<StackPool>,
    recorder: Arc<Recorder>,
    unwinder: Unwinder,
    processes: HashMap<SourceKey, FxHashMap<u32, ProcessState>>,
    /// Finished samples of the current source.
    done: Vec<Sample>,
    /// The number of processes reported as impossible to unwind.
    remarks: usize,
}

impl Worker {
    pub(super) fn new(
        queue: Arc<Queue>,
        mailbox: Arc<Mailbox>,
        cache: Arc<Cache>,
        stacks: Arc<StackPool>,
        recorder: Arc<Recorder>,
    ) -> Self {
        Self {
            queue,
            mailbox,
            stacks,
            unwinder: Unwinder {
                cache,
                recorder: Arc::clone(&recorder),
                frames: Vec::new(),
                unwind,
            },
            recorder,
            processes: HashMap::new(),
            done: Vec::new(),
            remarks: 0,
        }
    }

    pub(super) fn run(mut self) {
        let queue = Arc::clone(&self.queue);
        let recorder = Arc::clone(&self.recorder);
        let mut jobs = Vec::new();
        while let Taken::Jobs(source) = queue.take(&mut jobs, true) {
            let tick = recorder.scope(Event::ProfilerUnwindTick);
            for job in jobs.drain(..) {
                self.handle(&source, job);
            }
            drop(tick);
            recorder.counter(Counter::ProfilerUnwindQueueSize, || source.queued());
            self.send(source.key);
        }
    }

    /// Sends the finished samples.
    fn send(&mut self, key: SourceKey) {
        if !self.done.is_empty() {
            let batch = std::mem::take(&mut self.done);
            self.mailbox.send_samples(key, batch);
        }
    }

    fn handle(&mut self, source: &Source, job: Job) {
        match job {
            Job::Sample(unwindable) => self.sample(source, *unwindable),
            Job::Adopt(pid, process) => self.set_state(source, pid, ProcessState::Known(process)),
            Job::Mapped(pid, map) => {
                let processes = self.processes.get_mut(&source.key);
                let state = processes.and_then(|processes| processes.get_mut(&pid));
                if let Some(ProcessState::Known(process)) = state {
                    process.mapped(*map);
                }
            }
            Job::Gone(process, unwindables) => self.gone(source, *process, unwindables),
            Job::TimedOut(pid) => self.set_state(source, pid, ProcessState::TimedOut),
            Job::NoUserspace(pid) => self.set_state(source, pid, ProcessState::NoUserspace),
            Job::Forget(pid) => {
                // No samples wait: a process is waited for before it is forgotten.
                self.set_state(source, pid, ProcessState::TimedOut);
                if let Some(processes) = self.processes.get_mut(&source.key) {
                    processes.remove(&pid);
                }
            }
            Job::ClearCache => self.clear_cache(source.key),
            Job::Barrier(barrier) => {
                self.send(source.key);
                self.mailbox.send(Message::Barrier(barrier));
            }
            Job::End => self.end(source),
        }
        if self.done.len() >= BATCH {
            self.send(source.key);
        }
    }

    /// Sets the state of a process, and handles its waiting samples.
    fn set_state(&mut self, source: &Source, pid: u32, state: ProcessState) {
        let processes = self.processes.entry(source.key).or_default();
        if let Some(ProcessState::Waiting(waiting)) = processes.insert(pid, state) {
            for unwindable in waiting {
                self.sample(source, unwindable);
            }
        }
    }

    /// Unwinds samples of a process that has ended, or of its previous program.
    fn gone(&mut self, source: &Source, mut process: Process, unwindables: Vec<Unwindable>) {
        let mut is_spoilt = false;
        for unwindable in unwindables {
            let content = if is_spoilt || source.is_purged() {
                Content::Skipped(SkipReason::UnwindStage)
            } else if unwindable.has_program() {
                let unwound = self.unwinder.callstack(source, &mut process, &unwindable);
                unwound.unwrap_or_else(|sentence| {
                    is_spoilt = true;
                    remark(&mut self.remarks, &self.mailbox, source.key, sentence);
                    Content::Skipped(SkipReason::UnwindStage)
                })
            } else {
                only_kernel(&unwindable)
            };
            self.finish(source, unwindable, content);
        }
    }

    fn sample(&mut self, source: &Source, unwindable: Unwindable) {
        if source.is_purged() {
            return self.finish(source, unwindable, Content::Counters);
        }
        let pid = unwindable.pid();
        let processes = self.processes.entry(source.key).or_default();
        let state = processes
            .entry(pid)
            .or_insert_with(|| ProcessState::Waiting(Vec::new()));
        if let ProcessState::Waiting(waiting) = state {
            waiting.push(unwindable);
            return;
        }
        let content = match state {
            ProcessState::Known(process) => {
                let unwound = self.unwinder.callstack(source, process, &unwindable);
                unwound.unwrap_or_else(|sentence| {
                    *state = ProcessState::TimedOut;
                    remark(&mut self.remarks, &self.mailbox, source.key, sentence);
                    Content::Skipped(SkipReason::UnwindStage)
                })
            }
            ProcessState::NoUserspace => only_kernel(&unwindable),
            ProcessState::Waiting(_) | ProcessState::TimedOut => {
                Content::Skipped(SkipReason::UnwindStage)
            }
        };
        self.finish(source, unwindable, content);
    }

    fn finish(&mut self, source: &Source, unwindable: Unwindable, content: Content) {
        let Unwindable {
            mut sample, stack, ..
        } = unwindable;
        self.stacks.give_back(stack);
        source.release();
        sample.content = content;
        if !source.is_purged() {
            self.done.push(sample);
        }
    }

    fn clear_cache(&mut self, key: SourceKey) {
        let _scope = self.recorder.scope(Event::ProfilerUnwindCacheClear);
        self.unwinder.cache.clear();
        for state in self.processes.entry(key).or_default().values_mut() {
            if let ProcessState::Known(process) = state {
                process.clear();
            }
        }
    }

    fn end(&mut self, source: &Source) {
        self.send(source.key);
        for (_, state) in self.processes.remove(&source.key).unwrap_or_default() {
            if let ProcessState::Waiting(waiting) = state {
                for unwindable in waiting {
                    self.finish(
                        source,
                        unwindable,
                        Content::Skipped(SkipReason::UnwindStage),
                    );
                }
            }
        }
        self.send(source.key);
        if self.processes.is_empty() {
            self.unwinder.cache.clear();
        }
    }
}

/// Reports a process that cannot be unwound, unless there were too many reports.
fn remark(remarks: &mut usize, mailbox: &Mailbox, key: SourceKey, sentence: String) {
    if *remarks < MAX_REPORTED {
        *remarks += 1;
        mailbox.send(Message::Remark(key, sentence));
    }
}

fn only_kernel(unwindable: &Unwindable) -> Content {
    Content::Stack(Stack {
        frames: kernel_frames(unwindable),
        error: None,
    })
}

fn kernel_frames(unwindable: &Unwindable) -> Vec<Frame> {
    unwindable
        .kernel_chain
        .iter()
        .map(|&address| Frame::Kernel(address))
        .collect()
}

/// Unwinds a sample of an accessible process.
fn unwind(
    source: &Source,
    process: &mut Process,
    cache: &Cache,
    unwindable: &Unwindable,
    frames: &mut Vec<ferretto_unwind::Frame>,
) -> Content {
    let mode = match source.callstacks.user {
        UserFrames::FramePointer => Mode::FramePointer,
        UserFrames::KernelFramePointer => Mode::KernelChain,
        UserFrames::Dwarf | UserFrames::None => Mode::Dwarf,
    };
    if unwindable.registers.is_none() && source.callstacks.user.copies_stack() {
        // A kernel thread has the process id now.
        return Content::Skipped(SkipReason::UnwindStage);
    }
    frames.clear();
    let copy = StackCopy {
        registers: unwindable.registers.as_ref(),
        stack: &unwindable.stack,
        stack_full: unwindable.stack_full,
        user_chain: &unwindable.user_chain,
    };
    let result: Result<(), UnwindError> = process.unwind(cache, &copy, mode, frames);
    let mut all = kernel_frames(unwindable);
    all.extend(frames.drain(..).map(Frame::User));
    Content::Stack(Stack {
        frames: all,
        error: result.err(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Callstacks;
    use crate::output::Task;
    use crate::process::ProcessFolder;
    use crate::record::CpuMode;

    /// Creates a sample without registers, like those of kernel threads.
    fn of_kernel_thread(pid: u32) -> Unwindable {
        Unwindable {
            sample: Sample {
                time: 1,
                cpu: 0,
                task: Some(Task {
                    pid,
                    tid: pid,
                    mode: CpuMode::Kernel,
                }),
                count: 1,
                followers: Box::default(),
                weight: 1,
                content: Content::Counters,
            },
            registers: None,
            stack: Vec::new(),
            stack_full: false,
            kernel_chain: Box::new([1, 2]),
            user_chain: Box::default(),
        }
    }

    fn worker(mailbox: &Arc<Mailbox>) -> Worker {
        let recorder = Arc::clone(ferretto_metatrace::Collector::<u8>::new(|| ()).recorder());
        Worker::new(
            Arc::default(),
            Arc::clone(mailbox),
            Arc::new(Cache::new()),
            Arc::default(),
            recorder,
        )
    }

    /// Adds this process under the id `pid`.
    fn adopt(worker: &mut Worker, source: &Source, pid: u32) {
        let folder = ProcessFolder::open(std::process::id()).unwrap();
        let descriptors = folder.descriptors().unwrap();
        worker.handle(
            source,
            super::super::adopt(pid, descriptors, Vec::new()).unwrap(),
        );
    }

    fn unwind_one(worker: &mut Worker, source: &Source, pid: u32) {
        assert!(source.reserve());
        worker.handle(source, Job::Sample(Box::new(of_kernel_thread(pid))));
    }

    #[test]
    fn a_panic_affects_one_process_and_is_reported() {
        let source = Source::new(SourceKey(1), Callstacks::default());
        let mailbox = Arc::<Mailbox>::default();
        let mut worker = worker(&mailbox);
        worker.unwinder.unwind = |_, _, _, unwindable, _| match unwindable.sample.task {
            Some(Task { pid: 1, .. }) => panic!("a broken table"),
            _ => Content::Stack(Stack::default()),
        };
        for pid in [1, 2] {
            adopt(&mut worker, &source, pid);
        }
        for pid in [1, 2, 1, 2] {
            unwind_one(&mut worker, &source, pid);
        }
        let skipped = |sample: &Sample| matches!(sample.content, Content::Skipped(_));
        let outcomes: Vec<bool> = worker.done.iter().map(skipped).collect();
        assert_eq!(outcomes, [true, false, true, false]);
        mailbox.close();
        // One remark, whatever the number of samples.
        let remarks = mailbox.take().unwrap();
        let [Message::Remark(SourceKey(1), sentence)] = remarks.as_slices().0 else {
            panic!("{remarks:?}");
        };
        assert!(sentence.contains("process 1 ") && sentence.contains("a broken table"));
        // The same id may be another program later.
        worker.unwinder.unwind = unwind;
        adopt(&mut worker, &source, 1);
        unwind_one(&mut worker, &source, 1);
        let last = worker.done.last().map(|sample| &sample.content);
        assert!(matches!(last, Some(Content::Stack(_))), "{last:?}");
    }

    #[test]
    fn perf_033_a_kernel_thread_with_the_number_of_a_process_is_skipped() {
        let callstacks = Callstacks {
            user: UserFrames::Dwarf,
            kernel: true,
        };
        let source = Source::new(SourceKey(1), callstacks);
        let mut worker = worker(&Arc::default());
        let pid = std::process::id();
        // The sample waits until the process is known.
        assert!(source.reserve());
        worker.handle(&source, Job::Sample(Box::new(of_kernel_thread(pid))));
        assert!(worker.done.is_empty());
        adopt(&mut worker, &source, pid);
        // A real kernel thread has only kernel frames.
        worker.handle(&source, Job::NoUserspace(2));
        assert!(source.reserve());
        worker.handle(&source, Job::Sample(Box::new(of_kernel_thread(2))));
        let contents: Vec<&Content> = worker.done.iter().map(|sample| &sample.content).collect();
        let [skipped, Content::Stack(stack)] = contents[..] else {
            panic!("{contents:?}");
        };
        assert!(matches!(skipped, Content::Skipped(SkipReason::UnwindStage)));
        assert_eq!(stack.frames.len(), 2);
    }
}
