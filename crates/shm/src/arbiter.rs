//! Gives chunks to the writers of a producer and gathers output for the service.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::time::{Duration, Instant};

use crate::chunk::OwnedChunk;
use crate::commit::{Commit, FlushCallback, MAX_COMMIT_BYTES};
use crate::finder::Finder;
use crate::ids::WriterIds;
use crate::layout::{ChunkHeader, PageSize};
use crate::options::ArbiterOptions;
use crate::outlet::{Outlet, Output};
use crate::pages::Pages;
use crate::patch::PatchList;
use crate::pending::{Pending, PendingChunk};
use crate::policy::ExhaustedPolicy;
use crate::primitive::{Apart, Arc, AtomicBool, Mutex, Ordering, lock};
use crate::process::process_id;
use crate::region::Region;
use crate::service::ServiceRegion;
use crate::startup::{Reservations, Target};
use crate::untold::Untold;

/// A writer that was given its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewWriter {
    pub(crate) id: u16,
    /// The number of its first chunk.
    pub(crate) first_chunk: u32,
    /// The central buffer, 0 if it has no number yet.
    pub(crate) target: u16,
}

/// Shared by all writers of a producer and the owner of its connection. Chunks are acquired without
/// a lock; one lock is taken when a chunk is given back.
///
/// Does no input or output: [`Arbiter::poll_output`] returns the messages to send.
pub struct Arbiter {
    finder: Finder,
    options: ArbiterOptions,
    outlet: Box<dyn Outlet>,
    closed: AtomicBool,
    /// Chunks travel inside the commits.
    emulated: AtomicBool,
    /// Nothing is sent while a buffer is still to get its number, so nobody must wait for chunks
    /// either.
    held_back: AtomicBool,
    /// The process that may use the chunks. A forked child inherits writers and memory, but must
    /// not touch them.
    process: u32,
    /// Locked before `state` by who needs both.
    outgoing: Mutex<Outgoing>,
    untold: Untold,
    state: Apart<Mutex<State>>,
}

/// The part that only the owner of the connection works on. Commits are put together here, where no
/// writer has to wait for it.
#[derive(Debug, Default)]
struct Outgoing {
    /// Parts of a commit that was too large for one request, last one first.
    ready: Vec<Commit>,
    /// Nothing, with room for as much as was pending lately.
    spare: Pending,
}

#[derive(Debug, Default)]
struct State {
    ids: WriterIds,
    /// The buffer of every writer.
    targets: HashMap<u16, Target>,
    reservations: Reservations,
    registered: VecDeque<(u16, u16)>,
    /// Writers that are gone, with the chunk number each would have used next. Their numbers are
    /// not given to others before the service has been told, or it would take the new writer for
    /// the old one.
    unregistered: VecDeque<(u16, u32)>,
    pending: Option<Pending>,
    /// The next `pending`, empty.
    spare: Pending,
    /// The time at which pending output has waited long enough; set when the owner first hears of
    /// it.
    due: Option<Instant>,
}

impl Arbiter {
    /// An arbiter over `region`; `None` if the region holds no page of this size, or has an arbiter
    /// in this process already.
    pub fn new(
        region: Arc<Region>,
        page_size: PageSize,
        options: ArbiterOptions,
        outlet: Box<dyn Outlet>,
    ) -> Option<Arc<Self>> {
        let pages = Pages::new(region, page_size)?;
        if !pages.region().owned().claim() {
            return None;
        }
        Some(Arc::new(Self {
            finder: Finder::new(pages, options.layout),
            emulated: AtomicBool::new(options.emulated),
            options,
            outlet,
            closed: AtomicBool::new(false),
            held_back: AtomicBool::new(false),
            process: process_id(),
            outgoing: Mutex::default(),
            untold: Untold::default(),
            state: Apart::default(),
        }))
    }

    /// The memory.
    pub fn region(&self) -> &Arc<Region> {
        self.finder.pages().region()
    }

