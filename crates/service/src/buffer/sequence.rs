//! The state of each (producer, writer) pair.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use rustc_hash::FxHashMap;

use super::entries::{Entries, Entry};
use super::{Identity, Loss, ProducerId, WriterId};

/// The number of idle sequences above which the oldest are forgotten.
const IDLE_LIMIT: usize = 1152;
/// The number of idle sequences that are then left.
const IDLE_KEPT: usize = 1024;

/// The last chunk that left the buffer, or one before the first that is being read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Consumed {
    pub(super) id: u32,
    pub(super) len: u16,
    /// Set if it was a scraped copy, which a more complete one may follow.
    pub(super) incomplete: bool,
    /// Set if its writer aborted a packet, which is counted and reported already.
    pub(super) aborted: bool,
}

/// The index of a chunk id in a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChunkIndex {
    /// The chunk exists, at this index.
    Used(usize),
    /// The chunk can be inserted at this index.
    Free(usize),
    /// The id is more than half the id space away from the chunks in the buffer, so that the order
    /// is not defined.
    TooFar,
}

/// The chunks of one writer in the buffer, and the state left by earlier ones.
#[derive(Debug, Clone)]
pub(super) struct Sequence {
    pub(super) producer: ProducerId,
    pub(super) writer: WriterId,
    pub(super) identity: Identity,
    /// The chunks by id, spanning less than 2^31.
    pub(super) chunks: Entries,
    pub(super) consumed: Option<Consumed>,
    /// The losses to report with the next packet.
    pub(super) loss: u32,
    /// The number of chunks after the first that are known to continue the packet that begins at
    /// the end of the first. With it, the rest of a long packet is examined only once, and not with
    /// each new chunk.
    pub(super) chained: u32,
    /// Set if the writer is gone, but its id does not belong to another writer yet.
    pub(super) ended: bool,
    /// Set if the id belongs to another writer, so that no more chunks will come.
    pub(super) retired: bool,
    /// Set if reading stopped for lack of data; only a change of this sequence can resume it.
    pub(super) stalled: bool,
    /// Set if the sequence is in the list of sequences to read first, or has a turn.
    pub(super) ready: bool,
    /// Set once a packet was returned.
    pub(super) returned: bool,
    /// The index of the histogram, if there is one.
    pub(super) histogram: Option<u32>,
    /// The time of the last write: larger is later.
    age: u64,
    /// The time of creation: larger is later. It distinguishes sequences with the same writer id.
    born: u64,
}

/// The order in which sequences are read by producer and writer: the writer's key, then the time of
/// creation.
type Turn = (u32, u64);

impl Sequence {
    fn new(producer: ProducerId, writer: WriterId, identity: Identity, age: u64) -> Self {
        Self {
            producer,
            writer,
            identity,
            chunks: Entries::default(),
            consumed: None,
            loss: 0,
            chained: 0,
            ended: false,
            retired: false,
            stalled: false,
            ready: false,
            returned: false,
            histogram: None,
            age,
            born: age,
        }
    }

    fn turn(&self) -> Turn {
        (key(self.producer, self.writer), self.born)
    }

    /// Finds the index of `id`. Chunks usually belong at the end, which is checked first.
    pub(super) fn index_of(&self, id: u32) -> ChunkIndex {
        let (Some(front), Some(back)) = (self.chunks.front(), self.chunks.back()) else {
            return ChunkIndex::Free(0);
        };
        let span = back.id.wrapping_sub(front.id);
        let distance = id.wrapping_sub(front.id);
        if distance >= 1 << 31 {
            let before = front.id.wrapping_sub(id);
            let fits = u64::from(before) + u64::from(span) < 1 << 31;
            return if fits {
                ChunkIndex::Free(0)
            } else {
                ChunkIndex::TooFar
            };
        }
        if distance > span {
            return ChunkIndex::Free(self.chunks.len());
        }
        let key = |entry: &Entry| entry.id.wrapping_sub(front.id);
        match self.chunks.search(distance, key) {
            Ok(index) => ChunkIndex::Used(index),
            Err(index) => ChunkIndex::Free(index),
        }
    }

