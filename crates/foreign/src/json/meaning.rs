//! The meaning of events in Chrome's JSON.

use std::borrow::Cow;

use super::{Event, Id, Json, Number, Scope};
use crate::sink::{AsyncStep, FlowStep, LeftOut, Owner, Record, Sink, ThreadRef, ThreadState};

impl Event<'_> {
    /// Passes the event on to a sink. Events have to come in the order of time and rank. `ts` is
    /// the event's time on the clock of the sink.
    ///
    /// # Errors
    ///
    /// Fails if the sink does.
    pub fn interpret<S: Sink>(&self, ts: i64, sink: &mut S) -> Result<(), S::Error> {
        let mut record = Record {
            ts,
            thread: ThreadRef {
                pid: self.pid.as_ref(),
                tid: self.tid.as_ref(),
            },
            name: self.name.as_deref(),
            category: self.category.as_deref(),
            args: self.args.as_deref().unwrap_or_default(),
            args_name: "args",
            thread_ts: self.thread_ts,
            flow: None,
        };
        match self.phase {
            b'B' => {
                record.flow = self.bound_flow(sink, &record);
                sink.slice_begin(&record)
            }
            b'E' => sink.slice_end(&record),
            b'X' => match self.dur {
                Some(dur) if dur >= 0 => {
                    record.flow = self.bound_flow(sink, &record);
                    sink.complete(&record, dur, self.thread_dur)
                }
                _ => left_out(sink, &record, LeftOut::NoDuration),
            },
            b'i' | b'I' | b'R' => match self.scope {
                Scope::Thread if self.tid.is_some() => sink.instant(&record, Owner::Thread),
                Scope::Process if self.pid.is_some() => sink.instant(&record, Owner::Process),
                Scope::Global => sink.instant(&record, Owner::Trace),
                _ => left_out(sink, &record, LeftOut::NoOwner),
            },
            b'b' => self.asynchronous(sink, record, AsyncStep::Begin),
            b'e' => self.asynchronous(sink, record, AsyncStep::End),
            b'n' => self.asynchronous(sink, record, AsyncStep::Instant),
            b's' => self.flow(sink, &record, FlowStep::Begin),
            b't' => self.flow(sink, &record, FlowStep::Step),
            b'f' => self.flow(sink, &record, FlowStep::End),
            b'C' => self.counters(sink, &record),
            b'T' => self.thread_state(sink, &record),
            b'M' => self.metadata(sink, &record),
            b'P' => left_out(sink, &record, LeftOut::ProfilerSample),
            phase => left_out(sink, &record, LeftOut::Phase(phase)),
        }
    }

    /// Returns the flow that a slice names in its own fields.
    fn bound_flow<S: Sink>(&self, sink: &mut S, record: &Record<'_>) -> Option<(FlowStep, u64)> {
        let flow = self.bind_id.as_ref()?.flow();
        let step = match (self.flows_in, self.flows_out) {
            (true, true) => FlowStep::Step,
            (false, true) => FlowStep::Begin,
            (true, false) => FlowStep::End,
            (false, false) => {
                sink.left_out(record, LeftOut::NoFlowDirection);
                return None;
            }
        };
        Some((step, flow))
    }

    fn asynchronous<S: Sink>(
        &self,
        sink: &mut S,
        mut record: Record<'_>,
        step: AsyncStep,
    ) -> Result<(), S::Error> {
        let (id, is_global) = match (&self.id, &self.global_id, &self.local_id) {
            (Some(id), ..) | (None, Some(id), _) => (id, true),
            (None, None, Some(id)) => (id, false),
            (None, None, None) => return left_out(sink, &record, LeftOut::NoAsyncId),
        };
        if self.pid.is_none() {
            return left_out(sink, &record, LeftOut::NoProcess);
        }
        if step != AsyncStep::End {
            record.flow = self.bound_flow(sink, &record);
        }
        sink.asynchronous(&record, step, id, is_global)
    }

    fn flow<S: Sink>(
        &self,
        sink: &mut S,
        record: &Record<'_>,
        step: FlowStep,
    ) -> Result<(), S::Error> {
        match &self.id {
            Some(id) => {
                let at_next = step == FlowStep::End && !self.binds_to_enclosing;
                sink.flow(record, step, id.flow(), at_next)
            }
            None => left_out(sink, record, LeftOut::NoFlowId),
        }
    }

    /// Each argument is a counter of its own.
    fn counters<S: Sink>(&self, sink: &mut S, record: &Record<'_>) -> Result<(), S::Error> {
        if self.args.is_none() {
            return left_out(sink, record, LeftOut::NoCounterValue);
        }
        let name = record.name.unwrap_or_default();
        let name = match &self.id {
            Some(Id::Text(id)) if !id.is_empty() => Cow::Owned(format!("{name} id: {id}")),
            _ => Cow::Borrowed(name),
        };
        for (key, value) in record.args {
            let value = match value {
                Json::Int(value) => Some(*value as f64),
                Json::Uint(value) => Some(*value as f64),
                Json::Real(value) => Some(*value),
                Json::Text(text) => text.parse().ok(),
                _ => None,
            };
            match value {
                Some(value) => sink.counter(record, &format!("{name} {key}"), value)?,
                None => sink.left_out(record, LeftOut::BadCounterValue),
            }
        }
        Ok(())
    }

    fn thread_state<S: Sink>(&self, sink: &mut S, record: &Record<'_>) -> Result<(), S::Error> {
        let Some(dur) = self.dur else {
            return left_out(sink, record, LeftOut::NoDuration);
        };
        let mut state = ThreadState {
            dur,
            ..ThreadState::default()
        };
        for (key, value) in record.args {
            match (&**key, value) {
                ("cpu", Json::Int(value)) => state.cpu = u32::try_from(*value).ok(),
                ("io_wait", Json::Int(value)) => state.io_wait = Some(*value != 0),
                ("blocked_function", Json::Text(text)) => state.blocked_function = Some(text),
                _ => {}
            }
        }
        sink.thread_state(record, &state)
    }

    /// Reads the name or the sort index of a process or thread.
    fn metadata<S: Sink>(&self, sink: &mut S, record: &Record<'_>) -> Result<(), S::Error> {
        let (what, key) = match record.name.unwrap_or_default() {
            what @ ("process_name" | "thread_name") => (what, "name"),
            what @ ("process_sort_index" | "thread_sort_index") => (what, "sort_index"),
            _ => return left_out(sink, record, LeftOut::Metadata),
        };
        let Some((_, value)) = record.args.iter().find(|(of, _)| of == key) else {
            return left_out(sink, record, LeftOut::Metadata);
        };
        match (what, value) {
            ("process_name", Json::Text(name)) => {
                sink.process_name(record, &with_id(name, record.thread.pid))
            }
            ("thread_name", Json::Text(name)) => {
                sink.thread_name(record, &with_id(name, record.thread.tid))
            }
            ("process_sort_index", Json::Int(index)) => sink.sort_index(record, true, *index),
            ("process_sort_index", Json::Real(index)) => {
                sink.sort_index(record, true, *index as i64)
            }
            ("thread_sort_index", Json::Int(index)) => sink.sort_index(record, false, *index),
            ("thread_sort_index", Json::Real(index)) => {
                sink.sort_index(record, false, *index as i64)
            }
            _ => left_out(sink, record, LeftOut::BadName),
        }
    }
}

fn left_out<S: Sink>(sink: &mut S, record: &Record<'_>, why: LeftOut) -> Result<(), S::Error> {
    sink.left_out(record, why);
    Ok(())
}

/// Returns the name of a process or thread, with its id if that is not the kernel's.
fn with_id<'a>(name: &'a str, id: Option<&Number<'_>>) -> Cow<'a, str> {
    match id {
        Some(Number::Other(id)) => Cow::Owned(format!("{name} {id}")),
        _ => Cow::Borrowed(name),
    }
}
