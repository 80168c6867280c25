//! From ticks of a counter to nanoseconds, along a straight line that is laid anew from time to time.

/// Binary digits of the fraction of a speed.
const FRACTION: u32 = 48;

/// How long both clocks are watched before the speed of the counter is taken for known, in nanoseconds.
const SHORTEST: u64 = 10_000_000;
/// How long a line is used at most, while there are events, in nanoseconds.
const LONGEST: u64 = 500_000_000;

/// What the counter and the clock showed at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) ticks: u64,
    /// By the clock, in nanoseconds.
    pub(super) real: u64,
    /// How many ticks apart the moments can be.
    pub(super) doubt: u64,
}

/// The time as the counter tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// What the counter showed where the line begins.
    pub(super) ticks: u64,
    /// The time told there, in nanoseconds.
    pub(super) shown: u64,
    /// What the clock showed there.
    pub(super) real: u64,
    /// Nanoseconds per tick as last measured, in units of 2^-48. Zero while that is unknown.
    pub(super) rate: u64,
    /// Nanoseconds per tick that are told, which differs so that the line meets the clock at its end.
    pub(super) slope: u64,
    /// How many ticks the line is good for.
    pub(super) limit: u64,
}

impl Line {
    /// A line that tells nothing yet but where to begin.
    pub(super) fn origin(pair: Pair) -> Self {
        Self {
            ticks: pair.ticks,
            shown: pair.real,
            real: pair.real,
            ..Self::default()
        }
    }

    /// The time so many ticks after the beginning.
    #[inline]
    pub(super) fn at(&self, ticks: u64) -> u64 {
        self.shown.wrapping_add(scale(ticks, self.slope))
    }

    /// Whether there can be a next line at this time of the clock.
    pub(super) fn is_ripe(&self, real: u64) -> bool {
        self.rate != 0 || real.saturating_sub(self.real) >= SHORTEST
    }

    /// The line from here on, which goes on where this one ends. If the two clocks do not go together as they did, as
    /// after the machine has slept, everything begins anew.
    pub(super) fn next(&self, pair: Pair) -> Self {
        let passed = pair.ticks.wrapping_sub(self.ticks);
        let elapsed = pair.real.saturating_sub(self.real);
        let end = self.end();
        let is_old = self.rate != 0 && passed > end;
        if passed > i64::MAX as u64 || (self.rate == 0 && elapsed > LONGEST) {
            return Self::origin(pair);
        }
        if is_old {
            // Who knows what happened since; but nobody was told times beyond that end.
            let length = scale(self.limit, self.rate);
            return Self::new(pair, pair.real.max(self.at(end)), self.rate, length);
        }
        match rate(passed, elapsed) {
            Some(rate) if self.rate == 0 => {
                // Not before any time that the clock itself was asked for.
                let shown = pair.real + scale(pair.doubt, rate);
                Self::new(pair, shown, rate, elapsed)
            }
            Some(rate) if rate.abs_diff(self.rate) <= self.rate / 100 => {
                Self::new(pair, self.at(passed), rate, elapsed)
            }
            _ => Self::origin(pair),
        }
    }

    /// Where the line is not to be used any more, even if there is no other.
    pub(super) fn end(&self) -> u64 {
        self.limit.saturating_mul(2)
    }

    /// A line of about this length, in nanoseconds.
    fn new(pair: Pair, shown: u64, rate: u64, length: u64) -> Self {
        let length = length.clamp(SHORTEST, LONGEST);
        let limit = (u128::from(length) << FRACTION) / u128::from(rate);
        // At least half as fast, so that time goes on.
        let missing = (i128::from(pair.real) - i128::from(shown))
            .clamp(-i128::from(length / 2), i128::from(length / 2));
        let slope = i128::from(rate) + i128::from(rate) * missing / i128::from(length);
        Self {
            ticks: pair.ticks,
            shown,
            real: pair.real,
            rate,
            slope: slope as u64,
            limit: u64::try_from(limit).unwrap_or(u64::MAX),
        }
    }
}

/// Nanoseconds that so many ticks take, rounded down.
#[inline]
fn scale(ticks: u64, slope: u64) -> u64 {
    ((u128::from(ticks) * u128::from(slope)) >> FRACTION) as u64
}

