//! Track events: slices, moments and counters of this program's threads.

mod buffer;
mod category;
mod event;
mod filter;
mod identity;
mod interner;
mod sequence;
#[cfg(test)]
mod tests;
mod value;

pub use buffer::{EventBuffer, EventEncoder};
pub use category::Category;
pub use event::{CounterValue, Kind, Name};
#[doc(hidden)]
pub use identity::{Process, Thread};
pub use value::{Annotation, Argument, Array, Bytes, Debugged, Dict, Displayed};
pub use value::{bytes, debug, display};

use std::cell::RefCell;
use std::sync::Arc;

use ferretto_client::ProducerHandle;
use ferretto_proto::{DataSourceConfig, DataSourceDescriptor};
use rustix::time::{ClockId, clock_gettime};

use self::filter::Filter;
use self::sequence::Sequence;
use crate::engine::{
    Command, MAX_INSTANCES, Runtime, Slots, Source, Target, bits, exhausted_policy, point, runtime,
};

/// The recordings that want track events.
static SLOTS: Slots<Arc<Filter>> = Slots::new();

thread_local! {
    static THREAD: RefCell<ThreadState> = const { RefCell::new(ThreadState::new()) };
}

/// What a thread keeps from event to event.
#[derive(Debug)]
struct ThreadState {
    /// For each slot the sequence, with the epoch and the number of clears it belongs to.
    sequences: [Option<(u64, u32, Box<Sequence>)>; MAX_INSTANCES],
    buffer: EventBuffer,
}

impl ThreadState {
    const fn new() -> Self {
        Self {
            sequences: [const { None }; MAX_INSTANCES],
            buffer: EventBuffer::new(),
        }
    }

    /// Ends the sequences of recordings that have stopped.
    fn collect(&mut self) {
        for (slot, entry) in self.sequences.iter_mut().enumerate() {
            if entry
                .as_ref()
                .is_some_and(|(epoch, ..)| *epoch != SLOTS.epoch(slot))
            {
                *entry = None;
            }
        }
    }

    /// This thread's sequence in the recording of a slot.
    #[inline]
    fn sequence(&mut self, slot: usize) -> Option<&mut Sequence> {
        let clears = SLOTS.clears(slot);
        if self.sequences[slot].is_none() {
            self.begin(slot, clears)?;
        }
        let (_, seen, sequence) = self.sequences[slot].as_mut()?;
        if *seen != clears {
            *seen = clears;
            sequence.clear();
        }
        Some(sequence)
    }

    #[cold]
    fn begin(&mut self, slot: usize, clears: u32) -> Option<()> {
        // The epoch first: if the recording is replaced meanwhile, the next event notices.
        let epoch = SLOTS.epoch(slot);
        let (writer, filter) = SLOTS.writer(slot).filter(|_| epoch != 0)?;
        let sequence = Sequence::new(writer, filter, Process::current(), Thread::current());
        self.sequences[slot] = Some((epoch, clears, Box::new(sequence)));
        Some(())
    }
}

/// Ends this thread's sequences of recordings that have stopped.
fn collect() {
    let _ = THREAD.try_with(|thread| {
        if let Ok(mut thread) = thread.try_borrow_mut() {
            thread.collect();
        }
    });
}

/// Calls `write` with this thread's sequence in every recording that is named by a bit.
#[inline]
fn for_each_sequence(slots: u32, mut write: impl FnMut(&mut Sequence, &mut EventBuffer)) {
    let Some(_point) = point::enter() else {
        return;
    };
    // Fails while the thread ends; events from there are lost.
    let _ = THREAD.try_with(|thread| {
        let Ok(mut thread) = thread.try_borrow_mut() else {
            return;
        };
        let thread = &mut *thread;
        let mut buffer = std::mem::replace(&mut thread.buffer, EventBuffer::new());
        for slot in bits(slots) {
            if let Some(sequence) = thread.sequence(slot) {
                write(sequence, &mut buffer);
            }
        }
        thread.buffer = buffer;
    });
}

/// Nanoseconds since the machine was started.
#[inline]
fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Writes an event to every recording that wants its category. What the macros call.
pub fn emit(
    category: &'static Category,
    kind: Kind,
    name: Option<Name<'_>>,
    arguments: &[(&'static str, &dyn Argument)],
) {
    let slots = category.slots();
    if slots != 0 {
        let now = now();
        for_each_sequence(slots, |sequence, buffer| {
            sequence.event(buffer, now, category.name(), kind, name, arguments);
        });
    }
}

/// Sets a counter of the process in every recording that wants its category. What [`counter!`](crate::counter) calls.
pub fn emit_counter(category: &'static Category, name: Name<'_>, value: CounterValue) {
    let slots = category.slots();
    if slots != 0 {
        let now = now();
        for_each_sequence(slots, |sequence, buffer| {
            sequence.counter(buffer, now, name, value);
        });
    }
}

/// A slice that ends when this is dropped. Made by [`slice!`](crate::slice).
#[derive(Debug)]
#[must_use = "the slice ends when this is dropped"]
pub struct Slice(Option<&'static Category>);

impl Slice {
    /// A slice nobody records.
    #[inline]
    pub const fn disabled() -> Self {
        Self(None)
    }

    /// The slice whose beginning was just written.
    #[inline]
    pub fn begun(category: &'static Category) -> Self {
        Self(Some(category))
    }
}

impl Drop for Slice {
    #[inline]
    fn drop(&mut self) {
        if let Some(category) = self.0 {
            emit(category, Kind::End, None, &[]);
        }
    }
}

/// Flushes this thread's sequences.
pub(crate) fn flush_thread() {
    for_each_sequence(SLOTS.active(), |sequence, _| sequence.flush());
}

/// Offers track events to recordings.
pub(crate) fn register(runtime: &Runtime) {
    point::on_collect(collect);
    runtime.send(Command::Register(descriptor(), Some(Box::new(TrackEvents))));
}

/// Tells the service of new categories.
fn announce() {
    if let Some(runtime) = runtime() {
        runtime.send(Command::Register(descriptor(), None));
    }
}

fn descriptor() -> DataSourceDescriptor {
    DataSourceDescriptor {
        name: Some(b"track_event".to_vec()),
        id: Some(1),
        will_notify_on_start: Some(true),
        will_notify_on_stop: Some(true),
        handles_incremental_state_clear: Some(true),
        // Threads are not interrupted for a flush: the service reads what they have written from the shared memory.
        no_flush: Some(true),
        track_event_descriptor: Some(category::descriptor()),
        ..Default::default()
    }
}

/// Track events as a data source.
struct TrackEvents;

impl Source for TrackEvents {
    fn setup(&mut self, config: &DataSourceConfig, handle: &ProducerHandle) -> Option<usize> {
        SLOTS.claim(Target {
            handle: handle.clone(),
            buffer: config.target_buffer.unwrap_or(0),
            policy: exhausted_policy(config),
            settings: Arc::new(Filter::decode(
                config.track_event_config.as_deref().unwrap_or(&[]),
            )),
        })
    }

    fn start(&mut self, place: usize) {
        SLOTS.start(place);
        let mut filter = None;
        SLOTS.for_each(|slot, settings| {
            if slot == place {
                filter = Some(Filter::clone(settings));
            }
        });
        if let Some(filter) = filter {
            category::enable(place, filter);
        }
    }

    fn stop(&mut self, place: usize) {
        category::disable(place);
        SLOTS.stop(place);
        SLOTS.release(place);
    }

    fn flush(&mut self, _place: usize) {}

    fn clear_incremental_state(&mut self, place: usize) {
        SLOTS.clear(place);
    }
}
