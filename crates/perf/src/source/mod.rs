//! Instances of the data source `linux.perf`.

mod dispatch;
mod lookup;
mod names;
mod off_cpu;
mod pending_exec;
mod start;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ferretto_client::{InstanceId, Timer};
use ferretto_metatrace::Event;

use self::dispatch::{DispatchContext, RecordDispatch};
pub(crate) use self::lookup::Lookup;
use self::names::Names;
pub(crate) use self::start::{Started, start};
use crate::barrier::{Action, Barrier, SourceKey};
use crate::config::{Clock, Mode, Plan, UserFrames};
use crate::event::{Reader, Watch};
use crate::output::{Content, Mailbox, Message, Sample};
use crate::process::{Descriptors, Stage};
use crate::unwinding::{Job, Unwinders};

/// The maximum period between reads if processes are examined. Reading an empty ring is very cheap.
const LOOK_PERIOD: Duration = Duration::from_millis(20);
/// The period of the search for processes that ended without a record.
const SWEEP_PERIOD: Duration = Duration::from_secs(5);
/// The period of the check of the daemon's memory limit.
const MEMORY_PERIOD: Duration = Duration::from_secs(1);
/// The largest number of repeated reads while rings fill up during a flush or at the end.
const MAX_ROUNDS: usize = 64;

/// The threads and tables that sources use.
pub(crate) struct Context<'a> {
    pub(crate) mailbox: &'a Mailbox,
    pub(crate) unwinders: &'a mut Unwinders,
    pub(crate) lookup: &'a mut Lookup,
}

/// A running instance.
#[derive(Debug)]
pub(crate) struct PerfSource {
    pub(crate) key: SourceKey,
    id: InstanceId,
    plan: Plan,
    readers: Vec<Reader>,
    watch: Watch,
    /// CPUs already reported as failing.
    failed_cpus: Vec<u32>,
    dispatch: RecordDispatch,
    is_stopping: bool,
    /// The time of the stop on the clock of samples.
    stopped: Option<u64>,
    tick: Timer,
    sweep: Timer,
    clear: Timer,
    memory: Option<Timer>,
}

/// The result of running a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Runs,
    /// The source has stopped, and all its data is on the way to the writer.
    Stopped,
    /// The daemon exceeds the memory limit, with this many kB.
    TooLarge {
        kb: u64,
        limit: u64,
    },
}

impl PerfSource {
    fn salt(&self) -> u64 {
        self.id.0
    }

    /// Returns the time of the next call of [`run`](Self::run).
    pub(crate) fn due(&self, now: u64, now_instant: Instant) -> Duration {
        let mut timers = vec![
            self.tick.until(now),
            self.sweep.until(now),
            self.clear.until(now),
        ];
        timers.extend(self.memory.map(|timer| timer.until(now)));
        let timeout = self.dispatch.processes.next_timeout();
        timers.extend(timeout.map(|until| until.saturating_duration_since(now_instant)));
        timers.into_iter().min().unwrap_or_default()
    }

    /// Returns the rings to be polled: they are readable when they are half full.
    pub(crate) fn rings(&self) -> impl Iterator<Item = &Reader> {
        let has_rings = self.plan.sampling().is_some();
        self.readers.iter().filter(move |_| has_rings)
    }