/// Nanoseconds per tick.
fn rate(ticks: u64, nanoseconds: u64) -> Option<u64> {
    let rate = (u128::from(nanoseconds) << FRACTION).checked_div(u128::from(ticks))?;
    u64::try_from(rate).ok().filter(|rate| *rate != 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is shown so many ticks after a line was begun from what was measured.
    fn pair(ticks: u64, real: u64) -> Pair {
        Pair {
            ticks,
            real,
            doubt: 60,
        }
    }

    /// The time of a counter of this frequency, by a division.
    fn exact(ticks: u64, hertz: u64) -> u64 {
        (u128::from(ticks) * 1_000_000_000 / u128::from(hertz)) as u64
    }

    proptest! {
        #[test]
        fn ticks_are_converted_to_the_nanosecond(
            hertz in 1_000_000u64..20_000_000_000,
            start in 0u64..1 << 60,
            parts in 0u64..=1 << 32,
        ) {
            let rate = rate(hertz, 1_000_000_000).unwrap();
            let start = pair(start, start);
            let line = Line::new(start, start.real, rate, LONGEST);
            let ticks = ((u128::from(line.end()) * u128::from(parts)) >> 32) as u64;
            let expected = start.real + exact(ticks, hertz);
            prop_assert!(line.at(ticks).abs_diff(expected) <= 1);
            prop_assert!(line.at(ticks) <= line.at(ticks + 1));
        }

        #[test]
        fn lines_stay_close_to_a_clock_that_is_read_inaccurately(
            hertz in 24_000_000u64..6_000_000_000,
            correction in -400i64..400,
            steps in prop::collection::vec((1u64..700, -40i64..40), 20..60),
        ) {
            // The clock is corrected, in parts of a million, and read some nanoseconds too early or too late.
            let clock = |ticks| {
                let time = i128::from(exact(ticks, hertz));
                1_000_000_000 + (time + time * i128::from(correction) / 1_000_000) as u64
            };
            let read = |ticks, wrong: i64| Pair {
                ticks,
                real: clock(ticks).saturating_add_signed(wrong),
                doubt: hertz / 20_000_000,
            };
            let mut ticks = 5 * hertz;
            let mut line = Line::origin(read(ticks, 0));
            let mut last = 0;
            for (wait, wrong) in steps {
                // A little after the end of the line, or long after it.
                let wait = if wait > 600 { wait * 10 } else { wait.min(20) };
                ticks += line.limit.max(hertz / 100) + hertz * wait / 1000;
                let now = read(ticks, wrong);
                if line.rate != 0 && ticks - line.ticks <= line.end() {
                    let told = line.at(ticks - line.ticks);
                    prop_assert!(told.abs_diff(now.real) <= 2000, "{told} {now:?} {line:?}");
                }
                line = line.next(now);
                prop_assert!(line.shown >= last);
                last = line.at(line.limit);
                let end = clock(line.ticks + line.limit);
                prop_assert!(last.abs_diff(end) <= 1000, "{last} {end} {line:?}");
            }
        }
    }

    #[test]
    fn a_line_goes_on_where_the_one_before_ended_and_meets_the_clock() {
        let origin = Line::origin(pair(1_000, 500));
        assert!(!origin.is_ripe(500 + SHORTEST - 1) && origin.is_ripe(500 + SHORTEST));
        // Two ticks a nanosecond.
        let first = origin.next(pair(20_001_000, 10_000_500));
        assert_eq!((first.shown, first.limit), (10_000_530, 20_000_000));
        assert!(first.at(first.limit).abs_diff(20_000_500) <= 1);
        // The clock went on by a thousandth more.
        let second = first.next(pair(40_001_000, 20_010_500));
        assert_eq!(second.shown, first.at(20_000_000));
        let clock = second.real + 10_010_000;
        assert!(second.at(second.limit).abs_diff(clock) <= 1);
    }

    #[test]
    fn all_begins_anew_where_the_clocks_part() {
        let first = Line::origin(pair(1_000, 500)).next(pair(20_001_000, 10_000_500));
        // The clock went on without the counter; the counter was set back; the counter goes twice as fast.
        for now in [
            pair(40_001_000, 21_000_500),
            pair(5, 30_000_000),
            pair(60_001_000, 20_000_500),
        ] {
            assert_eq!(first.next(now), Line::origin(now));
        }
        // Nobody looked for a long time: the speed is as it was.
        let later = first.next(pair(400_001_000, 200_000_500));
        assert_eq!((later.shown, later.rate), (200_000_500, first.rate));
        // Nor has it been found from too long ago.
        let now = pair(2_000_001_000, 1_000_000_500);
        assert_eq!(Line::origin(pair(1_000, 500)).next(now), Line::origin(now));
    }
}
