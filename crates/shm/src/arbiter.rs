//! Provides chunks to the writers of a producer, and collects output for the service.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io::{self, Write as _};
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
use crate::unreported::UnreportedLosses;

/// A writer that was just registered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewWriter {
    pub(crate) id: u16,
    /// The id of its first chunk.
    pub(crate) first_chunk: u32,
    /// The central buffer; 0 if its id is not known yet.
    pub(crate) target: u16,
}

/// The state shared by all writers of a producer and the owner of its connection. Chunks are
/// acquired without a lock; releasing one takes a lock.
///
/// The arbiter does no input or output: [`Arbiter::poll_output`] returns the messages to send.
pub struct Arbiter {
    finder: Finder,
    options: ArbiterOptions,
    outlet: Box<dyn Outlet>,
    closed: AtomicBool,
    /// Set if chunks travel inside the commits.
    emulated: AtomicBool,
    /// Set while a buffer has no id yet. Output is held back then, so that writers must not wait
    /// for chunks.
    held_back: AtomicBool,
    /// The process that may use the chunks. A forked child inherits writers and memory, but must
    /// not use them.
    process: u32,
    /// Code that needs both locks takes this one before `state`.
    outgoing: Mutex<Outgoing>,
    unreported: UnreportedLosses,
    state: Apart<Mutex<State>>,
}

/// The part that only the owner of the connection uses. Commits are built here, so that no writer
/// waits for that.
#[derive(Debug, Default)]
struct Outgoing {
    /// The parts of a commit that was too large for one request, last one first.
    ready: Vec<Commit>,
    /// An empty value with capacity for as much as was pending recently.
    spare: Pending,
}

#[derive(Debug, Default)]
struct State {
    ids: WriterIds,
    /// The buffer of each writer.
    targets: HashMap<u16, Target>,
    reservations: Reservations,
    registered: VecDeque<(u16, u16)>,
    /// Writers that are gone, with the id of their next chunk. Their ids are not reused before the
    /// service is notified, which would otherwise take the new writer for the old one.
    unregistered: VecDeque<(u16, u32)>,
    pending: Option<Pending>,
    /// The next `pending`, empty.
    spare: Pending,
    /// The deadline of pending output; set when the owner first polls it.
    due: Option<Instant>,
}

