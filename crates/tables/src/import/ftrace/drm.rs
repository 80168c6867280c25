//! Events of graphics drivers: vertical blanks, GPU jobs, and fences.

use std::collections::VecDeque;

use ferretto_proto::fields::{
    dma_fence_emit_ftrace_event as fence, drm_run_job_ftrace_event as old_job,
    drm_sched_job_done_ftrace_event as signalled, drm_sched_job_run_ftrace_event as job,
    drm_sched_process_job_ftrace_event as done, drm_vblank_event_ftrace_event as vblank,
    ftrace_event as event,
};
use rustc_hash::FxHashMap;

use super::{Context, Head};
use crate::import::message::Message;
use crate::schema::ArgValue;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::flow::FlowTracker;
use crate::trackers::slice::SliceStart;
use crate::trackers::track::{Dimension, TrackSpec};

/// The maximum number of jobs, of rings and of timelines.
const MAX_KEYS: usize = 1 << 14;

/// The timeline of composite fences, each of which has its own timeline.
const UNBOUND: &[u8] = b"unbound";

/// The current work of GPUs.
#[derive(Debug, Default)]
pub(super) struct Drm {
    rings: FxHashMap<StringId, Ring>,
    /// The rings of running jobs.
    busy: FxHashMap<Job, StringId>,
    timelines: FxHashMap<u32, Timeline>,
}

/// The identity of a job in events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Job {
    /// The context and the sequence number of its fence.
    Fence(u64, u64),
    /// The address of its fence.
    Address(u64),
    /// Its number in its ring.
    Number(u64),
}

/// A queue of a GPU.
#[derive(Debug)]
struct Ring {
    track: u32,
    /// The queued jobs with their numbers, the running one first.
    jobs: VecDeque<(Job, u64)>,
    /// The slices of queueing jobs.
    queued: FxHashMap<Job, u32>,
}

/// A timeline of fences.
#[derive(Debug)]
struct Timeline {
    track: u32,
    /// The numbers of fences that are not signaled.
    pending: VecDeque<u32>,
    /// Set if there are events of emitted fences. Those of initialized ones are then ignored.
    is_emitted: bool,
}

impl Drm {
    /// Parses an event. Returns false for other events.
    pub(super) fn parse(
        &mut self,
        cx: &mut Context,
        head: &Head<'_>,
        number: u32,
        body: &[u8],
    ) -> bool {
        match number {
            event::DRM_VBLANK_EVENT => blank(cx, head, "signal", body),
            event::DRM_VBLANK_EVENT_DELIVERED => blank(cx, head, "deliver", body),
            event::DRM_SCHED_JOB => {
                let body = Message::<7>::read(body);
                let number = body.uint(old_job::ID);
                let name = body.bytes(old_job::NAME);
                self.queue(cx, head, name, Job::Number(number), number);
            }
            event::DRM_RUN_JOB => {
                let body = Message::<7>::read(body);
                let job = Job::Address(body.uint(old_job::FENCE));
                let number = body.uint(old_job::ID);
                self.run(cx, head.ts, body.bytes(old_job::NAME), job, number);
            }
            event::DRM_SCHED_PROCESS_JOB => {
                let address = Message::<2>::read(body).uint(done::FENCE);
                self.done(cx, head.ts, Job::Address(address));
            }
            event::DRM_SCHED_JOB_QUEUE => {
                let body = Message::<8>::read(body);
                let job = fence_of(&body);
                self.queue(cx, head, body.bytes(job::NAME), job, 0);
            }
            event::DRM_SCHED_JOB_RUN => {
                let body = Message::<8>::read(body);
                let job = fence_of(&body);
                self.run(cx, head.ts, body.bytes(job::NAME), job, 0);
            }
            event::DRM_SCHED_JOB_DONE => {
                let body = Message::<3>::read(body);
                let (context, number) = (
                    body.uint(signalled::FENCE_CONTEXT),
                    body.uint(signalled::FENCE_SEQNO),
                );
                self.done(cx, head.ts, Job::Fence(context, number));
            }
            event::DMA_FENCE_INIT | event::DMA_FENCE_EMIT | event::DMA_FENCE_SIGNALED => {
                self.fence(cx, head.ts, number, body);
            }
            event::DMA_FENCE_WAIT_START | event::DMA_FENCE_WAIT_END => {
                let utid = cx.processes.thread(&mut cx.store, head.tid);
                let track = cx.tracks.of_thread(&mut cx.store, utid);
                if number == event::DMA_FENCE_WAIT_END {
                    end(cx, head.ts, track);
                    return true;
                }
                let body = Message::<5>::read(body);
                let mut args = ArgSet::default();
                let context = ArgValue::Uint(body.u32(fence::CONTEXT).into());
                args.put(&mut cx.store, "fence context", context);
                let seqno = ArgValue::Uint(body.u32(fence::SEQNO).into());
                args.put(&mut cx.store, "fence seqno", seqno);
                begin(cx, head.ts, track, "dma_fence_wait", &mut args);
            }
            _ => return false,
        }
        true
    }