    /// Does the work that is due, and reads the rings early if one `has_filled`.
    pub(crate) fn run(&mut self, now: u64, has_filled: bool, cx: &mut Context<'_>) -> Outcome {
        if self.memory.is_some_and(|timer| timer.is_due(now)) {
            self.memory = Some(Timer::next(now, MEMORY_PERIOD, self.salt()));
            if let Some(outcome) = self.check_memory() {
                return outcome;
            }
        }
        if self.clear.is_due(now) {
            self.clear = Timer::next(now, self.plan.cache_clear_period, self.salt());
            cx.unwinders.assign_to_all(|| Job::ClearCache);
        }
        if self.sweep.is_due(now) {
            self.sweep = Timer::next(now, SWEEP_PERIOD, self.salt());
            self.dispatch.processes.suspect_all();
            if !self.is_stopping {
                self.follow_cpus(cx);
            }
        }
        let mut is_empty = false;
        if self.tick.is_due(now) || has_filled {
            is_empty = self.read(cx);
            let pause = period(&self.plan);
            self.tick = if self.is_stopping || !is_empty {
                Timer::at(now)
            } else {
                Timer::next(now, pause, self.salt())
            };
        }
        self.time_out(cx);
        if self.is_stopping && is_empty && !self.dispatch.processes.is_resolving() {
            self.finish(cx);
            return Outcome::Stopped;
        }
        if self.is_stopping && is_empty {
            // Until descriptors arrive or time out.
            self.tick = Timer::at(now + 10_000_000);
        }
        self.hand_over(cx);
        Outcome::Runs
    }

    /// Returns true if samples were lost, or skipped because too many were pending.
    pub(crate) fn has_lost(&self) -> bool {
        self.dispatch.has_lost
    }

    fn time_out(&mut self, cx: &mut Context<'_>) {
        self.dispatch.time_out(&mut DispatchContext {
            unwinders: cx.unwinders,
            lookup: cx.lookup,
            now: Instant::now(),
        });
    }

    /// Reads every ring or counter. Returns true if nothing is left.
    fn read(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(sampling) = self.plan.sampling() else {
            self.poll();
            return true;
        };
        let recorder = Arc::clone(&cx.unwinders.recorder);
        let _tick = recorder.scope(Event::ProfilerReadTick);
        let (limit, clock) = (sampling.samples_per_read, sampling.clock);
        let begin = now(clock);
        let mut is_empty = true;
        let mut dispatch_cx = DispatchContext {
            unwinders: cx.unwinders,
            lookup: cx.lookup,
            now: Instant::now(),
        };
        let dispatch = &mut self.dispatch;
        for reader in &mut self.readers {
            let cpu = reader.cpu();
            let _scope = recorder.scope(Event::ProfilerReadCpu);
            let drained = reader.read(limit, &mut |record| {
                dispatch.record(cpu, record, &mut dispatch_cx)
            });
            is_empty &= drained.empty;
        }
        if is_empty {
            dispatch.end_of_round(dispatch_cx.unwinders);
            if let Some(absences) = &mut dispatch.absences {
                let until = if self.is_stopping { u64::MAX } else { begin };
                let ended = absences.take_ended(until);
                if !ended.is_empty() {
                    cx.mailbox.send(Message::Resumed(self.key, ended));
                }
            }
        }
        is_empty
    }

    /// Starts counting on new CPUs, and reads the remaining records of removed ones.
    fn follow_cpus(&mut self, cx: &mut Context<'_>) {
        let kernel = cx.lookup.kernel();
        let changes = self.watch.follow(&self.plan, kernel, &mut self.readers);
        for (cpu, error) in changes.failed {
            if !self.failed_cpus.contains(&cpu) {
                self.failed_cpus.push(cpu);
                cx.lookup.remark(format!("CPU {cpu} is left out: {error}"));
            }
        }
        let mut dispatch_cx = DispatchContext {
            unwinders: cx.unwinders,
            lookup: cx.lookup,
            now: Instant::now(),
        };
        let dispatch = &mut self.dispatch;
        for mut reader in changes.gone {
            let cpu = reader.cpu();
            reader.read(u64::MAX, &mut |record| {
                dispatch.record(cpu, record, &mut dispatch_cx)
            });
            dispatch.lost.push((cpu, reader.take_unreported_lost()));
        }
    }

    fn poll(&mut self) {
        let mut counts = Vec::new();
        for reader in &self.readers {
            let time = now(Clock::Boottime);
            if reader.counts(&mut counts).is_err() {
                continue;
            }
            self.dispatch.done.push(Sample {
                time,
                cpu: reader.cpu(),
                task: None,
                count: counts.first().copied().unwrap_or(0),
                followers: counts.get(1..).unwrap_or_default().into(),
                weight: 0,
                content: Content::Counters,
            });
        }
    }