    /// Gives a new writer for `target` its number; the owner is to be woken for it. A reservation
    /// may be resolved already. `None` if the arbiter is closed or all 32767 numbers are in use.
    pub(crate) fn register_writer(&self, target: Target) -> Option<NewWriter> {
        if !self.is_usable() {
            return None;
        }
        let mut state = lock(&self.state);
        let (id, first_chunk) = state.ids.allocate()?;
        let target = match target {
            Target::Buffer(_) => target,
            Target::Reserved(reservation) => state.reservations.target(reservation),
        };
        state.targets.insert(id, target);
        match target {
            Target::Buffer(0) => {}
            Target::Buffer(buffer) => state.registered.push_back((id, buffer)),
            Target::Reserved(_) => self.held_back.store(true, Ordering::Relaxed),
        }
        self.finder.set_writers(state.writers());
        Some(NewWriter {
            id,
            first_chunk,
            target: target.buffer(),
        })
    }

    /// Calls [`Outlet::wake`].
    pub(crate) fn wake(&self) {
        self.outlet.wake();
    }

    /// Says which buffer a reservation stands for; 0 gives it up, so that packets written for it
    /// are stored nowhere. With the last one, held-back output is sent. Only the first time for
    /// each reservation has an effect.
    pub fn resolve_reservation(&self, reservation: u16, buffer: u16) {
        {
            let mut state = lock(&self.state);
            if !state.reservations.resolve(reservation, buffer) {
                return;
            }
            state.resolve(Target::Reserved(reservation), buffer);
            let held_back = !state.reservations.are_resolved();
            self.held_back.store(held_back, Ordering::Relaxed);
        }
        self.outlet.wake();
    }

    /// The buffer a reservation was resolved to, 0 if it was given up; `None` if it is open or
    /// unknown.
    pub fn reserved_buffer(&self, reservation: u16) -> Option<u16> {
        lock(&self.state).reservations.buffer(reservation)
    }

    /// Has chunks travel inside the commits from now on: the service did not take the memory.
    pub fn send_chunks(&self) {
        self.emulated.store(true, Ordering::Relaxed);
    }

    /// Never gives a writer a number that is in use in `other`, which shares the connection and
    /// makes no more writers.
    pub fn avoid_writers_of(&self, other: &Self) {
        let mut state = lock(&self.state);
        state.ids.avoid(&lock(&other.state).ids);
    }

    fn is_emulated(&self) -> bool {
        self.emulated.load(Ordering::Relaxed)
    }

    /// Returns how many bytes a writer discards before it looks for a chunk again.
    pub(crate) fn retry_after(&self) -> u64 {
        self.options.retry_after
    }

    /// Losses that no writer has told of.
    pub(crate) fn untold(&self) -> &Untold {
        &self.untold
    }

    /// A writer has lost something, and could not mark it.
    #[cold]
    pub(crate) fn note_loss(&self, writer_id: u16) {
        let target = lock(&self.state).targets.get(&writer_id).copied();
        if let Some(target) = target {
            self.untold.add(writer_id, target);
        }
    }

    /// Returns how many writers there are.
    pub fn writers(&self) -> u16 {
        lock(&self.state).writers()
    }

    /// Says that a flush request of the service is done. The answer goes out after everything
    /// returned before.
    pub fn acknowledge_flush(&self, request_id: u64) {
        if self.is_emulated() && self.options.self_scraping {
            self.scrape();
        }
        self.update(|pending, _| {
            pending.acknowledge(request_id);
            true
        });
    }

    /// Adds copies of the unfinished chunks to the pending output. The locks keep them from being
    /// finished and sent before their copies.
    fn scrape(&self) {
        let _no_commit = lock(&self.outgoing);
        let mut state = lock(&self.state);
        let State {
            pending, targets, ..
        } = &mut *state;
        let pending = pending.get_or_insert_default();
        ServiceRegion::of(self.finder.pages().clone()).for_each_uncommitted(|chunk| {
            if let Some(&target) = targets.get(&chunk.header().writer_id)
                && !chunk.is_complete()
                && let Target::Buffer(target @ 1..) = target
            {
                pending.add_copy(chunk, target);
            }
        });
    }

    /// Commits pending chunks now, and calls `callback` once the service has processed it, even if
    /// nothing was.
    pub fn flush(&self, callback: Option<FlushCallback>) {
        if self.is_usable() {
            self.update(|pending, _| {
                pending.callbacks.extend(callback);
                true
            });
        }
    }

    /// Has pending output sent by this very thread, if that is possible now.
    pub(crate) fn send_now(&self) {
        if self.is_usable() && !self.held_back.load(Ordering::Relaxed) {
            self.outlet.flush_now();
        }
    }

