//! The events of one stream.

use std::collections::VecDeque;

use super::packed::Packed;
use super::{Take, Token};
use crate::import::context::Context;
use crate::import::event::Event;

/// The number of events that are packed together.
const CHUNK: usize = 1 << 10;

/// The events of one stream.
#[derive(Debug)]
pub(super) struct Queue {
    /// The first events, expanded from a composite event, in reverse order.
    expanded: Vec<Token>,
    /// The next events, from index `first`.
    front: Vec<Token>,
    first: usize,
    /// The next events, and their memory.
    packed: VecDeque<Packed>,
    packed_bytes: usize,
    /// The last events.
    back: Vec<Token>,
    scratch: Vec<u8>,
    /// The latest time.
    max: i64,
    /// The earliest time.
    pub(super) min: i64,
    is_unsorted: bool,
    /// The machine and the rank of the stream.
    pub(super) rank: (u32, u64),
}

impl Queue {
    pub(super) fn new(rank: (u32, u64)) -> Self {
        Self {
            expanded: Vec::new(),
            front: Vec::new(),
            first: 0,
            packed: VecDeque::new(),
            packed_bytes: 0,
            back: Vec::new(),
            scratch: Vec::new(),
            max: 0,
            min: 0,
            is_unsorted: false,
            rank,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.expanded.is_empty()
            && self.first >= self.front.len()
            && self.packed.is_empty()
            && self.back.is_empty()
    }

    /// Returns the memory in bytes.
    pub(super) fn memory(&self) -> usize {
        let tokens = self.expanded.capacity() + self.front.capacity() + self.back.capacity();
        tokens * size_of::<Token>() + self.packed_bytes
    }

    /// Appends an event that extends to the time `last`.
    #[inline]
    pub(super) fn push(&mut self, token: Token, last: i64) {
        if self.is_empty() {
            (self.min, self.max, self.is_unsorted) = (token.ts, token.ts, false);
        }
        self.is_unsorted |= token.ts < self.max || token.event.rank() != i64::MAX;
        self.max = self.max.max(last);
        self.min = self.min.min(token.ts);
        self.back.push(token);
        if self.back.len() >= CHUNK {
            self.pack();
        }
    }

    fn pack(&mut self) {
        let packed = Packed::new(&self.back, &mut self.scratch);
        self.back.clear();
        self.packed_bytes += packed.memory();
        self.packed.push_back(packed);
    }

    /// Unpacks the next events after the first ones were removed.
    #[cold]
    fn next_chunk(&mut self) {
        self.front.clear();
        self.first = 0;
        match self.packed.pop_front() {
            Some(packed) => {
                self.packed_bytes -= packed.memory();
                packed.unpack(&mut self.front);
            }
            None => std::mem::swap(&mut self.front, &mut self.back),
        }
    }

    /// Returns the time of the first event and its position in the file.
    #[inline]
    pub(super) fn front(
        &mut self,
        context: &mut Context,
        taker: &mut impl Take,
    ) -> Option<(i64, u32)> {
        if let Some(token) = self.expanded.last() {
            return Some((token.ts, token.arrival));
        }
        loop {
            if self.first >= self.front.len() {
                self.next_chunk();
            }
            let token = self.front.get(self.first)?;
            if !matches!(token.event, Event::Compact { .. }) {
                return Some((token.ts, token.arrival));
            }
            let token = *token;
            self.first += 1;
            taker.expand(context, token, &mut self.expanded);
            self.expanded.reverse();
            if let Some(token) = self.expanded.last() {
                return Some((token.ts, token.arrival));
            }
        }
    }

    /// Returns the first event after [`front`](Self::front) was called.
    #[inline]
    pub(super) fn first(&self) -> Option<&Token> {
        self.expanded.last().or_else(|| self.front.get(self.first))
    }

    /// Removes the first event.
    #[inline]
    pub(super) fn remove_first(&mut self) {
        if self.expanded.pop().is_none() {
            self.first += 1;
        }
    }

    /// Sorts the events by time.
    #[inline]
    pub(super) fn sort(&mut self, context: &mut Context, taker: &mut impl Take) {
        if std::mem::take(&mut self.is_unsorted) {
            self.sort_all(context, taker);
        }
    }

    fn sort_all(&mut self, context: &mut Context, taker: &mut impl Take) {
        let mut all = std::mem::take(&mut self.expanded);
        all.reverse();
        all.reserve_exact(self.front.len() + self.packed.len() * CHUNK + self.back.len());
        loop {
            for token in self.front.drain(..).skip(self.first) {
                match token.event {
                    Event::Compact { .. } => taker.expand(context, token, &mut all),
                    _ => all.push(token),
                }
            }
            self.next_chunk();
            if self.front.is_empty() {
                break;
            }
        }
        all.sort_by_key(|token| (token.ts, token.event.rank()));
        for chunk in all.chunks(CHUNK) {
            self.back.extend_from_slice(chunk);
            self.pack();
        }
    }

    /// Updates the first time after events were removed.
    #[inline]
    pub(super) fn update_min(&mut self) {
        if self.expanded.is_empty() && self.first >= self.front.len() {
            self.next_chunk();
        }
        self.min = self.first().map_or(i64::MAX, |token| token.ts);
    }
}