    /// Passes finished samples and other results to the writer.
    fn hand_over(&mut self, cx: &mut Context<'_>) {
        let names = self.dispatch.names.as_mut().map(Names::take);
        if let Some(names) = names.filter(|names| !names.is_empty()) {
            cx.mailbox.send(Message::Names(self.key, names));
        }
        cx.unwinders.hand_over(&self.dispatch.source);
        if !self.dispatch.done.is_empty() {
            let done = std::mem::take(&mut self.dispatch.done);
            if let Err(refused) = cx.mailbox.try_send_samples(self.key, done) {
                let lost = refused.iter().map(|sample| (sample.cpu, 1));
                self.dispatch.lost.extend(lost);
            }
        }
        for text in cx.lookup.take_remarks() {
            cx.mailbox.send(Message::Remark(self.key, text));
        }
        let mut lost = std::mem::take(&mut self.dispatch.lost);
        lost.sort_unstable();
        lost.retain(|(_, count)| *count > 0);
        for of_cpu in lost.chunk_by(|one, other| one.0 == other.0) {
            cx.mailbox.send(Message::Lost {
                source: self.key,
                cpu: of_cpu[0].0,
                count: of_cpu.iter().map(|(_, count)| count).sum(),
            });
        }
    }

    /// Reads the rings.
    pub(crate) fn flush(&mut self, cx: &mut Context<'_>) {
        for _ in 0..MAX_ROUNDS {
            if self.plan.sampling().is_none() || self.read(cx) {
                break;
            }
        }
        self.time_out(cx);
        self.dispatch.unwind_all_pending(cx.unwinders);
        self.hand_over(cx);
    }

    /// Sends `barrier` after all samples read so far, through every unwinder.
    pub(crate) fn send_barrier(&mut self, cx: &mut Context<'_>, barrier: &Arc<Barrier>) {
        cx.unwinders
            .assign_to_all(|| Job::Barrier(Arc::clone(barrier)));
        cx.unwinders.hand_over(&self.dispatch.source);
    }

    /// Stops counting. [`run`](Self::run) continues until everything is read.
    pub(crate) fn stop(&mut self, now: u64) {
        self.is_stopping = true;
        self.stopped = self
            .plan
            .sampling()
            .map(|sampling| self::now(sampling.clock));
        for reader in &mut self.readers {
            // It is going to be closed in any case.
            let _ = reader.disable();
        }
        self.tick = Timer::at(now);
    }

    /// Reports the share of process time without samples, if it is large.
    fn report_unsampled(&self, cx: &mut Context<'_>) {
        const LEAST: u64 = 50_000_000;
        let pairs = self.readers.iter().filter_map(Reader::sampled_of_tasks);
        let (counted, sampled) = pairs.fold((0, 0), |sum: (u64, u64), pair| {
            (sum.0.saturating_add(pair.0), sum.1.saturating_add(pair.1))
        });
        let missed = counted.saturating_sub(sampled);
        if missed < LEAST.max(counted / 10) || !self.plan.timebase.counts_nanoseconds() {
            return;
        }
        let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
        cx.lookup.remark(format!(
            "{:.2} s of {:.2} s have no samples: the kernel's part if that is left out, and processes that ended before their \
             first sample was due; record at a higher rate to see more of these",
            seconds(missed),
            seconds(counted)
        ));
    }

    /// Passes the times without a callstack to the writer, and reports their share.
    fn finish_absences(&mut self, cx: &mut Context<'_>) {
        let Some(sampling) = self.plan.sampling() else {
            return;
        };
        let now = self.stopped.unwrap_or_else(|| now(sampling.clock));
        let Some((unsampled, waits)) = self.dispatch.finish_absences(now) else {
            return;
        };
        cx.mailbox
            .send(Message::Unsampled(self.key, unsampled, now));
        if waits.sampled < waits.all {
            let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
            cx.lookup.remark(format!(
                "off-CPU times are those of all {} waits ({:.2} s); {} of them ({:.2} s) have a callstack, which stands for \
                 those of its thread since the one before",
                waits.all,
                seconds(waits.all_ns),
                waits.sampled,
                seconds(waits.sampled_ns)
            ));
        }
    }

