//! Sorts events by time.

mod order;
mod packed;
mod queue;

use rustc_hash::FxHashMap;

use self::order::Order;
use self::queue::Queue;
use super::context::Context;
use super::event::Event;
use crate::stats::Stat;
use crate::store::Store;

/// An event that waits for earlier ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token {
    pub(crate) ts: i64,
    /// The number of the event in the order of the file.
    pub(super) arrival: u32,
    /// The incremental state of the event.
    pub(crate) state: u32,
    pub(crate) event: Event,
}

const _: () = assert!(size_of::<Token>() <= 40);

/// The stream of an event. Events of one stream at the same time keep the order of the file. Of
/// events at the same time in different streams, those of CPUs come last, by the number of the CPU.
/// The others are sorted by the creation of their streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Stream {
    Packets,
    TrackEvents,
    /// Kernel events of a CPU.
    Ftrace(u32),
    /// Compact context switches of a CPU.
    Switches(u32),
    /// Compact wake-ups of a CPU.
    Wakings(u32),
}

impl Stream {
    /// Returns the order among streams with events at the same time.
    fn rank(self) -> u64 {
        let (cpu, kind) = match self {
            Self::Switches(cpu) => (cpu, 0),
            Self::Wakings(cpu) => (cpu, 1),
            Self::Ftrace(cpu) => (cpu, 2),
            _ => return 0,
        };
        (u64::from(cpu) + 1) * 4 + kind
    }
}

/// The consumer of sorted events.
pub(crate) trait Take {
    /// Appends the parts of a composite event to `out`.
    fn expand(&mut self, context: &mut Context, token: Token, out: &mut Vec<Token>);

    /// Handles an event. One that `is_late` must be dropped, since later ones were handled before.
    fn take(&mut self, context: &mut Context, token: &Token, is_late: bool);
}

/// The maximum number of streams. Events of further ones go into the first one.
const MAX_STREAMS: usize = 1 << 16;

/// Events that wait for earlier ones.
#[derive(Debug)]
pub(crate) struct Sorter {
    by_stream: FxHashMap<(u32, Stream), u32>,
    /// The stream of the last event.
    last: Option<((u32, Stream), u32)>,
    queues: Vec<Queue>,
    arrivals: u32,
    /// The arrival number before which events may be taken at the next opportunity.
    limit: u32,
    flushes: u32,
    /// The latest time of all pushed events.
    pub(crate) latest: i64,
    /// The time of the last taken event.
    taken: i64,
    /// Set if all events are sorted at the end.
    is_full_sort: bool,
    has_taken: bool,
}

impl Sorter {
    /// Creates an empty sorter.
    pub(crate) fn new(is_full_sort: bool) -> Self {
        Self {
            by_stream: FxHashMap::default(),
            last: None,
            queues: Vec::new(),
            arrivals: 0,
            limit: 0,
            flushes: 0,
            latest: 0,
            taken: i64::MIN,
            is_full_sort,
            has_taken: false,
        }
    }

    /// Sorts all events at the end. Returns false if some were taken already.
    pub(crate) fn sort_fully(&mut self) -> bool {
        if !self.has_taken {
            self.is_full_sort = true;
        }
        self.is_full_sort
    }

    /// Adds an event. Returns false if its time is negative, which is counted.
    #[inline]
    pub(crate) fn push(
        &mut self,
        store: &mut Store,
        stream: Stream,
        ts: i64,
        state: u32,
        event: Event,
    ) -> bool {
        self.push_until(store, stream, (ts, ts), state, event)
    }

    /// Adds a composite event with times from `ts` to `last`.
    #[inline]
    pub(crate) fn push_until(
        &mut self,
        store: &mut Store,
        stream: Stream,
        (ts, last): (i64, i64),
        state: u32,
        event: Event,
    ) -> bool {
        if ts < 0 {
            store
                .stats
                .add(Stat::trace_sorter_negative_timestamp_dropped, 1);
            return false;
        }
        let key = (store.machine, stream);
        let number = match self.last {
            Some((last, number)) if last == key => number,
            _ => self.look_up(key),
        };
        let token = Token {
            ts,
            arrival: self.arrivals,
            state,
            event,
        };
        self.queues[number as usize].push(token, last);
        self.arrivals = self.arrivals.wrapping_add(1);
        self.latest = self.latest.max(last);
        true
    }

    fn look_up(&mut self, key: (u32, Stream)) -> u32 {
        let number = match self.by_stream.get(&key) {
            Some(number) => *number,
            None => self.add_stream(key),
        };
        self.last = Some((key, number));
        number
    }

    #[cold]
    fn add_stream(&mut self, key: (u32, Stream)) -> u32 {
        if self.queues.len() >= MAX_STREAMS {
            return 0;
        }
        let number = self.queues.len() as u32;
        let (machine, stream) = key;
        self.queues.push(Queue::new((machine, stream.rank())));
        self.by_stream.insert(key, number);
        number
    }

    /// Handles a flush of all data sources.
    pub(crate) fn flushed(&mut self) {
        self.flushes += 1;
    }

    /// Handles the reading of all buffers. Returns true if events can be taken now.
    pub(crate) fn buffers_were_read(&mut self) -> bool {
        !self.is_full_sort && self.flushes >= 2
    }

    /// Passes all events, or those before the limit, to `taker` in the order of time, and sets the
    /// next limit.
    pub(crate) fn take(&mut self, context: &mut Context, is_all: bool, taker: &mut impl Take) {
        let limit = (!is_all).then_some(self.limit);
        self.take_until(context, limit, taker);
        self.limit = self.arrivals;
        self.flushes = 0;
        self.has_taken = true;
    }

    /// Returns the memory of waiting events in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.queues.iter().map(Queue::memory).sum()
    }

    fn take_until(&mut self, context: &mut Context, limit: Option<u32>, taker: &mut impl Take) {
        let Self { queues, taken, .. } = self;
        // Of equal entries, the stream that was created first comes first.
        let entries = queues
            .iter()
            .enumerate()
            .filter(|(_, queue)| !queue.is_empty());
        let entries = entries.map(|(index, queue)| (queue.min, queue.rank, index));
        let mut order = Order::of(entries.collect());
        while let Some(index) = order.first() {
            let second = order.second();
            let queue = &mut queues[index];
            queue.sort(context, taker);
            let mut count = 0_usize;
            while let Some((ts, arrival)) = queue.front(context, taker) {
                let is_new = limit.is_some_and(|limit| arrival.wrapping_sub(limit) as i32 >= 0);
                if is_new || (ts > second && count > 0) {
                    break;
                }
                let Some(token) = queue.first() else {
                    break;
                };
                count += 1;
                let is_late = token.ts < *taken;
                if is_late {
                    let stats = &mut context.store.stats;
                    stats.add(Stat::sorter_push_event_out_of_order, 1);
                } else {
                    *taken = token.ts;
                }
                // Copying an event would take longer than all of this.
                taker.take(context, token, is_late);
                queue.remove_first();
            }
            queue.update_min();
            if count == 0 {
                break;
            }
            if queue.is_empty() {
                order.remove_first()
            } else {
                order.update_first(queue.min)
            }
        }
    }
}
