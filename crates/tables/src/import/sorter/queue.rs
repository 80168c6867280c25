//! The events of one stream.

use std::collections::VecDeque;

use super::{Take, Token};
use crate::import::context::Context;
use crate::import::event::Event;

/// Events of which the memory is given back together.
const CHUNK: usize = 1 << 11;

/// The events of one stream.
#[derive(Debug)]
pub(super) struct Queue {
    /// The first events, which others consisted of, the last one first.
    expanded: Vec<Token>,
    chunks: VecDeque<Vec<Token>>,
    /// The place of the first event in the first chunk.
    first: usize,
    /// The latest time.
    max: i64,
    /// The earliest time.
    pub(super) min: i64,
    is_unsorted: bool,
    /// By machine and rank of the stream.
    pub(super) rank: (u32, u64),
}

impl Queue {
    pub(super) fn new(rank: (u32, u64)) -> Self {
        Self {
            expanded: Vec::new(),
            chunks: VecDeque::new(),
            first: 0,
            max: 0,
            min: 0,
            is_unsorted: false,
            rank,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.expanded.is_empty() && self.chunks.is_empty()
    }

    /// Returns the memory that it takes, in bytes.
    pub(super) fn memory(&self) -> usize {
        let chunks = self.chunks.len() * CHUNK + self.expanded.capacity();
        chunks * size_of::<Token>()
    }

    /// Appends an event that lasts until this time.
    #[inline]
    pub(super) fn push(&mut self, token: Token, last: i64) {
        if self.is_empty() {
            (self.min, self.max, self.is_unsorted) = (token.ts, token.ts, false);
        }
        self.is_unsorted |= token.ts < self.max || token.event.rank() != i64::MAX;
        self.max = self.max.max(last);
        self.min = self.min.min(token.ts);
        match self.chunks.back_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(token),
            last => {
                // The first chunk may remain the only one.
                let capacity = if last.is_some() { CHUNK } else { 0 };
                let mut chunk = Vec::with_capacity(capacity);
                chunk.push(token);
                self.chunks.push_back(chunk);
            }
        }
    }

    /// Returns the first event.
    #[inline]
    pub(super) fn front(&mut self, context: &mut Context, taker: &mut impl Take) -> Option<Token> {
        if let Some(token) = self.expanded.last() {
            return Some(*token);
        }
        loop {
            let token = *self.chunks.front()?.get(self.first)?;
            if !matches!(token.event, Event::Compact { .. }) {
                return Some(token);
            }
            self.pop_token();
            taker.expand(context, token, &mut self.expanded);
            self.expanded.reverse();
            if let Some(token) = self.expanded.last() {
                return Some(*token);
            }
        }
    }

    /// Removes the first event.
    #[inline]
    pub(super) fn pop(&mut self) {
        if self.expanded.pop().is_none() {
            self.pop_token();
        }
    }

    #[inline]
    fn pop_token(&mut self) {
        self.first += 1;
        if self
            .chunks
            .front()
            .is_some_and(|chunk| self.first >= chunk.len())
        {
            self.chunks.pop_front();
            self.first = 0;
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
        let first = std::mem::take(&mut self.first);
        let waiting: usize = self.chunks.iter().map(Vec::len).sum();
        all.reserve_exact(waiting.saturating_sub(first));
        let mut skip = first;
        while let Some(chunk) = self.chunks.pop_front() {
            for token in chunk.into_iter().skip(std::mem::take(&mut skip)) {
                match token.event {
                    Event::Compact { .. } => taker.expand(context, token, &mut all),
                    _ => all.push(token),
                }
            }
        }
        all.sort_by_key(|token| (token.ts, token.event.rank()));
        // From the end, so that memory is given back meanwhile.
        while !all.is_empty() {
            let rest = (all.len() - 1) / CHUNK * CHUNK;
            self.chunks.push_front(all[rest..].to_vec());
            all.truncate(rest);
            if rest.is_multiple_of(64 * CHUNK) {
                all.shrink_to_fit();
            }
        }
    }

    /// Notes the first time after events were removed.
    #[inline]
    pub(super) fn settle(&mut self) {
        let chunk = self.chunks.front();
        let next = self
            .expanded
            .last()
            .or_else(|| chunk.and_then(|chunk| chunk.get(self.first)));
        self.min = next.map_or(i64::MAX, |token| token.ts);
    }
}