    /// Returns the chunk `id` and its index, if it is in the buffer.
    #[inline]
    pub(super) fn find(&self, id: u32) -> Option<(usize, Entry)> {
        // The newest chunk is by far the most common.
        let newest = *self.chunks.back()?;
        if newest.id == id {
            return Some((self.chunks.len() - 1, newest));
        }
        match self.index_of(id) {
            ChunkIndex::Used(index) => Some((index, *self.chunks.get(index)?)),
            ChunkIndex::Free(_) | ChunkIndex::TooFar => None,
        }
    }
}

/// The first turn, and the one after it.
#[derive(Debug, Clone, Copy)]
struct Front {
    first: (Turn, u32),
    second: Option<(Turn, u32)>,
}

impl Front {
    fn of(turns: &BTreeMap<Turn, u32>) -> Option<Self> {
        let mut all = turns.iter().map(|(turn, slot)| (*turn, *slot));
        Some(Self {
            first: all.next()?,
            second: all.next(),
        })
    }

    /// Adds a turn.
    fn add(&mut self, turn: Turn, slot: u32) {
        if turn < self.first.0 {
            self.second = Some(std::mem::replace(&mut self.first, (turn, slot)));
        } else if self.second.is_none_or(|(second, _)| turn < second) {
            self.second = Some((turn, slot));
        }
    }
}

/// All sequences of a buffer. A slot is valid while its sequence has chunks.
#[derive(Debug, Clone, Default)]
pub(super) struct Sequences {
    slots: Vec<Option<Sequence>>,
    free: Vec<u32>,
    by_writer: FxHashMap<u32, u32>,
    /// The key and the slot of the writer of the last chunk, which often sends more chunks or
    /// patches.
    recent: Option<(u32, u32)>,
    /// The slots of sequences that may have readable packets, if sequences are read by producer and
    /// writer.
    turns: BTreeMap<Turn, u32>,
    /// The first two turns, if they were looked up: each chunk needs them.
    front: Option<Front>,
    /// The number of retired sequences.
    retired: usize,
    idle: usize,
    clock: u64,
}

fn key(producer: ProducerId, writer: WriterId) -> u32 {
    u32::from(producer) << 16 | u32::from(writer)
}

impl Sequences {
    pub(super) fn get(&self, slot: u32) -> Option<&Sequence> {
        self.slots.get(slot as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut Sequence> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    #[inline]
    pub(super) fn slot(&self, producer: ProducerId, writer: WriterId) -> Option<u32> {
        let key = key(producer, writer);
        match self.recent {
            Some((recent, slot)) if recent == key => Some(slot),
            _ => self.by_writer.get(&key).copied(),
        }
    }

    /// Returns the slot of this writer, and true if it was created.
    pub(super) fn slot_or_new(
        &mut self,
        producer: ProducerId,
        writer: WriterId,
        identity: Identity,
    ) -> (u32, bool) {
        self.clock += 1;
        let age = self.clock;
        if let Some(slot) = self.slot(producer, writer)
            && let Some(sequence) = self.get_mut(slot)
        {
            sequence.age = age;
            self.recent = Some((key(producer, writer), slot));
            return (slot, false);
        }
        let slot = self.add(Sequence::new(producer, writer, identity, age));
        self.set_slot(key(producer, writer), slot);
        self.idle += 1;
        (slot, true)
    }

    /// Assigns `slot` to the writer with this key.
    fn set_slot(&mut self, key: u32, slot: u32) {
        self.by_writer.insert(key, slot);
        self.recent = Some((key, slot));
    }

    /// Finds a slot for a new sequence.
    fn add(&mut self, sequence: Sequence) -> u32 {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                // A buffer has at most 2^32 writers.
                (self.slots.len() - 1) as u32
            }
        };
        if let Some(entry) = self.slots.get_mut(slot as usize) {
            *entry = Some(sequence);
        }
        slot
    }

