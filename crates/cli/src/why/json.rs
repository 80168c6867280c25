//! The explanation as JSON. `docs/schema/why.json` describes it.

use ferretto_why::{Cause, ExplainedWait, Explanation, Function, Share, Shares, Why};

use super::phrases;
use super::select::Selected;
use crate::json::{self, Members};

/// The number of waits that are listed, the longest first.
const MAX_WAITS: usize = 100;
/// The number of functions of a cause.
const MAX_FUNCTIONS: usize = 10;

pub(super) fn explanation(
    why: &Why<'_>,
    selected: &Selected,
    explanation: &Explanation,
    shares: &Shares,
) -> String {
    json::answer(|all| {
        all.name("thread")
            .object(|it| thread(it, why, selected.thread));
        all.add("slice", selected.slice);
        all.add("ts_ns", selected.interval.start);
        all.add("dur_ns", shares.ns);
        all.add("reason", selected.reason.as_deref());
        all.objects("causes", &shares.causes, |it, share| cause(it, why, share));
        let waits = &explanation.waits;
        let mut longest: Vec<usize> = (0..waits.len()).collect();
        let order = |at: &usize| (waits[*at].wait.start - waits[*at].wait.end, *at);
        if longest.len() > MAX_WAITS {
            longest.select_nth_unstable_by_key(MAX_WAITS, order);
            longest.truncate(MAX_WAITS);
        }
        longest.sort_unstable_by_key(order);
        all.objects("waits", longest, |it, at| wait(it, why, at, &waits[at]));
        let losses = why.losses_in(&selected.interval);
        all.objects("losses", &losses, |it, loss| {
            it.add("ts_ns", loss.ts);
            it.add("lost", &loss.text);
        });
        missing(all, why);
        all.name("recorded").object(|it| {
            let recorded = why.recorded();
            it.add("switches", recorded.switches);
            it.add("wakeups", recorded.wakeups);
            it.add("system_calls", recorded.system_calls);
            it.add("interrupts", recorded.interrupts);
            it.add("samples", recorded.samples);
            it.add("waits", recorded.waits);
        });
    })
}

/// Adds the kinds of data that the trace lacks.
pub(super) fn missing(all: &mut Members<'_>, why: &Why<'_>) {
    all.objects("missing", why.recorded().missing(), |it, missing| {
        it.add("data", missing.data);
        it.add("option", missing.option);
        it.add("tells", missing.tells);
    });
}

pub(super) fn thread(it: &mut Members<'_>, why: &Why<'_>, thread: u32) {
    let tables = why.trace().tables();
    let name = tables.thread.name().get(thread);
    it.add("utid", thread);
    it.add("tid", tables.thread.tid().get(thread));
    it.add("name", why.trace().strings().get(name));
    let process = tables.thread.upid().get(thread);
    it.add(
        "pid",
        process.map(|process| tables.process.pid().get(process)),
    );
}

pub(super) fn cause(it: &mut Members<'_>, why: &Why<'_>, share: &Share) {
    let strings = why.trace().strings();
    it.add("cause", share.cause.name());
    match share.cause {
        Cause::Call(name) => it.add("call", phrases::call(strings.text(name))),
        Cause::Interrupt(name) => it.add("interrupt", strings.text(name)),
        Cause::Behind(other) => it.name("behind").object(|it| thread(it, why, other)),
        Cause::Idle(Some(group)) => it.add("group", strings.text(group)),
        Cause::Wait(kind, waker) => {
            it.add("kind", kind.name());
            if let Some(waker) = waker {
                it.name("waker").object(|it| thread(it, why, waker));
            }
        }
        _ => {}
    }
    it.name("thread").object(|it| thread(it, why, share.thread));
    it.add("dur_ns", share.ns);
    it.add("count", share.count);
    let mut functions = why.functions_of_share(share);
    functions.truncate(MAX_FUNCTIONS);
    it.objects("functions", functions, |it, (name, ns)| {
        it.add("name", name);
        it.add("dur_ns", ns);
    });
    it.objects("causes", &share.inner, |it, share| cause(it, why, share));
}

fn wait(it: &mut Members<'_>, why: &Why<'_>, id: usize, wait: &ExplainedWait) {
    let strings = why.trace().strings();
    it.add("id", id);
    it.add("parent", wait.wait.parent);
    it.add("ts_ns", wait.wait.start);
    it.add("dur_ns", wait.wait.end - wait.wait.start);
    it.add("kind", wait.kind.name());
    it.name("thread")
        .object(|it| thread(it, why, wait.wait.thread));
    if let Some(waker) = wait.waker() {
        it.name("waker").object(|it| thread(it, why, waker));
    }
    it.add(
        "call",
        wait.call.map(|call| phrases::call(strings.text(call))),
    );
    it.add("address", wait.address);
    it.add("interrupt", wait.interrupt.map(|name| strings.text(name)));
    it.add("interrupt_cpu", why.interrupt_cpu(wait));
    let stack = |functions: Option<Vec<Function>>| functions.unwrap_or_default();
    let own = stack(
        wait.callsite
            .map(|callsite| why.waiting_functions(callsite)),
    );
    it.name("stack")
        .list(own, |json, function| json.string(&function.name));
    let waker = stack(wait.waker_callsite.map(|callsite| why.functions(callsite)));
    it.name("waker_stack")
        .list(waker, |json, function| json.string(&function.name));
}
