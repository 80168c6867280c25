//! Decodes events ahead on other threads.
//!
//! Events leave the sorter in the order of time, and one thread applies them to the tables in this
//! order. In between, other threads decode chunks of events, as far as the result depends only on
//! the event and on interned data. The result is the same for any number of threads.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::arena::Arena;
use super::event::Event;
use super::sequence::{Interned, Sequences};
use super::sorter::Token;
use super::track_event::{Annotation, Resolved};
use crate::worker::Worker;

/// The number of events that are decoded together.
const CHUNK: usize = 1 << 11;
/// The number of chunks for each thread.
const CHUNKS_PER_THREAD: usize = 2;
/// The maximum number of threads. More threads would be idle.
const MAX_THREADS: usize = 4;

/// Events that were taken from the sorter and are not applied yet.
#[derive(Debug)]
pub(super) struct Ahead {
    /// The number of threads for decoding. They are started once there is enough work.
    threads: usize,
    workers: Vec<Worker<Chunk>>,
    /// The threads with chunks, in the order of the chunks.
    order: VecDeque<usize>,
    next: usize,
    filling: Chunk,
    /// The indexes of batches and states in `filling`, by number.
    batches: Indexes,
    states: Indexes,
    spare: Vec<Chunk>,
}

/// The indexes of objects in a chunk, by their numbers.
#[derive(Debug, Default)]
struct Indexes {
    last: Option<(u32, u32)>,
    all: FxHashMap<u32, u32>,
}

impl Indexes {
    /// Returns the index of an object. Calls `add` for a new one.
    #[inline]
    fn of(&mut self, number: u32, add: impl FnOnce() -> u32) -> u32 {
        if let Some((last, index)) = self.last
            && last == number
        {
            return index;
        }
        let index = *self.all.entry(number).or_insert_with(add);
        self.last = Some((number, index));
        index
    }

    fn clear(&mut self) {
        self.last = None;
        self.all.clear();
    }
}

/// A sequence of events, and the data to decode them.
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
    /// The indexes of the batch and the interned data of a track event in the chunk.
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

    /// Returns all events in order, with true for late ones, and the decoded data.
    pub(super) fn events(&self) -> impl Iterator<Item = (&Token, bool, Option<&Resolved>)> {
        self.items.iter().enumerate().map(|(index, item)| {
            let resolved = self.resolved.get(index);
            let resolved = resolved.filter(|resolved| resolved.is_there);
            (&item.token, item.is_late, resolved)
        })
    }

    /// Returns the annotations of decoded events.
    pub(super) fn annotations(&self) -> &[Annotation] {
        &self.annotations
    }
}

impl Ahead {
    /// Creates an empty queue. `threads` includes the thread that applies the events.
    pub(super) fn new(threads: usize) -> Self {
        Self {
            threads: threads.saturating_sub(1).min(MAX_THREADS),
            workers: Vec::new(),
            order: VecDeque::new(),
            next: 0,
            filling: Chunk::default(),
            batches: Indexes::default(),
            states: Indexes::default(),
            spare: Vec::new(),
        }
    }

    /// Returns true if this event can be applied at once: it has no data to decode, and no earlier
    /// events wait.
    #[inline]
    pub(super) fn can_apply_now(&self, token: &Token) -> bool {
        self.threads == 0 || self.is_empty() && !matches!(token.event, Event::TrackEvent { .. })
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.filling.items.is_empty() && self.order.is_empty()
    }

    /// Adds an event. Returns the next events to apply, if there are any, in the order in which
    /// they were added.
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
        if chunk.items.len() < CHUNK {
            None
        } else {
            self.send()
        }
    }

    /// Sends the events to a thread.
    fn send(&mut self) -> Option<Chunk> {
        self.batches.clear();
        self.states.clear();
        let chunk = std::mem::replace(&mut self.filling, self.spare.pop().unwrap_or_default());
        if self.next == self.workers.len() && self.workers.len() < self.threads {
            let worker = Worker::start(CHUNKS_PER_THREAD, Chunk::decode);
            self.workers.push(worker);
        }
        self.workers[self.next].send(chunk);
        self.order.push_back(self.next);
        self.next = (self.next + 1) % self.threads;
        if self.order.len() < self.threads * CHUNKS_PER_THREAD {
            None
        } else {
            self.receive()
        }
    }

    fn receive(&mut self) -> Option<Chunk> {
        let worker = self.order.pop_front()?;
        Some(self.workers[worker].receive())
    }

    /// Returns the next waiting events, even if the chunk is not full.
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

    /// Takes back a chunk after all its events were applied.
    pub(super) fn give_back(&mut self, mut chunk: Chunk) {
        chunk.clear();
        self.spare.push(chunk);
    }
}