    /// Finishes after everything has been read: the writer does the rest.
    pub(crate) fn finish(&mut self, cx: &mut Context<'_>) {
        self.report_unsampled(cx);
        self.finish_absences(cx);
        for reader in &mut self.readers {
            let lost = reader.take_unreported_lost();
            self.dispatch.lost.push((reader.cpu(), lost));
        }
        // Before the end is reported.
        self.readers.clear();
        self.dispatch.unwind_all_pending(cx.unwinders);
        self.hand_over(cx);
        let action = Action::Stop {
            source: self.key,
            instance: self.id,
        };
        let barrier = Arc::new(Barrier::new(cx.unwinders.ways(), action));
        cx.unwinders
            .assign_to_all(|| Job::Barrier(Arc::clone(&barrier)));
        cx.unwinders.assign_to_all(|| Job::End);
        cx.unwinders.hand_over(&self.dispatch.source);
        cx.mailbox.send(Message::Barrier(barrier));
    }

    /// Ends at once; samples that are not written yet are dropped.
    pub(crate) fn purge(mut self, cx: &mut Context<'_>) {
        self.dispatch.purge(cx.unwinders);
        cx.unwinders.purge(&self.dispatch.source);
        cx.mailbox.send(Message::Purge(self.key));
    }

    /// Ends because of the memory limit, and reports that.
    pub(crate) fn end_by_guardrail(mut self, cx: &mut Context<'_>) -> bool {
        self.dispatch.purge(cx.unwinders);
        cx.unwinders.purge(&self.dispatch.source);
        cx.mailbox.send(Message::Guardrail(self.key));
        self.is_stopping
    }

    /// Stores the received descriptors of a process. Returns true if this source was waiting for
    /// them.
    pub(crate) fn adopt(&mut self, pid: u32, descriptors: &Descriptors, cx: &mut Context<'_>) {
        let stage = self
            .dispatch
            .processes
            .get(pid)
            .map(|process| process.stage);
        if !matches!(stage, Some(Stage::Resolving { .. } | Stage::TimedOut)) {
            return;
        }
        let Ok(descriptors) = descriptors.try_clone() else {
            return;
        };
        let roots = self.dispatch.roots(pid);
        match cx.unwinders.adopt(pid, descriptors, roots) {
            Ok(true) => {}
            Ok(false) => return,
            Err(sentence) => cx.lookup.remark(sentence),
        }
        self.dispatch.processes.set_stage(pid, Stage::Accepted);
        cx.unwinders.hand_over(&self.dispatch.source);
    }

    fn check_memory(&self) -> Option<Outcome> {
        let limit = self.plan.max_daemon_memory_kb?.into();
        let kb = memory_kb()?;
        (kb > limit).then_some(Outcome::TooLarge { kb, limit })
    }
}

/// Returns the time between two reads.
fn period(plan: &Plan) -> Duration {
    match &plan.mode {
        Mode::Polling { period } => *period,
        // Short-lived processes must be examined while they exist.
        Mode::Sampling(sampling) if plan.callstacks.user != UserFrames::None => {
            sampling.read_period.min(LOOK_PERIOD)
        }
        Mode::Sampling(sampling) => sampling.read_period,
    }
}

/// Returns the anonymous memory of this process, resident and swapped, in kB.
fn memory_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    Some(field("RssAnon:")? + field("VmSwap:")?)
}

fn now(clock: Clock) -> u64 {
    use rustix::time::{ClockId, clock_gettime};
    let time = clock_gettime(match clock {
        Clock::Realtime => ClockId::Realtime,
        Clock::Monotonic => ClockId::Monotonic,
        Clock::MonotonicRaw => ClockId::MonotonicRaw,
        Clock::Boottime => ClockId::Boottime,
    });
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
