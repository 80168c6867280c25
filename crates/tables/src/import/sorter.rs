//! Events in the order of time.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::context::Context;
use super::event::Event;
use crate::stats::Stat;
use crate::store::Store;

/// An event that waits for earlier ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token {
    pub(crate) ts: i64,
    /// Counts all events in the order of the file.
    arrival: u32,
    /// The incremental state it is to be read with.
    pub(crate) state: u32,
    pub(crate) event: Event,
}

const _: () = assert!(size_of::<Token>() <= 40);

/// The stream of events that an event belongs to. Events of one stream at the same time keep the
/// order of the file; of those at the same time in different streams, those of CPUs come last, by
/// the number of the CPU, and else those of streams that began earlier come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Stream {
    Packets,
    TrackEvents,
    /// Kernel events of a CPU.
    Ftrace(u32),
    /// Context switches of a CPU in compact form.
    Switches(u32),
    /// Wake-ups of a CPU in compact form.
    Wakings(u32),
}

impl Stream {
    /// Returns its place among streams that have events at the same time.
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

/// Streams beyond this number are put into the first one.
const MAX_STREAMS: usize = 1 << 16;

/// Events that wait for earlier ones.
#[derive(Debug)]
pub(crate) struct Sorter {
    by_stream: FxHashMap<(u32, Stream), u32>,
    queues: Vec<Queue>,
    arrivals: u32,
    /// Events before this one may be taken at the next opportunity.
    limit: u32,
    flushes: u32,
    /// The latest time of an event that was put in.
    pub(crate) latest: i64,
    /// The time of the event that was taken last.
    taken: i64,
    /// True if nothing is taken before the end.
    is_full_sort: bool,
    has_taken: bool,
}

#[derive(Debug, Default)]
struct Queue {
    tokens: VecDeque<Token>,
    /// The latest time.
    max: i64,
    /// The earliest time.
    min: i64,
    is_unsorted: bool,
    /// By machine and [`Stream::rank`].
    rank: (u32, u64),
}

impl Sorter {
    /// Returns one without events.
    pub(crate) fn new(is_full_sort: bool) -> Self {
        Self {
            by_stream: FxHashMap::default(),
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

    /// Takes nothing before the end from now on. Returns false if something was taken already.
    pub(crate) fn sort_fully(&mut self) -> bool {
        if !self.has_taken {
            self.is_full_sort = true;
        }
        self.is_full_sort
    }

    /// Puts in an event. Returns false if its time is negative, which is counted.
    #[inline]
    pub(crate) fn push(
        &mut self,
        store: &mut Store,
        stream: Stream,
        ts: i64,
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
        let number = match self.by_stream.get(&key) {
            Some(number) => *number,
            None => self.add_stream(key),
        };
        let queue = &mut self.queues[number as usize];
        if queue.tokens.is_empty() {
            (queue.min, queue.max, queue.is_unsorted) = (ts, ts, false);
        }
        queue.is_unsorted |= ts < queue.max || event.rank() != i64::MAX;
        queue.max = queue.max.max(ts);
        queue.min = queue.min.min(ts);
        queue.tokens.push_back(Token {
            ts,
            arrival: self.arrivals,
            state,
            event,
        });
        self.arrivals = self.arrivals.wrapping_add(1);
        self.latest = self.latest.max(ts);
        true
    }

    #[cold]
    fn add_stream(&mut self, key: (u32, Stream)) -> u32 {
        if self.queues.len() >= MAX_STREAMS {
            return 0;
        }
        let number = self.queues.len() as u32;
        let (machine, stream) = key;
        self.queues.push(Queue {
            rank: (machine, stream.rank()),
            ..Queue::default()
        });
        self.by_stream.insert(key, number);
        number
    }

    /// All data sources flushed what they had.
    pub(crate) fn flushed(&mut self) {
        self.flushes += 1;
    }

    /// All buffers were read. Returns true if events can be taken now.
    pub(crate) fn buffers_were_read(&mut self) -> bool {
        !self.is_full_sort && self.flushes >= 2
    }

    /// Takes all events, or else those before the limit, in the order of time, and sets the limit
    /// for the next time. Each is handed to `each`, with true if it is to be dropped as later ones
    /// were taken before.
    pub(crate) fn take(
        &mut self,
        context: &mut Context,
        is_all: bool,
        each: impl FnMut(&mut Context, Token, bool),
    ) {
        let limit = (!is_all).then_some(self.limit);
        self.take_until(context, limit, each);
        self.limit = self.arrivals;
        self.flushes = 0;
        self.has_taken = true;
    }

    /// Returns the memory that waiting events take, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let tokens = |queue: &Queue| queue.tokens.capacity() * size_of::<Token>();
        self.queues.iter().map(tokens).sum()
    }

    fn take_until(
        &mut self,
        context: &mut Context,
        limit: Option<u32>,
        mut each: impl FnMut(&mut Context, Token, bool),
    ) {
        loop {
            let (mut first, mut second) = (None::<(i64, (u32, u64), usize)>, i64::MAX);
            for (place, queue) in self.queues.iter().enumerate() {
                if queue.tokens.is_empty() {
                    continue;
                }
                match first {
                    Some((min, rank, _)) if (queue.min, queue.rank) >= (min, rank) => {
                        second = second.min(queue.min);
                    }
                    _ => {
                        second = first.map_or(i64::MAX, |(min, _, _)| min);
                        first = Some((queue.min, queue.rank, place));
                    }
                }
            }
            let Some((_, _, place)) = first else {
                break;
            };
            let queue = &mut self.queues[place];
            queue.sort();
            let mut count = 0_usize;
            while let Some(token) = queue.tokens.front().copied() {
                let is_new =
                    limit.is_some_and(|limit| token.arrival.wrapping_sub(limit) as i32 >= 0);
                if is_new || (token.ts > second && count > 0) {
                    break;
                }
                queue.tokens.pop_front();
                count += 1;
                let is_late = token.ts < self.taken;
                if is_late {
                    let stats = &mut context.store.stats;
                    stats.add(Stat::sorter_push_event_out_of_order, 1);
                } else {
                    self.taken = token.ts;
                }
                each(context, token, is_late);
            }
            queue.min = queue.tokens.front().map_or(i64::MAX, |token| token.ts);
            if queue.tokens.is_empty() && queue.tokens.capacity() > 1 << 16 {
                queue.tokens = VecDeque::new();
            }
            if count == 0 {
                break;
            }
        }
    }
}

impl Queue {
    fn sort(&mut self) {
        if std::mem::take(&mut self.is_unsorted) {
            self.tokens
                .make_contiguous()
                .sort_by_key(|token| (token.ts, token.event.rank()));
        }
    }
}
