//! The causes of the time of a row: a slice of a thread, or a state of one.

use std::ops::Range;

use ferretto_why::{Cause, ExplainedWait, Explanation, Piece, Share, Shares, Why};
use serde_json::{Value, json};

use crate::nodes::{Content, NONE};
use crate::view::View;

/// The maximum number of bars of a chain. The shortest ones are left out.
const MAX_BARS: usize = 1000;
/// The number of causes on each level, and of levels.
const MAX_CAUSES: usize = 20;
const MAX_LEVELS: usize = 4;
/// The number of functions of a callstack.
const MAX_FUNCTIONS: usize = 24;
/// The number of the longest waits that are listed.
const MAX_WAITS: usize = 5;
/// The number of losses.
const MAX_LOSSES: usize = 5;

/// A bar of the picture of a chain: the thread that the time of its level belongs to.
struct Bar {
    level: u32,
    start: i64,
    end: i64,
    thread: u32,
    cause: Cause,
    callsite: Option<u32>,
}

impl View {
    /// Returns the causes of the time of a row as JSON; `None` if the row has no thread.
    pub fn why(&self, node: u32, id: u32) -> Option<Value> {
        let (thread, interval) = self.explicable(node, id)?;
        let prepared = self.prepared();
        let why = Why::with(self.trace(), prepared.clone());
        if !why.recorded().switches {
            return None;
        }
        let explanation = why.explain(thread, interval.clone());
        let shares = Shares::new([&explanation]);
        let mut bars = bars(&explanation);
        let all = bars.len();
        bars.sort_by_key(|bar| (bar.start - bar.end, bar.level, bar.start));
        bars.truncate(MAX_BARS);
        bars.sort_by_key(|bar| (bar.level, bar.start));
        let missing = why.recorded().missing();
        let mut missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
        let losses = why.losses_in(&interval).into_iter().take(MAX_LOSSES);
        missing.extend(losses.map(|loss| format!("lost in this time: {}", loss.text)));
        Some(json!({
            "start": self.relative(interval.start),
            "dur": shares.ns,
            "causes": self.causes(&why, &shares.causes, 0),
            "bars": bars.iter().map(|bar| self.bar(&why, bar)).collect::<Vec<_>>(),
            "left_out": all - bars.len(),
            "waits": self.longest_waits(&why, &explanation),
            "missing": missing,
        }))
    }

    /// Returns the thread and the time of a row that can be explained.
    fn explicable(&self, node: u32, id: u32) -> Option<(u32, Range<i64>)> {
        let of = self.node(node)?;
        self.time_of(&of.content, id)?;
        let tables = self.trace().tables();
        let thread = match &of.content {
            Content::Slices(_) => tables.track.utid().get(tables.slice.track_id().get(id))?,
            Content::States(_) => tables.thread_state.utid().get(id),
            _ => return None,
        };
        let (_, times) = self.lanes(&of.content)?;
        Some((thread, times.start(id)..times.end(id)))
    }

    fn causes(&self, why: &Why<'_>, shares: &[Share], level: usize) -> Vec<Value> {
        let shown = shares.iter().take(MAX_CAUSES);
        let cause = |share: &Share| {
            let inner = if level + 1 < MAX_LEVELS {
                self.causes(why, &share.inner, level + 1)
            } else {
                Vec::new()
            };
            let mut functions = why.functions_of_share(share);
            functions.truncate(3);
            json!({
                "text": why.phrase(share.cause),
                "kind": share.cause.name(),
                "thread": [why.thread_label(share.thread), self.known_node(share.thread)],
                "ns": share.ns,
                "count": share.count,
                "functions": functions,
                "causes": inner,
            })
        };
        shown.map(cause).collect()
    }

    fn bar(&self, why: &Why<'_>, bar: &Bar) -> Value {
        json!({
            "level": bar.level,
            "start": self.relative(bar.start),
            "dur": bar.end - bar.start,
            "kind": bar.cause.name(),
            "text": why.phrase(bar.cause),
            "thread": [why.thread_label(bar.thread), self.known_node(bar.thread)],
            "ref": self.state_reference(bar.thread, bar.start),
            "function": bar.callsite.and_then(|callsite| {
                let functions = match bar.cause {
                    Cause::Wait(..) => why.waiting_functions(callsite),
                    _ => why.functions(callsite),
                };
                functions.into_iter().next().map(|function| function.name)
            }),
        })
    }

    /// Returns the longest waits of the thread, with the thread that ended each, and the callstacks
    /// of both.
    fn longest_waits(&self, why: &Why<'_>, explanation: &Explanation) -> Vec<Value> {
        let length = |wait: &ExplainedWait| wait.wait.end - wait.wait.start;
        let own = |wait: &&ExplainedWait| wait.wait.parent.is_none();
        let mut waits: Vec<&ExplainedWait> = explanation.waits.iter().filter(own).collect();
        waits.sort_by_key(|wait| (-length(wait), wait.wait.start));
        waits.truncate(MAX_WAITS);
        let names = |functions: Option<Vec<ferretto_why::Function>>| {
            let names = functions.unwrap_or_default().into_iter();
            let names = names.take(MAX_FUNCTIONS).map(|function| function.name);
            names.collect::<Vec<_>>()
        };
        let wait = |wait: &ExplainedWait| {
            let own = wait
                .callsite
                .map(|callsite| why.waiting_functions(callsite));
            let waker = wait.waker_callsite.map(|callsite| why.functions(callsite));
            json!({
                "start": self.relative(wait.wait.start),
                "dur": length(wait),
                "text": why.phrase_of_wait(wait),
                "ref": self.state_reference(wait.wait.thread, wait.wait.start),
                "waker": wait.waker().map(|waker| {
                    let end = wait.wait.state.end;
                    json!([why.thread_label(waker), self.state_reference(waker, end)])
                }),
                "stack": names(own),
                "waker_stack": names(waker),
            })
        };
        waits.into_iter().map(wait).collect()
    }

    fn known_node(&self, thread: u32) -> Option<u32> {
        Some(self.scene().thread(thread)).filter(|node| *node != NONE)
    }

    pub(crate) fn state_reference(&self, thread: u32, time: i64) -> Option<Value> {
        let state = self.state_at(thread, time)?;
        self.reference(self.states_node(thread)?, 0, state)
    }
}

/// Returns the waits and the parts of an explanation as bars.
fn bars(explanation: &Explanation) -> Vec<Bar> {
    let waits = explanation.waits.iter().map(|wait| Bar {
        level: wait.wait.depth,
        start: wait.wait.start,
        end: wait.wait.end,
        thread: wait.wait.thread,
        cause: wait.cause(),
        callsite: wait.callsite,
    });
    let is_wait = |piece: &&Piece| matches!(piece.cause, Cause::Wait(..));
    let pieces = explanation.pieces.iter();
    let pieces = pieces.filter(|piece| !is_wait(piece)).map(|piece| Bar {
        level: explanation.depth(piece),
        start: piece.start,
        end: piece.end,
        thread: piece.thread,
        cause: piece.cause,
        callsite: piece.callsite,
    });
    waits.chain(pieces).collect()
}