    fn ring(&mut self, cx: &mut Context, name: &[u8]) -> Option<(StringId, &mut Ring)> {
        let key = cx.store.strings.intern_bytes(name);
        if self.rings.len() >= MAX_KEYS && !self.rings.contains_key(&key) {
            return None;
        }
        let ring = self.rings.entry(key).or_insert_with(|| {
            let label = format!("sched-{}", cx.store.strings.text(key));
            let label = cx.store.strings.intern(&label);
            let dimensions = [Dimension::Text("name", key)];
            let spec = TrackSpec::slices("drm_sched_ring", &dimensions).named(label);
            Ring {
                track: cx.tracks.intern(&mut cx.store, spec),
                jobs: VecDeque::new(),
                queued: FxHashMap::default(),
            }
        });
        Some((key, ring))
    }

    fn queue(&mut self, cx: &mut Context, head: &Head<'_>, name: &[u8], job: Job, number: u64) {
        let utid = cx.processes.thread(&mut cx.store, head.tid);
        let mut args = ArgSet::default();
        let ring = cx.store.strings.intern_bytes(name);
        args.put(&mut cx.store, "gpu sched ring", ArgValue::Text(ring));
        describe(cx, job, number, &mut args);
        let start = SliceStart {
            ts: head.ts,
            track: cx.tracks.of_thread(&mut cx.store, utid),
            category: StringId::NULL,
            name: cx.store.strings.intern("drm_sched_job_queue"),
        };
        let slice = cx.slices.complete(&mut cx.store, start, 0, &mut args);
        if let Some(slice) = slice
            && let Some((_, ring)) = self.ring(cx, name)
            && (ring.queued.len() < MAX_KEYS || ring.queued.contains_key(&job))
        {
            ring.queued.insert(job, slice);
        }
    }

    fn run(&mut self, cx: &mut Context, ts: i64, name: &[u8], job: Job, number: u64) {
        if self.busy.len() >= MAX_KEYS && !self.busy.contains_key(&job) {
            return;
        }
        let Some((key, ring)) = self.ring(cx, name) else {
            return;
        };
        if ring.jobs.len() >= MAX_KEYS {
            return;
        }
        ring.jobs.push_back((job, number));
        if ring.jobs.len() == 1 {
            ring.begin(cx, ts);
        }
        self.busy.insert(job, key);
    }

    fn done(&mut self, cx: &mut Context, ts: i64, job: Job) {
        let ring = self.busy.remove(&job);
        let Some(ring) = ring.and_then(|key| self.rings.get_mut(&key)) else {
            return;
        };
        ring.jobs.pop_front();
        end(cx, ts, ring.track);
        ring.begin(cx, ts);
    }

