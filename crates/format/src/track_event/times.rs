//! Times of track events in the encoding of old writers: differences from the event before, in
//! microseconds.

use ferretto_proto::fields::{thread_descriptor as thread, track_event as field};
use ferretto_wire::Fields;

use super::TrackEvent;

/// The times of an event that has them in the encoding of old writers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventTimes {
    /// The time in nanoseconds of the monotonic clock.
    pub time: Option<i64>,
    /// The CPU time of the thread in nanoseconds.
    pub thread_time: Option<i64>,
    /// The instructions of the thread.
    pub instructions: Option<i64>,
}

/// The difference without a base, because packets are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingBase {
    /// The difference of the time.
    Time,
    /// The difference of the CPU time of the thread.
    ThreadTime,
    /// The difference of the instructions of the thread.
    Instructions,
}

/// The base of differences.
#[derive(Debug, Clone, Copy)]
struct Base {
    time: i64,
    thread_time: i64,
    instructions: i64,
}

/// The base of the relative times of a sequence: that in its `ThreadDescriptor`, and the
/// differences since then.
#[derive(Debug, Clone, Default)]
pub struct RelativeTimes {
    base: Option<Base>,
}

impl RelativeTimes {
    /// Forgets the base, after a loss or a restart.
    pub fn reset(&mut self) {
        self.base = None;
    }

    /// Takes the base from a `ThreadDescriptor`.
    pub fn set(&mut self, descriptor: &[u8]) {
        let number = |number| {
            let value = Fields::find(number, descriptor).and_then(|value| value.as_i64());
            value.unwrap_or(0)
        };
        self.base = Some(Base {
            time: nanoseconds(number(thread::REFERENCE_TIMESTAMP_US)),
            thread_time: nanoseconds(number(thread::REFERENCE_THREAD_TIME_US)),
            instructions: number(thread::REFERENCE_THREAD_INSTRUCTION_COUNT),
        });
    }

    /// Reads the times of an event, and advances the base.
    ///
    /// # Errors
    ///
    /// Fails if a difference has no base.
    pub fn read(&mut self, event: &TrackEvent<'_>) -> Result<EventTimes, MissingBase> {
        let mut times = EventTimes::default();
        if !event.has_relative_times {
            return Ok(times);
        }
        let number = |number| event.find(number).and_then(|field| field.as_i64());
        if let Some(delta) = number(field::TIMESTAMP_DELTA_US) {
            let base = self.base.as_mut().ok_or(MissingBase::Time)?;
            base.time = base.time.saturating_add(nanoseconds(delta));
            times.time = Some(base.time);
        } else {
            let absolute = number(field::TIMESTAMP_ABSOLUTE_US).filter(|time| *time != 0);
            times.time = absolute.map(nanoseconds);
        }
        if let Some(delta) = number(field::THREAD_TIME_DELTA_US) {
            let base = self.base.as_mut().ok_or(MissingBase::ThreadTime)?;
            base.thread_time = base.thread_time.saturating_add(nanoseconds(delta));
            times.thread_time = Some(base.thread_time);
        } else {
            times.thread_time = number(field::THREAD_TIME_ABSOLUTE_US).map(nanoseconds);
        }
        if let Some(delta) = number(field::THREAD_INSTRUCTION_COUNT_DELTA) {
            let base = self.base.as_mut().ok_or(MissingBase::Instructions)?;
            base.instructions = base.instructions.saturating_add(delta);
            times.instructions = Some(base.instructions);
        } else {
            times.instructions = number(field::THREAD_INSTRUCTION_COUNT_ABSOLUTE);
        }
        Ok(times)
    }
}

fn nanoseconds(microseconds: i64) -> i64 {
    microseconds.saturating_mul(1000)
}