    /// Ends it all: writers discard from now on, stalled ones give up, nothing more is sent. For a
    /// connection that was lost.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        let dropped = std::mem::take(&mut lock(&self.state).pending);
        drop(dropped);
    }

    /// Returns what to do next. The owner calls it until it says [`Output::WaitUntil`] or
    /// [`Output::Idle`].
    pub fn poll_output(&self, now: Instant) -> Output {
        self.next_output(Some(now))
    }

    /// As [`Arbiter::poll_output`], without waiting for a batch to fill up.
    pub fn poll_output_urgently(&self) -> Output {
        self.next_output(None)
    }

    fn next_output(&self, now: Option<Instant>) -> Output {
        let mut outgoing = lock(&self.outgoing);
        let mut state = lock(&self.state);
        if !state.reservations.are_resolved() {
            return Output::Idle;
        }
        if let Some((writer_id, target_buffer)) = state.next_registration() {
            return Output::Register {
                writer_id,
                target_buffer,
            };
        }
        if let Some(commit) = outgoing.ready.pop() {
            return Output::Commit(commit);
        }
        if let Some(due) = state.due_after(now, self.options.batch) {
            return Output::WaitUntil(due);
        }
        if let Some(pending) = state.take_pending(&mut outgoing.spare) {
            drop(state);
            return outgoing.commit(pending, self.is_emulated());
        }
        match state.unregistered.pop_front() {
            Some((writer_id, next_chunk)) => {
                state.ids.free(writer_id, next_chunk);
                Output::Unregister { writer_id }
            }
            None => Output::Idle,
        }
    }

    /// Returns the next writer to be registered, with its buffer, if nothing is held back: the
    /// first output of [`Arbiter::poll_output`].
    pub fn poll_registration(&self) -> Option<(u16, u16)> {
        lock(&self.state).next_registration()
    }

    /// Takes a free chunk, waiting for one as `policy` says. `None` if there is none.
    pub(crate) fn acquire(
        &self,
        header: ChunkHeader,
        policy: ExhaustedPolicy,
    ) -> Option<OwnedChunk> {
        let (mut attempt, mut interval) = (0, 0);
        loop {
            if !self.is_usable() {
                return None;
            }
            if let Some(chunk) = self.finder.find(header) {
                return Some(chunk);
            }
            if policy == ExhaustedPolicy::Drop || self.held_back.load(Ordering::Relaxed) {
                return None;
            }
            attempt += 1;
            if attempt >= self.options.stall_limit {
                if policy == ExhaustedPolicy::StallThenAbort {
                    self.abort();
                }
                return None;
            }
            self.outlet.flush_now();
            (attempt, interval) = match self.outlet.pause(Duration::from_micros(interval)) {
                true => (0, 0),
                false => (attempt, ((interval + 1) * 8).min(100_000)),
            };
        }
    }

    /// Takes a chunk back to be committed, along with the filled holes of its writer.
    pub(crate) fn return_chunk(&self, chunk: OwnedChunk, patches: &mut PatchList) {
        self.finder.give_back(&chunk);
        let writer_id = chunk.writer_id().unwrap_or(0);
        self.update_with_patches(Some(chunk), writer_id, patches);
    }

    /// Commits the filled holes of a writer.
    pub(crate) fn send_patches(&self, writer_id: u16, patches: &mut PatchList) {
        if patches.is_ready() {
            self.update_with_patches(None, writer_id, patches);
        }
    }

    fn update_with_patches(
        &self,
        chunk: Option<OwnedChunk>,
        writer_id: u16,
        patches: &mut PatchList,
    ) {
        if self.is_foreign() {
            // The chunk is the parent's.
            std::mem::forget(chunk);
            return;
        }
        if !self.is_usable() {
            return;
        }
        let direct = self.options.direct_patching;
        let half = self.finder.pages().region().size() / 2;
        let mut chunk = chunk.and_then(PendingChunk::new);
        if let Some(chunk) = &mut chunk
            && !self.is_emulated()
        {
            // Before the lock is taken, as others use the page as well. Without shared memory it is
            // the lock that keeps the chunk in sight of who sends copies: unfinished before,
            // pending afterwards.
            chunk.release_unless_patched(direct);
        }
        self.update(|pending, targets| {
            let none = Target::Buffer(0);
            let target = targets.get(&writer_id).copied().unwrap_or(none);
            if let Some(chunk) = chunk {
                pending.add_chunk(chunk, target, direct);
            }
            let patched = pending.add_patches(writer_id, target, patches);
            patched || pending.bytes() >= half || self.is_emulated()
        });
    }

    /// Changes the pending output; `change` returns whether it should be sent at once.
    fn update(&self, change: impl FnOnce(&mut Pending, &HashMap<u16, Target>) -> bool) {
        let wake = {
            let mut state = lock(&self.state);
            let State {
                pending,
                spare,
                targets,
                ..
            } = &mut *state;
            let is_new = pending.is_none();
            let pending = pending.get_or_insert_with(|| std::mem::take(spare));
            let urgent = change(pending, targets);
            let newly_urgent = urgent && !pending.urgent;
            pending.urgent |= urgent;
            is_new || newly_urgent
        };
        if wake {
            self.outlet.wake();
        }
    }

    /// Takes a writer's number back.
    pub(crate) fn release_writer(&self, id: u16, next_chunk: u32) {
        if !self.is_usable() {
            return;
        }
        {
            let mut state = lock(&self.state);
            match state.targets.remove(&id) {
                Some(Target::Buffer(1..)) => state.unregistered.push_back((id, next_chunk)),
                // The service never heard of it.
                _ => state.ids.free(id, next_chunk),
            }
            self.finder.set_writers(state.writers());
        }
        self.outlet.wake();
    }

    /// Returns whether writers should give their chunks back after every packet.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.finder.is_crowded()
    }

    fn is_usable(&self) -> bool {
        !self.closed.load(Ordering::Relaxed) && !self.is_foreign()
    }

    /// Returns whether this is a forked child of the process that owns the memory.
    pub(crate) fn is_foreign(&self) -> bool {
        self.process != process_id()
    }

    /// Ends the process, as the policy demands that would rather crash than lose data.
    fn abort(&self) -> ! {
        eprintln!(
            "Shared memory buffer max stall count exceeded; possible deadlock. {}",
            self.finder.pages().census()
        );
        std::process::abort()
    }
}