    fn fence(&mut self, cx: &mut Context, ts: i64, number: u32, body: &[u8]) {
        let body = Message::<5>::read(body);
        let name = body.bytes(fence::TIMELINE);
        let (context, seqno) = (body.u32(fence::CONTEXT), body.u32(fence::SEQNO));
        let is_full = self.timelines.len() >= MAX_KEYS && !self.timelines.contains_key(&context);
        if name == UNBOUND || is_full {
            return;
        }
        let timeline = self.timelines.entry(context).or_insert_with(|| {
            let name = cx.store.strings.intern_bytes(name);
            let label = format!("fence-{}-{context}", cx.store.strings.text(name));
            let label = cx.store.strings.intern(&label);
            let dimensions = [
                Dimension::Text("name", name),
                Dimension::Int("context", context.into()),
            ];
            let spec = TrackSpec::slices("drm_fence", &dimensions).named(label);
            Timeline {
                track: cx.tracks.intern(&mut cx.store, spec),
                pending: VecDeque::new(),
                is_emitted: false,
            }
        });
        if number == event::DMA_FENCE_SIGNALED {
            if timeline
                .pending
                .front()
                .is_some_and(|first| seqno >= *first)
            {
                timeline.pending.pop_front();
                end(cx, ts, timeline.track);
                timeline.begin(cx, ts);
            }
            return;
        }
        let is_emitted = number == event::DMA_FENCE_EMIT;
        if !is_emitted && timeline.is_emitted || timeline.pending.len() >= MAX_KEYS {
            return;
        }
        if is_emitted && !std::mem::replace(&mut timeline.is_emitted, true) {
            if !timeline.pending.is_empty() {
                end(cx, ts, timeline.track);
            }
            timeline.pending.clear();
        }
        timeline.pending.push_back(seqno);
        if timeline.pending.len() == 1 {
            timeline.begin(cx, ts);
        }
    }
}

impl Ring {
    /// Begins the slice of the running job, if there is one.
    fn begin(&mut self, cx: &mut Context, ts: i64) {
        let Some((job, number)) = self.jobs.front().copied() else {
            return;
        };
        let mut args = ArgSet::default();
        describe(cx, job, number, &mut args);
        let slice = begin(cx, ts, self.track, "job", &mut args);
        // The job was queued by its number, and runs by its fence.
        let queued = match job {
            Job::Address(_) => Job::Number(number),
            job => job,
        };
        if let Some(slice) = slice
            && let Some(before) = self.queued.remove(&queued)
        {
            FlowTracker::connect(&mut cx.store, before, slice);
        }
    }
}

impl Timeline {
    /// Begins the slice of the awaited fence, if there is one.
    fn begin(&self, cx: &mut Context, ts: i64) {
        let Some(seqno) = self.pending.front().copied() else {
            return;
        };
        let mut args = ArgSet::default();
        let seqno = ArgValue::Uint(seqno.into());
        args.put(&mut cx.store, "fence seqno", seqno);
        begin(cx, ts, self.track, "fence", &mut args);
    }
}

fn fence_of(body: &Message<'_, 8>) -> Job {
    Job::Fence(body.uint(job::FENCE_CONTEXT), body.uint(job::FENCE_SEQNO))
}

fn describe(cx: &mut Context, job: Job, number: u64, args: &mut ArgSet) {
    match job {
        Job::Fence(context, seqno) => {
            args.put(&mut cx.store, "fence context", ArgValue::Uint(context));
            args.put(&mut cx.store, "fence seqno", ArgValue::Uint(seqno));
        }
        Job::Address(_) | Job::Number(_) => {
            args.put(&mut cx.store, "gpu sched job", ArgValue::Uint(number));
        }
    }
}

fn blank(cx: &mut Context, head: &Head<'_>, name: &str, body: &[u8]) {
    let body = Message::<5>::read(body);
    let crtc = body.u32(vblank::CRTC);
    let label = cx.store.strings.intern(&format!("vblank-{crtc}"));
    let dimensions = [Dimension::Int("drm_crtc", crtc.into())];
    let spec = TrackSpec::slices("drm_vblank", &dimensions).named(label);
    let mut args = ArgSet::default();
    let seqno = ArgValue::Uint(body.u32(vblank::SEQ).into());
    args.put(&mut cx.store, "vblank seqno", seqno);
    let start = SliceStart {
        ts: head.ts,
        track: cx.tracks.intern(&mut cx.store, spec),
        category: StringId::NULL,
        name: cx.store.strings.intern(name),
    };
    cx.slices.complete(&mut cx.store, start, 0, &mut args);
}

fn begin(cx: &mut Context, ts: i64, track: u32, name: &str, args: &mut ArgSet) -> Option<u32> {
    let start = SliceStart {
        ts,
        track,
        category: StringId::NULL,
        name: cx.store.strings.intern(name),
    };
    cx.slices.begin(&mut cx.store, start, args)
}

fn end(cx: &mut Context, ts: i64, track: u32) {
    let any = (StringId::NULL, StringId::NULL);
    let mut args = ArgSet::default();
    cx.slices.end(&mut cx.store, ts, track, any, &mut args);
}
