//! Events decoded ahead of their time, on other threads.
//!
//! Events leave the sorter in the order of time, and are applied to the tables in this order, by
//! one thread. Between, chunks of them visit the others, which decode what depends on nothing but
//! the event itself and on interned data. The results are the same for any number of threads.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use rustc_hash::FxHashMap;

use super::arena::Arena;
use super::event::Event;
use super::sequence::{Interned, Sequences};
use super::sorter::Token;
use super::track_event::{Annotation, Resolved};

/// Events that are decoded together.
const CHUNK: usize = 1 << 11;
/// Chunks that each thread has at hand.
const CHUNKS_PER_THREAD: usize = 2;
/// More threads than this would wait.
const MAX_THREADS: usize = 4;

/// Events that were taken out of the sorter and not applied.
#[derive(Debug)]
pub(super) struct Ahead {
    /// The threads that may decode; none are started before there is enough to do.
    threads: usize,
    workers: Vec<Worker>,
    /// The threads that have chunks, in the order of these.
    order: VecDeque<usize>,
    next: usize,
    filling: Chunk,
    /// The places of batches and of states in `filling`, by number.
    batches: Places,
    states: Places,
    spare: Vec<Chunk>,
}

/// The places of things in a chunk, by their numbers.
#[derive(Debug, Default)]
struct Places {
    last: Option<(u32, u32)>,
    all: FxHashMap<u32, u32>,
}

impl Places {
    /// Returns the place of a thing, which is `add`ed if it is new.
    #[inline]
    fn of(&mut self, number: u32, add: impl FnOnce() -> u32) -> u32 {
        if let Some((last, place)) = self.last
            && last == number
        {
            return place;
        }
        let place = *self.all.entry(number).or_insert_with(add);
        self.last = Some((number, place));
        place
    }

    fn clear(&mut self) {
        self.last = None;
        self.all.clear();
    }
}

/// Events one behind the other, and what is needed to decode them.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    items: Vec<Item>,
    batches: Vec<Arc<Vec<u8>>>,
    interned: Vec<Arc<Interned>>,
    resolved: Vec<Resolved>,
    annotations: Vec<Annotation>,
}

#[derive(Debug)]
struct Item {
    token: Token,
    is_late: bool,
    /// The places of the bytes and interned data of a track event in the chunk.
    batch: u32,
    interned: u32,
}

impl Chunk {
    fn decode(&mut self) {
        self.resolved.clear();
        self.annotations.clear();
        for item in &self.items {
            let resolved = match item.token.event {
                Event::TrackEvent { span, .. } if !item.is_late => {
                    let bytes = span.of(&self.batches[item.batch as usize]);
                    let interned = &self.interned[item.interned as usize];
                    Resolved::decode(bytes, interned, &mut self.annotations)
                }
                _ => Resolved::default(),
            };
            self.resolved.push(resolved);
        }
    }

    fn clear(&mut self) {
        self.items.clear();
        self.batches.clear();
        self.interned.clear();
        self.resolved.clear();
        self.annotations.clear();
    }

    /// Returns all events in their order, whether they are late, and what was decoded of them.
    pub(super) fn events(&self) -> impl Iterator<Item = (Token, bool, Option<&Resolved>)> {
        self.items.iter().enumerate().map(|(place, item)| {
            let resolved = self.resolved.get(place);
            let resolved = resolved.filter(|resolved| resolved.is_there);
            (item.token, item.is_late, resolved)
        })
    }

    /// Returns the annotations that decoded events refer to.
    pub(super) fn annotations(&self) -> &[Annotation] {
        &self.annotations
    }
}

/// A thread that decodes chunks, one after the other.
#[derive(Debug)]
struct Worker {
    chunks: Option<SyncSender<Chunk>>,
    decoded: Receiver<Chunk>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    fn start() -> Self {
        let (chunks, to_decode) = sync_channel::<Chunk>(CHUNKS_PER_THREAD);
        let (done, decoded) = sync_channel(CHUNKS_PER_THREAD);
        let thread = std::thread::spawn(move || {
            for mut chunk in to_decode {
                chunk.decode();
                if done.send(chunk).is_err() {
                    break;
                }
            }
        });
        Self {
            chunks: Some(chunks),
            decoded,
            thread: Some(thread),
        }
    }

