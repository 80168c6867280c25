//! Conversion of counter ticks to nanoseconds along a straight line, which is replaced from time to
//! time.

/// The number of fraction bits of a rate.
const FRACTION: u32 = 48;

/// The minimum time of calibration before the rate is used, in nanoseconds.
const LEARNING: u64 = 10_000_000;
/// The maximum time of calibration.
const STALE: u64 = 500_000_000;
/// The lifetime of a line, in nanoseconds. Meanwhile, the kernel may change the rate of the clock
/// by up to a thousandth (`adjtimex` allows 500 millionths in either direction). No machine
/// suspends and resumes within twice this time: it stops the programs first and continues them
/// last.
const LENGTH: u64 = 250_000;
/// The largest uncertainty of a pair, in nanoseconds, that a line may be based on.
const DOUBT: u64 = 300;
/// The uncertainty of an undisturbed pair.
const USUAL_DOUBT: u64 = 60;

/// Simultaneous readings of the counter and the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) ticks: u64,
    /// The time of the clock, in nanoseconds.
    pub(super) real: u64,
    /// The uncertainty of the readings, in ticks.
    pub(super) doubt: u64,
}

/// A line from ticks to nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// The counter at the start of the line.
    pub(super) ticks: u64,
    /// The time shown at the start of the line, in nanoseconds.
    pub(super) shown: u64,
    /// The time of the clock at the start of the line.
    pub(super) real: u64,
    /// The last measured nanoseconds per tick, in units of 2^-48. Zero if unknown.
    pub(super) rate: u64,
    /// The nanoseconds per tick of this line. It differs from `rate` so that the line meets the
    /// clock at its end.
    pub(super) slope: u64,
    /// The number of ticks for which the line is valid.
    pub(super) limit: u64,
}

impl Line {
    /// Creates the initial line, which only records where calibration starts.
    pub(super) fn origin(pair: Pair) -> Self {
        Self {
            ticks: pair.ticks,
            shown: pair.real,
            real: pair.real,
            ..Self::default()
        }
    }

    /// Returns the time `ticks` after the start of the line.
    #[inline]
    pub(super) fn at(&self, ticks: u64) -> u64 {
        self.shown.wrapping_add(scale(ticks, self.slope))
    }

    /// Returns true if a new line can replace this one at this time of the clock.
    pub(super) fn is_ripe(&self, real: u64) -> bool {
        self.rate != 0 || real.saturating_sub(self.real) >= LEARNING
    }

    /// Returns true if the pair is precise enough for a new line.
    pub(super) fn trusts(&self, pair: Pair) -> bool {
        scale(pair.doubt, self.rate) <= DOUBT
    }

    /// Returns true if further readings will hardly be more precise.
    pub(super) fn is_content(&self, pair: Pair) -> bool {
        self.rate != 0 && scale(pair.doubt, self.rate) <= USUAL_DOUBT
    }

    /// Returns the next line, which starts where this one ends. If the clocks disagree, as after a
    /// suspend, calibration starts again.
    pub(super) fn next(&self, pair: Pair) -> Self {
        let passed = pair.ticks.wrapping_sub(self.ticks);
        let elapsed = pair.real.saturating_sub(self.real);
        let end = self.end();
        if passed > i64::MAX as u64 || (self.rate == 0 && elapsed > STALE) {
            return Self::origin(pair);
        }
        if self.rate != 0 && passed > end {
            // The line is too old to continue. No event is later than its end.
            return Self::new(pair, pair.real.max(self.at(end)), self.rate);
        }
        match rate(passed, elapsed) {
            Some(rate) if self.rate == 0 => {
                // Not before any time that was read directly from the clock.
                let shown = pair.real + scale(pair.doubt, rate);
                Self::new(pair, shown, rate)
            }
            Some(rate) if rate.abs_diff(self.rate) <= self.rate / 100 => {
                Self::new(pair, self.at(passed), rate)
            }
            _ => Self::origin(pair),
        }
    }