impl Arbiter {
    /// Creates an arbiter over `region`; `None` if the region contains no page of this size, or has
    /// an arbiter in this process already.
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
            unreported: UnreportedLosses::default(),
            state: Apart::default(),
        }))
    }

    /// Returns the memory.
    pub fn region(&self) -> &Arc<Region> {
        self.finder.pages().region()
    }

    /// Assigns an id to a new writer for `target`, which may be a resolved reservation. The caller
    /// then has to wake the owner. `None` if the arbiter is closed or all 32767 ids are in use.
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

    /// Resolves a reservation to a buffer; 0 cancels it, so that its packets are not stored.
    /// Resolving the last reservation sends the held-back output. Only the first call for each
    /// reservation has an effect.
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

    /// Returns the buffer of a resolved reservation, 0 if it was cancelled; `None` if it is open or
    /// unknown.
    pub fn reserved_buffer(&self, reservation: u16) -> Option<u16> {
        lock(&self.state).reservations.buffer(reservation)
    }

    /// Makes chunks travel inside the commits from now on, since the service did not accept the
    /// memory.
    pub fn send_chunks(&self) {
        self.emulated.store(true, Ordering::Relaxed);
    }

    /// Never assigns an id that is in use in `other`, which shares the connection and creates no
    /// more writers.
    pub fn avoid_writers_of(&self, other: &Self) {
        let mut state = lock(&self.state);
        state.ids.avoid(&lock(&other.state).ids);
    }

    fn is_emulated(&self) -> bool {
        self.emulated.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes that a writer discards before it looks for a chunk again.
    pub(crate) fn retry_after(&self) -> u64 {
        self.options.retry_after
    }

    /// Returns the losses that no writer has reported.
    pub(crate) fn unreported(&self) -> &UnreportedLosses {
        &self.unreported
    }

    /// Notes a loss that the writer could not mark.
    #[cold]
    pub(crate) fn note_loss(&self, writer_id: u16) {
        let target = lock(&self.state).targets.get(&writer_id).copied();
        if let Some(target) = target {
            self.unreported.add(writer_id, target);
        }
    }

    /// Returns the number of writers.
    pub fn writers(&self) -> u16 {
        lock(&self.state).writers()
    }

    /// Acknowledges a flush request of the service. The acknowledgement follows all earlier output.
    pub fn acknowledge_flush(&self, request_id: u64) {
        if self.is_emulated() && self.options.self_scraping {
            self.scrape();
        }
        self.update(|pending, _| {
            pending.acknowledge(request_id);
            true
        });
    }

    /// Adds copies of the unfinished chunks to the pending output. The locks prevent these chunks
    /// from being finished and sent before their copies.
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

    /// Commits pending chunks now, and calls `callback` once the service has processed them, even
    /// if there are none.
    pub fn flush(&self, callback: Option<FlushCallback>) {
        if self.is_usable() {
            self.update(|pending, _| {
                pending.callbacks.extend(callback);
                true
            });
        }
    }

    /// Sends pending output on this thread, if that is possible now.
    pub(crate) fn send_now(&self) {
        if self.is_usable() && !self.held_back.load(Ordering::Relaxed) {
            self.outlet.flush_now();
        }
    }

    /// Closes the arbiter of a lost connection: writers discard from now on, stalled ones give up,
    /// and output is dropped.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        let dropped = std::mem::take(&mut lock(&self.state).pending);
        drop(dropped);
    }

    /// Returns the next action. The owner calls this until it returns [`Output::WaitUntil`] or
    /// [`Output::Idle`].
    pub fn poll_output(&self, now: Instant) -> Output {
        self.next_output(Some(now))
    }

    /// Returns the next action without waiting for a batch to fill up.
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

    /// Returns the next writer to register and its buffer, if output is not held back: the first
    /// output of [`Arbiter::poll_output`].
    pub fn poll_registration(&self) -> Option<(u16, u16)> {
        lock(&self.state).next_registration()
    }

    /// Acquires a free chunk, and waits for one as `policy` says. `None` if there is none.
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
            (attempt, interval) = if self.outlet.pause(Duration::from_micros(interval)) {
                (0, 0)
            } else {
                (attempt, ((interval + 1) * 8).min(100_000))
            };
        }
    }

    /// Acquires a free chunk of the pages that the service frees first. `None` if they have none.
    pub(crate) fn acquire_near(&self, header: ChunkHeader) -> Option<OwnedChunk> {
        self.is_usable()
            .then(|| self.finder.find_near(header))
            .flatten()
    }

    /// Releases a chunk to be committed, with the filled holes of its writer.
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
            // The chunk belongs to the parent process.
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
            // Released before the lock is taken, since other threads also use the page. Without
            // shared memory, the lock makes the chunk visible to the thread that sends copies:
            // unfinished before, pending afterwards.
            chunk.release_unless_patched(direct);
        }
        self.update(|pending, targets| {
            let none = Target::Buffer(0);
            let target = targets.get(&writer_id).copied().unwrap_or(none);
            if let Some(chunk) = chunk {
                pending.add_chunk(chunk, target, direct);
            }
            let patched = pending.add_patches(writer_id, target, patches, direct);
            patched || pending.bytes() >= half || self.is_emulated()
        });
    }

    /// Changes the pending output. `change` returns true if it has to be sent at once.
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

    /// Releases a writer's id.
    pub(crate) fn release_writer(&self, id: u16, next_chunk: u32) {
        if !self.is_usable() {
            return;
        }
        {
            let mut state = lock(&self.state);
            match state.targets.remove(&id) {
                Some(Target::Buffer(1..)) => state.unregistered.push_back((id, next_chunk)),
                // The service was never notified of this writer.
                _ => state.ids.free(id, next_chunk),
            }
            self.finder.set_writers(state.writers());
        }
        self.outlet.wake();
    }

    /// Returns true if writers have to release their chunks after every packet.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.finder.is_crowded()
    }

    fn is_usable(&self) -> bool {
        !self.closed.load(Ordering::Relaxed) && !self.is_foreign()
    }

    /// Returns true in a forked child of the process that owns the memory.
    pub(crate) fn is_foreign(&self) -> bool {
        self.process != process_id()
    }

    /// Aborts the process, as the policy [`StallThenAbort`](ExhaustedPolicy::StallThenAbort)
    /// demands.
    fn abort(&self) -> ! {
        // A message that cannot be written must not turn into a panic.
        let _ = writeln!(
            io::stderr(),
            "Shared memory buffer max stall count exceeded; possible deadlock. {}",
            self.finder.pages().census()
        );
        std::process::abort()
    }
}

impl State {
    /// Returns the number of writers.
    fn writers(&self) -> u16 {
        self.targets.len() as u16
    }

    /// Sets the buffer of all chunks and writers of a reservation.
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

    /// Returns the next writer to register, with its buffer.
    fn next_registration(&mut self) -> Option<(u16, u16)> {
        self.reservations
            .are_resolved()
            .then(|| self.registered.pop_front())
            .flatten()
    }

    /// Returns the deadline of pending output, unless it has passed.
    fn due_after(&mut self, now: Option<Instant>, batch: Duration) -> Option<Instant> {
        let now = now?;
        if batch.is_zero() || self.pending.as_ref().is_none_or(|pending| pending.urgent) {
            return None;
        }
        let due = *self.due.get_or_insert(now + batch);
        (due > now).then_some(due)
    }

    /// Takes the pending output, if there is any. Its replacement has the capacity of `spare`.
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
