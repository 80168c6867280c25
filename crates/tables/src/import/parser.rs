//! Parses events in the order of time.

use super::ahead::{Ahead, Chunk};
use super::arena::Arena;
use super::context::{Context, EventState};
use super::event::Event;
use super::sequence::Sequences;
use super::sorter::{Take, Token};
use super::topics::Topics;
use super::track_event::{Annotation, Resolved};

/// The number of parsed events between checks of the memory of tables.
const EVENTS_A_CHECK: u32 = 256;

/// Parses events.
pub(super) struct Parser<'a> {
    pub(super) sequences: &'a mut Sequences,
    pub(super) arena: &'a mut Arena,
    pub(super) topics: &'a mut Topics,
    pub(super) ahead: &'a mut Ahead,
    pub(super) allowed: usize,
    pub(super) is_over: &'a mut bool,
    pub(super) events: u32,
}

impl Take for Parser<'_> {
    fn expand(&mut self, context: &mut Context, token: Token, out: &mut Vec<Token>) {
        if let Event::Compact { cpu, kind, span } = token.event {
            // The expansion depends on all earlier events.
            self.apply_all(context);
            let before = out.len();
            let bytes = self.arena.bytes(span);
            let topics = &mut self.topics;
            topics.expand(context, cpu, kind, (bytes, span), |ts, event| {
                out.push(Token { ts, event, ..token });
            });
            let events = out.len() - before;
            self.sequences.keep(token.state, events as u32);
            self.sequences.release(token.state);
            self.arena.release(span);
        }
    }

    #[inline]
    fn take(&mut self, context: &mut Context, token: &Token, is_late: bool) {
        if self.ahead.can_apply_now(token) {
            return self.apply(context, token, is_late, None);
        }
        let Self {
            arena, sequences, ..
        } = self;
        if let Some(chunk) = self.ahead.push(*token, is_late, arena, sequences) {
            self.apply_chunk(context, chunk);
        }
    }
}

impl Parser<'_> {
    /// Applies all waiting events.
    pub(super) fn apply_all(&mut self, context: &mut Context) {
        while let Some(chunk) = self.ahead.take() {
            self.apply_chunk(context, chunk);
        }
    }

    fn apply_chunk(&mut self, context: &mut Context, chunk: Chunk) {
        for (token, is_late, resolved) in chunk.events() {
            let resolved = resolved.map(|resolved| (resolved, chunk.annotations()));
            self.apply(context, token, is_late, resolved);
        }
        self.ahead.give_back(chunk);
    }

    /// Applies an event to the tables.
    #[inline]
    fn apply(
        &mut self,
        context: &mut Context,
        token: &Token,
        is_late: bool,
        resolved: Option<(&Resolved, &[Annotation])>,
    ) {
        let Self {
            sequences,
            arena,
            topics,
            ..
        } = self;
        self.events = self.events.wrapping_add(1);
        if self.events.is_multiple_of(EVENTS_A_CHECK) {
            // The memory of waiting packets was checked before, and tables replace it.
            *self.is_over |= context.store.memory() > self.allowed;
        }
        if !is_late && !*self.is_over {
            let state = sequences.state(token.state);
            let needs_bytes = resolved.is_none_or(|(resolved, _)| resolved.needs_bytes());
            let span = token.event.span().filter(|_| needs_bytes);
            let bytes = span.map_or(&[][..], |span| arena.bytes(span));
            context.store.set_machine(state.machine);
            let state = EventState { sequences, state };
            topics.parse(context, token.ts, &token.event, bytes, state, resolved);
            if context.slices.have_begun() {
                for (track, slice) in context.slices.take_begun() {
                    context.flows.slice_began(&mut context.store, track, slice);
                }
            }
        }
        sequences.release(token.state);
        if let Some(span) = token.event.span() {
            arena.release(span);
        }
    }
}
