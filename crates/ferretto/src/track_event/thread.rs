//! The state of a thread for track events.

use std::cell::RefCell;

use ferretto_engine::{EventBuffer, MAX_INSTANCES, bits, current_process, current_thread, point};

use super::clock;
use super::event::{Event, ShortEvent};
use super::recordings::SLOTS;
use super::sequence::Sequence;

thread_local! {
    static THREAD: RefCell<State> = const { RefCell::new(State::new()) };
}

#[derive(Debug)]
struct State {
    sequences: Sequences,
    buffer: EventBuffer,
}

/// The sequences of a thread by slot.
#[derive(Debug)]
struct Sequences([Option<Box<Entry>>; MAX_INSTANCES]);

/// A sequence with its epoch and the number of clears it has seen.
#[derive(Debug)]
struct Entry {
    epoch: u64,
    clears: u32,
    sequence: Sequence,
}

impl State {
    const fn new() -> Self {
        Self {
            sequences: Sequences([const { None }; MAX_INSTANCES]),
            buffer: EventBuffer::new(),
        }
    }
}

impl Sequences {
    /// Drops the sequences of stopped recordings.
    fn collect(&mut self) {
        for (slot, sequence) in self.0.iter_mut().enumerate() {
            if sequence
                .as_ref()
                .is_some_and(|entry| entry.epoch != SLOTS.epoch(slot))
            {
                *sequence = None;
            }
        }
    }

    /// Returns the sequence in the recording of a slot.
    #[inline]
    fn get(&mut self, slot: usize) -> Option<&mut Sequence> {
        let clears = SLOTS.clears(slot);
        if self.0[slot].is_none() {
            self.begin(slot)?;
        }
        let entry = self.0[slot].as_mut()?;
        if entry.clears != clears {
            entry.clears = clears;
            entry.sequence.clear();
        }
        Some(&mut entry.sequence)
    }

    #[cold]
    fn begin(&mut self, slot: usize) -> Option<()> {
        let opened = SLOTS.open(slot)?;
        self.0[slot] = Some(Box::new(Entry {
            epoch: opened.epoch,
            clears: opened.clears,
            sequence: Sequence::new(
                opened.writer,
                opened.settings,
                current_process(),
                current_thread(),
            ),
        }));
        Some(())
    }
}

/// Drops this thread's sequences of stopped recordings.
pub(super) fn collect() {
    let _ = THREAD.try_with(|thread| {
        if let Ok(mut thread) = thread.try_borrow_mut() {
            thread.sequences.collect();
        }
    });
}

/// Calls `act` with this thread's sequence of each recording in `slots`. Does nothing inside
/// another trace point and while the thread ends.
#[inline(always)]
fn for_each_sequence(slots: u32, mut act: impl FnMut(usize, &mut Sequence, &mut EventBuffer)) {
    let Some(_point) = point::enter() else {
        return;
    };
    let _ = THREAD.try_with(|thread| {
        let Ok(mut thread) = thread.try_borrow_mut() else {
            return;
        };
        let State { sequences, buffer } = &mut *thread;
        for slot in bits(slots) {
            if let Some(sequence) = sequences.get(slot) {
                act(slot, sequence, buffer);
            }
        }
    });
}

/// Writes an event to the recordings in `slots`.
pub(super) fn write(slots: u32, event: &Event<'_>) {
    let now = clock::now();
    for_each_sequence(slots, |_, sequence, buffer| {
        sequence.event(buffer, now, event)
    });
}

/// Writes an event without fields to the recordings in `slots`.
#[inline(always)]
pub(super) fn write_short(slots: u32, event: &ShortEvent) {
    let now = clock::now();
    for_each_sequence(slots, |_, sequence, buffer| {
        if !sequence.short_event(now, event) {
            write_long(sequence, buffer, now, event);
        }
    });
}

#[cold]
fn write_long(sequence: &mut Sequence, buffer: &mut EventBuffer, now: u64, event: &ShortEvent) {
    sequence.event(buffer, now, &event.event());
}

/// Returns the recordings in `slots` that want a dynamic category.
pub(super) fn wanting(slots: u32, category: &str) -> u32 {
    let mut wanting = 0;
    for_each_sequence(slots, |slot, sequence, _| {
        wanting |= u32::from(sequence.wants(category)) << slot;
    });
    wanting
}

/// Describes a track again in the recordings where this thread has described it.
pub(super) fn describe_again(uuid: u64, description: &[u8]) {
    let now = clock::now();
    for_each_sequence(SLOTS.recording(), |_, sequence, buffer| {
        sequence.describe_again(buffer, now, uuid, description);
    });
}

/// Flushes this thread's sequences.
pub(crate) fn flush() {
    for_each_sequence(SLOTS.recording(), |_, sequence, _| sequence.flush());
}