    /// Gives the key of this sequence's writer to a new, empty sequence, and returns its slot. The
    /// old sequence is removed once its last chunk has left, and the new one reports its losses
    /// until then. `None` if there is no such sequence.
    pub(super) fn retire(&mut self, slot: u32) -> Option<u32> {
        self.clock += 1;
        let age = self.clock;
        let old = self.get_mut(slot)?;
        let mut next = Sequence::new(old.producer, old.writer, old.identity, age);
        next.histogram = old.histogram.take();
        next.returned = old.returned;
        old.retired = true;
        let key = key(next.producer, next.writer);
        let next = self.add(next);
        self.set_slot(key, next);
        self.retired += 1;
        self.idle += 1;
        Some(next)
    }

    /// Returns the number of retired sequences.
    pub(super) fn retired(&self) -> usize {
        self.retired
    }

    /// Returns the slot that reports losses of this sequence: its own, unless it is gone.
    pub(super) fn heir(&self, slot: u32, producer: ProducerId, writer: WriterId) -> Option<u32> {
        match self.get(slot) {
            Some(_) => Some(slot),
            None => self.slot(producer, writer),
        }
    }

    /// Gives a changed sequence a turn, in order.
    pub(super) fn give_turn(&mut self, slot: u32) {
        let Some(sequence) = self.get_mut(slot) else {
            return;
        };
        sequence.stalled = false;
        if !std::mem::replace(&mut sequence.ready, true) {
            let turn = sequence.turn();
            self.turns.insert(turn, slot);
            if let Some(front) = &mut self.front {
                front.add(turn, slot);
            }
        }
    }

    /// Returns the slot of the sequence that has the first turn.
    #[inline]
    pub(super) fn first_turn(&mut self) -> Option<u32> {
        if self.front.is_none() {
            self.front = Front::of(&self.turns);
        }
        self.front.map(|front| front.first.1)
    }

    /// Returns the slot of the sequence whose turn follows that of `slot`.
    pub(super) fn turn_after(&self, slot: u32) -> Option<u32> {
        let turn = self.get(slot)?.turn();
        if let Some(front) = self.front.filter(|front| front.first.0 == turn) {
            return front.second.map(|(_, slot)| slot);
        }
        let mut after = self.turns.range((Excluded(turn), Unbounded));
        after.next().map(|(_, slot)| *slot)
    }

    /// Ends the turn of a sequence, which has no readable packets until it changes.
    pub(super) fn end_turn(&mut self, slot: u32) {
        if let Some(sequence) = self.get_mut(slot) {
            sequence.ready = false;
            let turn = sequence.turn();
            self.remove_turn(turn);
        }
    }

    fn remove_turn(&mut self, turn: Turn) {
        let is_in_front = |front: Front| {
            front.first.0 == turn || front.second.is_some_and(|(second, _)| second == turn)
        };
        if self.front.is_some_and(is_in_front) {
            self.front = None;
        }
        self.turns.remove(&turn);
    }

    /// Removes a sequence, and frees its slot.
    fn take_out(&mut self, slot: u32) -> Option<Sequence> {
        let gone = self.slots.get_mut(slot as usize).and_then(Option::take)?;
        self.remove_turn(gone.turn());
        self.free.push(slot);
        Some(gone)
    }

    /// Removes a retired sequence if it is empty.
    fn remove_retired(&mut self, slot: u32) {
        let Some(gone) = self.take_out(slot) else {
            return;
        };
        self.retired = self.retired.saturating_sub(1);
        let heir = self.slot(gone.producer, gone.writer);
        if let Some(heir) = heir.and_then(|heir| self.get_mut(heir)) {
            heir.loss |= gone.loss;
        }
    }

    /// Returns the slots of all writers of a producer.
    pub(super) fn of_producer(&self, producer: ProducerId) -> Vec<u32> {
        let of_it = |key: &u32| (key >> 16) as u16 == producer;
        let writers = self.by_writer.iter();
        writers
            .filter_map(|(key, slot)| of_it(key).then_some(*slot))
            .collect()
    }

