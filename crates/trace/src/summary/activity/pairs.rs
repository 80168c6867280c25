//! Begin and end events in the order of time, as pairs.

use super::rows::{Call, Name};
use super::{Activity, ActivityKey, ActivityKind, Edge, MAX_OPEN, Step};
use crate::limits::entry_bytes;

/// The maximum number of begin and end events held back for sorting: the kernel's buffers are read
/// one CPU after the other, and a thread can migrate to another CPU during a system call.
const MAX_WAITING: usize = 1 << 17;

impl Activity {
    /// Holds back an event until those before it have been read.
    pub(super) fn wait(&mut self, edge: Edge) {
        self.waiting.push(edge);
        if self.waiting.len() >= MAX_WAITING {
            self.pair(MAX_WAITING / 2);
        }
    }

    /// Pairs the earliest `count` entries that are held back.
    fn pair(&mut self, count: usize) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.sort_by_key(|edge| edge.at);
        for edge in waiting.drain(..count.min(waiting.len())) {
            match edge.step {
                Step::Begin(_) if edge.id.0 == ActivityKind::Probe => {
                    if self.open_calls < MAX_OPEN {
                        self.open_calls += 1;
                        self.calls.entry(edge.id).or_default().push(edge.at);
                    }
                }
                Step::End if edge.id.0 == ActivityKind::Probe => {
                    self.end_call(edge.id, edge.at);
                }
                Step::Exit => {
                    let (kind, machine, thread, _) = edge.id;
                    let of_thread = edge.id..=(kind, machine, thread, u64::MAX);
                    let open = self.calls.range(of_thread).map(|(id, _)| *id);
                    for id in open.collect::<Vec<_>>() {
                        while self.end_call(id, edge.at) {}
                    }
                }
                Step::Begin(sum) => {
                    if self.open.len() < MAX_OPEN || self.open.contains_key(&edge.id) {
                        self.open.insert(edge.id, (edge.at, sum));
                    }
                }
                Step::End => self.close(edge),
                Step::Enter(number) => {
                    let name = Name::SystemCall(self.call(edge.id, number));
                    if let Some(sum) = self.count(edge.id.0, name, 0)
                        && (self.open.len() < MAX_OPEN || self.open.contains_key(&edge.id))
                    {
                        self.open.insert(edge.id, (edge.at, sum));
                    }
                }
                Step::Execute => self.execute(edge.id),
                Step::Return(number, failed) => {
                    // A return from another call, such as an interrupted one, is not of this one.
                    let name = Name::SystemCall(self.call(edge.id, number));
                    let sum = self.names.get(&(edge.id.0, name)).copied();
                    let open = self.open.get(&edge.id);
                    if open.is_some_and(|(_, open)| Some(*open) == sum) {
                        self.close(edge);
                        if failed
                            && let Some(sum) = self.sums.get_mut(sum.unwrap_or(u32::MAX) as usize)
                        {
                            sum.errors = sum.errors.saturating_add(1);
                        }
                    }
                }
                Step::Gap => {
                    self.open.retain(|id, _| id.1 != edge.id.1);
                    self.calls.retain(|id, _| id.1 != edge.id.1);
                    self.open_calls = self.calls.values().map(Vec::len).sum();
                }
            }
        }
        self.waiting = waiting;
    }

    /// Returns the key of a system call that a thread makes now.
    fn call(&self, (_, machine, thread, _): ActivityKey, number: u64) -> Call {
        Call {
            machine,
            thread,
            number,
            has_executed: self.executed.contains(&(machine, thread)),
        }
    }

    /// Records that a thread has executed a program. The call that did so is one of the program.
    fn execute(&mut self, id: ActivityKey) {
        let (kind, machine, thread, _) = id;
        let is_known = self.executed.contains(&(machine, thread));
        if is_known || !self.budget.take(entry_bytes::<((u32, u64), ())>()) {
            return;
        }
        self.executed.insert((machine, thread));
        let Some((since, before)) = self.open.get(&id).copied() else {
            return;
        };
        let first = Call {
            machine,
            thread,
            number: 0,
            has_executed: false,
        };
        let from = (kind, Name::SystemCall(first));
        let of_thread = self
            .names
            .range(from..)
            .map_while(|((_, name), sum)| match name {
                Name::SystemCall(call) if call.thread == thread => Some((*call, *sum)),
                _ => None,
            });
        let mut of_thread = of_thread.filter(|(_, sum)| *sum == before);
        let Some((call, _)) = of_thread.next() else {
            return;
        };
        let name = Name::SystemCall(Call {
            has_executed: true,
            ..call
        });
        if let Some(sum) = self.count(kind, name, 0) {
            self.open.insert(id, (since, sum));
            if let Some(before) = self.sums.get_mut(before as usize) {
                before.count = before.count.saturating_sub(1);
            }
        }
    }

    /// Ends the innermost call of a function. Returns false if there is none.
    fn end_call(&mut self, id: ActivityKey, at: u64) -> bool {
        let Some(begins) = self.calls.get_mut(&id) else {
            return false;
        };
        let begin = begins.pop();
        if begins.is_empty() {
            self.calls.remove(&id);
        }
        let sum = usize::try_from(id.3).ok();
        if let (Some(begin), Some(sum)) = (begin, sum.and_then(|sum| self.sums.get_mut(sum))) {
            self.open_calls -= 1;
            sum.add_time(at.saturating_sub(begin));
        }
        begin.is_some()
    }

    /// Ends an activity.
    fn close(&mut self, edge: Edge) {
        if let Some((since, sum)) = self.open.remove(&edge.id)
            && let Some(sum) = self.sums.get_mut(sum as usize)
        {
            sum.add_time(edge.at.saturating_sub(since));
        }
    }

    /// Pairs all entries that are held back.
    pub(super) fn pair_all(&mut self) {
        self.pair(usize::MAX);
    }
}
