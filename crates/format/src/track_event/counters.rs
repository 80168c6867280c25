//! The values of counters in track events.

use ferretto_proto::fields::track_event as field;

use super::{EventDefaults, TrackEvent};

/// The maximum number of values of a list of extra counters that are read; viewers show fewer.
const MAX_VALUES: usize = 64;

/// A value of a counter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CounterValue {
    /// A whole number.
    Integer(i64),
    /// A floating-point number.
    Double(f64),
}

impl CounterValue {
    /// Returns the value as a floating-point number.
    #[inline]
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Double(value) => value,
        }
    }

    /// Returns the sum with a difference, for incremental counters.
    pub fn plus(self, difference: Self) -> Self {
        match (self, difference) {
            (Self::Integer(sum), Self::Integer(difference)) => {
                Self::Integer(sum.wrapping_add(difference))
            }
            _ => Self::Double(self.as_f64() + difference.as_f64()),
        }
    }

    /// Returns the value in the unit of its counter, which has this `unit_multiplier`. Those below
    /// 1 have no effect.
    pub fn scaled(self, multiplier: i64) -> Self {
        match self {
            _ if multiplier <= 1 => self,
            Self::Integer(value) => match value.checked_mul(multiplier) {
                Some(value) => Self::Integer(value),
                None => Self::Double(value as f64 * multiplier as f64),
            },
            Self::Double(value) => Self::Double(value * multiplier as f64),
        }
    }
}

/// The value of a counter beside an event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExtraCounter {
    /// The uuid of its track.
    pub track: Result<u64, NoTrack>,
    /// The value. That of an incremental counter is a difference.
    pub value: CounterValue,
}

/// The reason why the track of an extra counter is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoTrack {
    /// Neither the event nor its sequence has a list of tracks.
    NoList,
    /// The list has fewer tracks than values, or 0 as the track.
    NotInList,
}

impl TrackEvent<'_> {
    /// Returns the values of extra counters: the integers, then the others. Tracks are those of the
    /// event, or else those of its sequence.
    pub fn extra_counters(&self, defaults: &EventDefaults) -> Vec<ExtraCounter> {
        let mut all = Vec::new();
        if !self.has_extra_counters {
            return all;
        }
        let integers = self.numbers(field::EXTRA_COUNTER_VALUES);
        let integers = integers.map(|value| CounterValue::Integer(value.cast_signed()));
        let tracks = field::EXTRA_COUNTER_TRACK_UUIDS;
        self.assign(integers, tracks, &defaults.extra_tracks, &mut all);
        let doubles = self.numbers(field::EXTRA_DOUBLE_COUNTER_VALUES);
        let doubles = doubles.map(|bits| CounterValue::Double(f64::from_bits(bits)));
        let tracks = field::EXTRA_DOUBLE_COUNTER_TRACK_UUIDS;
        self.assign(doubles, tracks, &defaults.extra_double_tracks, &mut all);
        all
    }

    /// Assigns values to the tracks of a list.
    fn assign(
        &self,
        values: impl Iterator<Item = CounterValue>,
        tracks: u32,
        default_tracks: &[u64],
        all: &mut Vec<ExtraCounter>,
    ) {
        let mut own = self.numbers(tracks).peekable();
        let has_own = own.peek().is_some();
        let defaults = default_tracks.iter().copied();
        let reason = if has_own || !default_tracks.is_empty() {
            NoTrack::NotInList
        } else {
            NoTrack::NoList
        };
        let mut tracks = own.chain(defaults.filter(|_| !has_own));
        let values = values.take(MAX_VALUES);
        all.extend(values.map(|value| ExtraCounter {
            track: tracks.next().filter(|track| *track != 0).ok_or(reason),
            value,
        }));
    }
}
