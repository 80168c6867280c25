//! What the times of packets mean.

use std::collections::HashMap;

use ferretto_format::clock;
use ferretto_proto::fields::clock_snapshot::{self, clock as field};
use ferretto_wire::Fields;

/// The clocks of one sequence.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    /// The clock of packets that name none.
    default: Option<u64>,
    known: HashMap<u64, Clock>,
}

/// A clock that only this sequence knows.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// Nanoseconds on the reference clock when this one showed `shown`.
    reference: u64,
    shown: u64,
    /// Nanoseconds per unit.
    unit: u64,
    is_incremental: bool,
    /// The last value.
    last: u64,
}

impl Clocks {
    pub(super) fn set_default(&mut self, clock: u64) {
        self.default = Some(clock);
    }

    /// Takes what clocks showed at one moment.
    pub(super) fn snapshot(&mut self, snapshot: Fields<'_>) {
        let mut shown = Vec::new();
        for field in snapshot.map_while(Result::ok) {
            if let (clock_snapshot::CLOCKS, Some(clock)) = (field.number, field.as_message()) {
                shown.push(read(clock));
            }
        }
        let is_own = |id: &u64| u32::try_from(*id).is_ok_and(|id| clock::SEQUENCE.contains(&id));
        let Some(&(_, reference)) = shown.iter().find(|(id, _)| !is_own(id)) else {
            return;
        };
        for (id, mut clock) in shown.into_iter().filter(|(id, _)| is_own(id)) {
            clock.reference = reference.shown;
            self.known.insert(id, clock);
        }
    }

    /// A packet's time in nanoseconds of the reference clock.
    pub(super) fn resolve(&mut self, clock: Option<u64>, time: u64) -> u64 {
        let Some(clock) = clock.or(self.default) else {
            return time;
        };
        let Some(clock) = self.known.get_mut(&clock) else {
            return time;
        };
        clock.last = if clock.is_incremental {
            clock.last.wrapping_add(time)
        } else {
            time
        };
        let units = clock.last.wrapping_sub(clock.shown);
        clock.reference.wrapping_add(units.wrapping_mul(clock.unit))
    }
}

fn read(clock: Fields<'_>) -> (u64, Clock) {
    let mut id = 0;
    let mut read = Clock {
        reference: 0,
        shown: 0,
        unit: 1,
        is_incremental: false,
        last: 0,
    };
    for item in clock.map_while(Result::ok) {
        let value = item.as_u64().unwrap_or(0);
        match item.number {
            field::CLOCK_ID => id = value,
            field::TIMESTAMP => read.shown = value,
            field::IS_INCREMENTAL => read.is_incremental = value != 0,
            field::UNIT_MULTIPLIER_NS => read.unit = value.max(1),
            _ => {}
        }
    }
    read.last = read.shown;
    (id, read)
}