    /// Ends the thread, as it does not answer.
    fn fail(&mut self) -> ! {
        self.chunks = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            _ => unreachable!("a thread that decodes ends when it is told to"),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.chunks = None;
        // It may wait for room for what it has decoded.
        while self.decoded.recv().is_ok() {}
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Ahead {
    /// Returns one without events. One of the `threads` is that which applies them.
    pub(super) fn new(threads: usize) -> Self {
        Self {
            threads: threads.saturating_sub(1).min(MAX_THREADS),
            workers: Vec::new(),
            order: VecDeque::new(),
            next: 0,
            filling: Chunk::default(),
            batches: Places::default(),
            states: Places::default(),
            spare: Vec::new(),
        }
    }

    /// Returns true if this event can be applied at once: there is nothing to decode ahead, and
    /// none waits that is before it.
    #[inline]
    pub(super) fn has_no_use_for(&self, token: &Token) -> bool {
        self.threads == 0 || self.is_empty() && !matches!(token.event, Event::TrackEvent { .. })
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.filling.items.is_empty() && self.order.is_empty()
    }

    /// Takes an event. Returns events that are to be applied now, if there are any: they are behind
    /// all that were returned before.
    #[inline]
    pub(super) fn push(
        &mut self,
        token: Token,
        is_late: bool,
        arena: &Arena,
        sequences: &Sequences,
    ) -> Option<Chunk> {
        let chunk = &mut self.filling;
        let (mut batch, mut interned) = (0, 0);
        if let Event::TrackEvent { span, .. } = token.event {
            batch = self.batches.of(span.batch(), || {
                chunk.batches.push(arena.share(span));
                chunk.batches.len() as u32 - 1
            });
            interned = self.states.of(token.state, || {
                chunk.interned.push(sequences.share_interned(token.state));
                chunk.interned.len() as u32 - 1
            });
        }
        chunk.items.push(Item {
            token,
            is_late,
            batch,
            interned,
        });
        match chunk.items.len() < CHUNK {
            true => None,
            false => self.send(),
        }
    }

    /// Hands the events over to a thread.
    fn send(&mut self) -> Option<Chunk> {
        self.batches.clear();
        self.states.clear();
        let chunk = std::mem::replace(&mut self.filling, self.spare.pop().unwrap_or_default());
        if self.next == self.workers.len() && self.workers.len() < self.threads {
            self.workers.push(Worker::start());
        }
        let worker = &mut self.workers[self.next];
        let is_sent = worker.chunks.as_ref().map(|chunks| chunks.send(chunk));
        if !matches!(is_sent, Some(Ok(()))) {
            worker.fail();
        }
        self.order.push_back(self.next);
        self.next = (self.next + 1) % self.threads;
        match self.order.len() < self.threads * CHUNKS_PER_THREAD {
            true => None,
            false => self.receive(),
        }
    }

    fn receive(&mut self) -> Option<Chunk> {
        let worker = &mut self.workers[self.order.pop_front()?];
        match worker.decoded.recv() {
            Ok(chunk) => Some(chunk),
            Err(_) => worker.fail(),
        }
    }

    /// Returns the next events that wait to be applied, whatever their number.
    pub(super) fn take(&mut self) -> Option<Chunk> {
        if let Some(chunk) = self.receive() {
            return Some(chunk);
        }
        if self.filling.items.is_empty() {
            return None;
        }
        self.batches.clear();
        self.states.clear();
        Some(std::mem::take(&mut self.filling))
    }

    /// Takes back a chunk, all events of which were applied.
    pub(super) fn give_back(&mut self, mut chunk: Chunk) {
        chunk.clear();
        self.spare.push(chunk);
    }
}