    /// Inserts a chunk into a sequence at an index from [`Sequence::index_of`].
    pub(super) fn insert(&mut self, slot: u32, index: usize, entry: Entry) {
        let Some(sequence) = self.get_mut(slot) else {
            return;
        };
        if index <= sequence.chained as usize {
            sequence.chained = 0;
        }
        if sequence.chunks.is_empty() {
            sequence.chunks.push_back(entry);
            self.idle = self.idle.saturating_sub(1);
        } else {
            sequence.chunks.insert(index, entry);
        }
    }

    /// Removes the first chunk of a sequence.
    pub(super) fn pop(&mut self, slot: u32, last: Consumed) {
        let Some(sequence) = self.get_mut(slot) else {
            return;
        };
        if sequence.chunks.pop_front().is_none() {
            return;
        }
        sequence.consumed = Some(last);
        sequence.chained = 0;
        if sequence.chunks.is_empty() && sequence.retired {
            self.remove_retired(slot);
        } else if sequence.chunks.is_empty() {
            // Frees the memory of a burst.
            if sequence.chunks.capacity() > 1024 {
                sequence.chunks = Entries::default();
            }
            self.idle += 1;
        }
    }

    /// Forgets the sequences that have been idle longest, if there are too many.
    pub(super) fn forget_idle(&mut self) {
        if self.idle <= IDLE_LIMIT {
            return;
        }
        let mut idle: Vec<(u64, u32)> = (0u32..)
            .zip(&self.slots)
            .filter_map(|(slot, sequence)| {
                let sequence = sequence.as_ref()?;
                sequence.chunks.is_empty().then_some((sequence.age, slot))
            })
            .collect();
        idle.sort_unstable();
        self.recent = None;
        let surplus = idle.len().saturating_sub(IDLE_KEPT);
        for (_, slot) in idle.into_iter().take(surplus) {
            let Some(gone) = self.take_out(slot) else {
                continue;
            };
            self.by_writer.remove(&key(gone.producer, gone.writer));
        }
        self.idle = IDLE_KEPT;
    }

    /// Returns a copy for a buffer with new histograms.
    pub(super) fn clone_without_histograms(&self) -> Self {
        let mut copy = self.clone();
        for sequence in copy.slots.iter_mut().flatten() {
            sequence.histogram = None;
        }
        copy
    }

    /// Returns the same sequences for a buffer without their chunks, which count as lost. `last`
    /// describes the last chunk, at this position.
    pub(super) fn without_chunks(
        &self,
        last: impl Fn(u32) -> Option<Consumed>,
        loss: Loss,
    ) -> Self {
        let mut copy = self.clone_without_histograms();
        let retired = |(slot, one): (u32, &Option<Sequence>)| one.as_ref()?.retired.then_some(slot);
        let retired: Vec<u32> = (0..).zip(&copy.slots).filter_map(retired).collect();
        for slot in retired {
            if let Some(sequence) = copy.get_mut(slot) {
                sequence.loss |= loss.bits();
            }
            copy.remove_retired(slot);
        }
        for sequence in copy.slots.iter_mut().flatten() {
            (sequence.stalled, sequence.ready, sequence.chained) = (false, false, 0);
            if let Some(entry) = std::mem::take(&mut sequence.chunks).back() {
                sequence.consumed = last(entry.at);
                sequence.loss |= loss.bits();
            }
        }
        copy.turns.clear();
        copy.front = None;
        copy.idle = copy.by_writer.len();
        copy
    }

    /// Returns the allocated memory in bytes, without the overhead of the hash table.
    pub(super) fn memory(&self) -> usize {
        let chunks: usize = self
            .slots
            .iter()
            .flatten()
            .map(|one| one.chunks.capacity())
            .sum();
        self.slots.capacity() * size_of::<Option<Sequence>>()
            + chunks * size_of::<Entry>()
            + (self.free.capacity() + 2 * self.by_writer.capacity()) * size_of::<u32>()
            + 2 * self.turns.len() * size_of::<(Turn, u32)>()
    }

    /// Returns the number of sequences.
    pub(super) fn len(&self) -> usize {
        self.by_writer.len()
    }
}