impl State {
    /// Returns how many writers there are.
    fn writers(&self) -> u16 {
        self.targets.len() as u16
    }

    /// Gives everything written and every writer made for a reservation its buffer.
    fn resolve(&mut self, reserved: Target, buffer: u16) {
        let target = Target::Buffer(buffer);
        if let Some(pending) = &mut self.pending {
            pending.resolve(reserved, target);
        }
        let writers = self.targets.iter_mut();
        let mut resolved: Vec<u16> = writers
            .filter(|(_, writer)| **writer == reserved)
            .map(|(id, writer)| {
                *writer = target;
                *id
            })
            .collect();
        if buffer != 0 {
            resolved.sort_unstable();
            let register = resolved.into_iter().map(|id| (id, buffer));
            self.registered.extend(register);
        }
    }

    /// The next writer to be registered, with its buffer.
    fn next_registration(&mut self) -> Option<(u16, u16)> {
        self.reservations
            .are_resolved()
            .then(|| self.registered.pop_front())
            .flatten()
    }

    /// Returns the time at which pending output is due, if that is not now.
    fn due_after(&mut self, now: Option<Instant>, batch: Duration) -> Option<Instant> {
        let now = now?;
        if batch.is_zero() || self.pending.as_ref().is_none_or(|pending| pending.urgent) {
            return None;
        }
        let due = *self.due.get_or_insert(now + batch);
        (due > now).then_some(due)
    }

    /// Takes the pending output, if there is any, and leaves room for as much as `spare` has.
    fn take_pending(&mut self, spare: &mut Pending) -> Option<Pending> {
        let pending = self.pending.take()?;
        self.due = None;
        std::mem::swap(&mut self.spare, spare);
        Some(pending)
    }
}

impl Outgoing {
    /// Returns the first part of the commit of pending output.
    fn commit(&mut self, mut pending: Pending, emulated: bool) -> Output {
        let mut parts = pending.take_commit(emulated).split(MAX_COMMIT_BYTES);
        parts.reverse();
        self.ready = parts;
        self.spare = pending;
        self.ready.pop().map_or(Output::Idle, Output::Commit)
    }
}

impl fmt::Debug for Arbiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arbiter")
            .field("finder", &self.finder)
            .field("options", &self.options)
            .finish()
    }
}