    /// Returns the number of ticks after which the line must not be used any more, even without a
    /// successor.
    pub(super) fn end(&self) -> u64 {
        self.limit.saturating_mul(2)
    }

    fn new(pair: Pair, shown: u64, rate: u64) -> Self {
        let limit = (u128::from(LENGTH) << FRACTION) / u128::from(rate);
        // At least half the rate, so that time advances.
        let half = i128::from(LENGTH / 2);
        let missing = (i128::from(pair.real) - i128::from(shown)).clamp(-half, half);
        let slope = i128::from(rate) + i128::from(rate) * missing / i128::from(LENGTH);
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

/// Converts ticks to nanoseconds, rounded down.
#[inline]
fn scale(ticks: u64, slope: u64) -> u64 {
    ((u128::from(ticks) * u128::from(slope)) >> FRACTION) as u64
}

/// Returns the nanoseconds per tick.
fn rate(ticks: u64, nanoseconds: u64) -> Option<u64> {
    let rate = (u128::from(nanoseconds) << FRACTION).checked_div(u128::from(ticks))?;
    u64::try_from(rate).ok().filter(|rate| *rate != 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns a pair with an uncertainty of 60 ticks.
    fn pair(ticks: u64, real: u64) -> Pair {
        Pair {
            ticks,
            real,
            doubt: 60,
        }
    }

    /// Converts ticks of a counter of this frequency to nanoseconds by division.
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
            let line = Line::new(start, start.real, rate);
            let ticks = ((u128::from(line.end()) * u128::from(parts)) >> 32) as u64;
            let expected = start.real + exact(ticks, hertz);
            prop_assert!(line.at(ticks).abs_diff(expected) <= 1);
            prop_assert!(line.at(ticks) <= line.at(ticks + 1));
        }
    }

    /// A simulated machine: a counter, and a clock that is constantly corrected.
    struct Machine {
        ticks: u64,
        /// The clock in units of 2^-32 ns.
        clock: u128,
        /// The rate of the clock relative to the counter, in millionths.
        correction: i64,
        random: u64,
        /// The frequency of the counter.
        hertz: u64,
    }

    impl Machine {
        fn below(&mut self, end: u64) -> u64 {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            (self.random >> 11) % end
        }

        fn pass(&mut self, nanoseconds: u64) {
            let ticks = u128::from(nanoseconds) * u128::from(self.hertz) / 1_000_000_000;
            self.ticks += ticks as u64;
            let exact = ((ticks * 1_000_000_000) << 32) / u128::from(self.hertz);
            let correction = (exact / 1_000_000) as i128 * i128::from(self.correction);
            self.clock += (exact as i128 + correction) as u128;
        }

        /// Suspends the machine. Its counter runs only while programs are being stopped and
        /// continued, or restarts from zero.
        fn sleep(&mut self, nanoseconds: u64, begins_anew: bool) {
            self.pass(2_000_000 + nanoseconds % 1_000_000);
            self.clock += u128::from(nanoseconds) << 32;
            if begins_anew {
                self.ticks = 10_000_000;
            }
        }

        fn real(&self) -> u64 {
            (self.clock >> 32) as u64
        }

        /// Reads both clocks some nanoseconds apart.
        fn pair(&mut self) -> Pair {
            Pair {
                ticks: self.ticks,
                real: self.real() + 25 - self.below(51),
                doubt: self.hertz / 20_000_000 + 1,
            }
        }

        /// Returns the time as an event reads it.
        fn read(&mut self, line: &mut Line) -> u64 {
            let passed = self.ticks.wrapping_sub(line.ticks);
            if passed < line.limit {
                return line.at(passed);
            }
            let real = self.real();
            if !line.is_ripe(real) {
                return real;
            }
            let pair = self.pair();
            *line = line.next(pair);
            line.shown
        }
    }

    /// Simulates an hour in which the clock is corrected as fast as the kernel allows, in
    /// alternating directions, with suspends.
    #[test]
    fn an_hour_of_corrections_and_sleeps_stays_within_a_microsecond() {
        // Counters of x86-64 and of arm64.
        for hertz in [2_593_905_123, 1_000_000_000, 24_000_000] {
            assert_an_hour_stays_within_a_microsecond(hertz);
        }
    }

    fn assert_an_hour_stays_within_a_microsecond(hertz: u64) {
        let mut machine = Machine {
            hertz,
            ticks: 77 * hertz,
            clock: 1 << 72,
            correction: 0,
            random: 0x9e37_79b9_7f4a_7c15,
        };
        let mut line = Line::origin(machine.pair());
        let (mut last, mut worst, mut quick, mut events) = (0, 0, 0u64, 0u64);
        let begin = machine.real();
        let mut slept = 0;
        while machine.real() - begin - slept < 3_600_000_000_000 {
            // Many events in a row, then none for a while.
            for _ in 0..100 {
                let pause = machine.below(100_000);
                machine.pass(pause);
                if machine.below(100) == 0 {
                    machine.correction = machine.below(1001) as i64 - 500;
                }
                quick += u64::from(machine.ticks.wrapping_sub(line.ticks) < line.limit);
                events += 1;
                let time = machine.read(&mut line);
                worst = worst.max(time.abs_diff(machine.real()));
                assert!(time >= last, "time goes back from {last} to {time}");
                last = time;
            }
            let pause = machine.below(2_000_000_000);
            machine.pass(pause);
            if machine.below(300) == 0 {
                let length = machine.below(9_000_000_000_000);
                let begins_anew = length & 1 == 0;
                machine.sleep(length, begins_anew);
                slept += length;
            }
        }
        assert!(worst <= 1000, "{worst} ns");
        assert!(slept > 0 && quick * 2 > events, "{quick} of {events}");
    }

    #[test]
    fn a_line_starts_where_its_predecessor_ends_and_meets_the_clock() {
        let origin = Line::origin(pair(1_000, 500));
        assert!(!origin.is_ripe(500 + LEARNING - 1) && origin.is_ripe(500 + LEARNING));
        // Two ticks per nanosecond.
        let first = origin.next(pair(20_001_000, 10_000_500));
        assert_eq!((first.shown, first.limit), (10_000_530, 500_000));
        assert!(first.at(first.limit).abs_diff(10_250_500) <= 1);
        // The clock advanced by a thousandth more.
        let second = first.next(pair(20_501_000, 10_250_750));
        assert_eq!(second.shown, first.at(500_000));
        let clock = second.real + 250_000;
        assert!(second.at(second.limit).abs_diff(clock) <= 1);
    }

    #[test]
    fn calibration_restarts_when_the_clocks_disagree() {
        let first = Line::origin(pair(1_000, 500)).next(pair(20_001_000, 10_000_500));
        // The clock advanced without the counter; the counter was reset; the counter doubled its
        // frequency.
        for now in [
            pair(20_501_000, 11_000_500),
            pair(5, 30_000_000),
            pair(21_001_000, 10_250_500),
        ] {
            assert_eq!(first.next(now), Line::origin(now));
        }
        // After a long pause or a suspend, the rate is unchanged.
        let later = first.next(pair(400_001_000, 200_000_500));
        assert_eq!((later.shown, later.rate), (200_000_500, first.rate));
        // A rate measured over too long a time is not used.
        let now = pair(2_000_001_000, 1_000_000_500);
        assert_eq!(Line::origin(pair(1_000, 500)).next(now), Line::origin(now));
    }

    #[test]
    fn imprecise_readings_are_not_used() {
        let line = Line::origin(pair(1_000, 500)).next(pair(20_001_000, 10_000_500));
        let apart = |doubt| Pair {
            doubt,
            ..pair(20_501_000, 10_250_500)
        };
        assert!(line.trusts(apart(600)) && !line.trusts(apart(602)));
        assert!(line.is_content(apart(120)) && !line.is_content(apart(122)));
    }
}
