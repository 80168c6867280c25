//! The clock of another machine, compared with that of the host again and again.
//!
//! A machine reads its clock and asks, the host reads its own and answers, the machine reads its
//! clock again. The host's reading lies between the other two, so the difference of the clocks is
//! known within the time that passed between these, however it was spent. Of many comparisons those
//! that took least tell most.

/// Readings of the same clock of both machines, as a machine sent its and the host took its own on
/// receipt, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// The machine's.
    pub client: u64,
    /// The host's, taken later.
    pub host: u64,
}

/// The field of `RemoteClockSync` in which this project's service states the offset of `BOOTTIME`
/// that the exchanges beside it imply; upstream's readers skip it. Its fields are [`STATED_OFFSET`]
/// and [`STATED_ERROR`].
pub const STATED: u32 = 15_502;
/// The machine's clock is ahead of the host's by so many nanoseconds, as `int64`.
pub const STATED_OFFSET: u32 = 1;
/// The offset is wrong by so many nanoseconds at most.
pub const STATED_ERROR: u32 = 2;

/// The longest time between two exchanges that belong to one comparison, as upstream's reader has
/// it, in nanoseconds.
pub const ONE_COMPARISON: u64 = 30_000_000_000;
/// The number of comparisons that are kept; of more, the better half.
const MOST: usize = 4096;
/// Comparisons with more than this multiple of the usual error are left out.
const POOR: u64 = 4;
/// The share of a time outside all comparisons by which the clocks may have parted: 100 ppm.
const PARTING: u64 = 10_000;

/// A comparison of two clocks by two exchanges, the second of which was made after the first was
/// answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comparison {
    /// The host's clock.
    pub host: u64,
    /// The machine's clock is ahead of the host's by at least this much, in nanoseconds.
    pub lowest: i64,
    /// The machine's clock is ahead of the host's by this much at most.
    pub highest: i64,
}

/// By how much a machine's clock is ahead of the host's, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offset {
    /// The best estimate.
    pub offset: i64,
    /// By how much it may be wrong, if the clocks part evenly between comparisons.
    pub error: u64,
}

/// Returns the difference, unless it is more than any two clocks can be apart.
fn difference(client: u64, host: u64) -> Option<i64> {
    i64::try_from(i128::from(client) - i128::from(host)).ok()
}

impl Comparison {
    /// Compares; `None` if the exchanges are too far apart, or no clocks say such a thing.
    pub fn new(first: Exchange, second: Exchange) -> Option<Self> {
        let took = second.client.checked_sub(first.client)?;
        if took >= ONE_COMPARISON || second.host < first.host {
            return None;
        }
        // The sent reading is older than the one taken on receipt.
        let sent = difference(first.client, first.host)?;
        let lowest = sent.max(difference(second.client, second.host)?);
        let highest = difference(second.client, first.host)?;
        (lowest <= highest).then_some(Self {
            host: first.host,
            lowest,
            highest,
        })
    }

    /// Returns the middle of the possible offsets, and the distance of their ends.
    pub fn offset(&self) -> Offset {
        let width = self.highest.abs_diff(self.lowest);
        Offset {
            offset: self.lowest + (width / 2) as i64,
            error: width.div_ceil(2),
        }
    }
}

/// The clock of another machine over a whole recording.
#[derive(Debug, Clone, Default)]
pub struct MachineClock {
    /// In the order of the host's time.
    comparisons: Vec<Comparison>,
}

impl MachineClock {
    /// Adds exchanges that follow each other.
    pub fn add(&mut self, exchanges: &[Exchange]) {
        for pair in exchanges.windows(2) {
            if let Some(comparison) = Comparison::new(pair[0], pair[1]) {
                self.add_comparison(comparison);
            }
        }
    }

    /// Adds a comparison.
    pub fn add_comparison(&mut self, comparison: Comparison) {
        let place = self
            .comparisons
            .partition_point(|c| c.host <= comparison.host);
        if place > 0 && self.comparisons[place - 1] == comparison {
            return;
        }
        self.comparisons.insert(place, comparison);
        if self.comparisons.len() > MOST {
            // Of each two neighbours the better.
            let halves = self.comparisons.chunks(2);
            let better = halves.filter_map(|two| two.iter().min_by_key(|c| c.offset().error));
            self.comparisons = better.copied().collect();
        }
    }

    /// Returns true if nothing is known.
    pub fn is_empty(&self) -> bool {
        self.comparisons.is_empty()
    }

    /// Returns the offset of the best comparison.
    pub fn best(&self) -> Option<Offset> {
        let offsets = self.comparisons.iter().map(Comparison::offset);
        offsets.min_by_key(|offset| offset.error)
    }

    /// Returns how many comparisons there are.
    pub fn len(&self) -> usize {
        self.comparisons.len()
    }

    /// Makes a curve of the good comparisons, to ask it many times.
    pub fn curve(&self) -> OffsetCurve {
        let mut errors: Vec<u64> = self.comparisons.iter().map(|c| c.offset().error).collect();
        errors.sort_unstable();
        // The usual error of a quarter of them can be had.
        let usual = errors.get(errors.len() / 4).copied().unwrap_or(0);
        let good = |c: &&Comparison| c.offset().error <= usual.saturating_mul(POOR).max(1);
        let points = self.comparisons.iter().filter(good);
        OffsetCurve {
            points: points.map(|c| (c.host, c.offset())).collect(),
        }
    }
}

/// The offset of a machine's clock at each time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OffsetCurve {
    /// The host's clock, and the offset then.
    points: Vec<(u64, Offset)>,
}

impl OffsetCurve {
    /// Returns the offset at a time of the host's clock.
    pub fn at(&self, host: u64) -> Option<Offset> {
        let next = self.points.partition_point(|(at, _)| *at <= host);
        let before = next.checked_sub(1).map(|index| self.points[index]);
        match (before, self.points.get(next).copied()) {
            (Some((from, one)), Some((to, other))) => {
                let share = (host - from) as f64 / (to - from).max(1) as f64;
                let step = (i128::from(other.offset) - i128::from(one.offset)) as f64 * share;
                Some(Offset {
                    offset: one.offset.saturating_add(step.round() as i64),
                    error: one.error.max(other.error),
                })
            }
            (Some((at, offset)), None) | (None, Some((at, offset))) => Some(Offset {
                error: offset.error.saturating_add(host.abs_diff(at) / PARTING),
                ..offset
            }),
            (None, None) => None,
        }
    }

    /// Returns the time of the host's clock at a time of the machine's.
    pub fn to_host(&self, client: u64) -> Option<(u64, u64)> {
        let to_host = |offset: i64| {
            let host = i128::from(client) - i128::from(offset);
            host.clamp(0, u64::MAX.into()) as u64
        };
        let (_, first) = self.points.first()?;
        // The offset changes so slowly that its value of a moment ago is good enough here.
        let mut host = to_host(first.offset);
        let mut error = 0;
        for _ in 0..3 {
            let offset = self.at(host)?;
            host = to_host(offset.offset);
            error = offset.error;
        }
        Some((host, error))
    }

    /// Returns the offset in the middle of all comparisons with the largest error of any.
    pub fn overall(&self) -> Option<Offset> {
        let (first, last) = (self.points.first()?, self.points.last()?);
        let middle = self.at(first.0 + (last.0 - first.0) / 2)?;
        let error = self.points.iter().map(|(_, offset)| offset.error).max();
        Some(Offset {
            error: error.unwrap_or(middle.error),
            ..middle
        })
    }

    /// Returns by how much the machine's clock gains on the host's, in nanoseconds a second; `None`
    /// if there is too little to tell.
    pub fn drift(&self) -> Option<f64> {
        let (first, last) = (self.points.first()?, self.points.last()?);
        let time = (last.0 - first.0) as f64;
        let known = self.points.iter().map(|(_, offset)| offset.error).max()?;
        let gained = (i128::from(last.1.offset) - i128::from(first.1.offset)) as f64;
        // The difference must exceed the one that errors alone could cause.
        let is_certain = time >= 1e9 && known as f64 * 2e9 / time < 100_000.0;
        is_certain.then_some(gained * 1e9 / time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round trip that begins at a time of the host, with the time to the host and back.
    fn round(host: u64, offset: i64, there: u64, back: u64) -> [Exchange; 2] {
        let client = |host: u64| host.checked_add_signed(offset).unwrap();
        let first = Exchange {
            client: client(host),
            host: host + there,
        };
        let second = Exchange {
            client: client(first.host + back),
            host: first.host + back + there,
        };
        [first, second]
    }

    fn clock(rounds: &[[Exchange; 2]]) -> MachineClock {
        let mut clock = MachineClock::default();
        for round in rounds {
            clock.add(round);
        }
        clock
    }

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn relay_015_a_constant_offset_over_an_even_link_is_exact() {
        for offset in [0, 3_600_000_000_000, -900_000_000_000] {
            let rounds = [round(1000 * SECOND, offset, 250_000, 250_000)];
            let curve = clock(&rounds).curve();
            let found = curve.overall().unwrap();
            assert_eq!((found.offset, found.error), (offset, 250_000));
            let client = (2000 * SECOND).checked_add_signed(offset).unwrap();
            assert_eq!(curve.to_host(client).unwrap().0, 2000 * SECOND);
            // As upstream's reader computes it.
            let [one, two] = rounds[0].map(|e| (e.client as i64, e.host as i64));
            let averages = [(one.0 + two.0) / 2 - one.1, two.0 - (one.1 + two.1) / 2];
            assert_eq!((averages[0] + averages[1]) / 2, offset);
        }
    }

    #[test]
    fn an_uneven_link_stays_within_the_error_that_is_told() {
        let mut seed = 7u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for _ in 0..1000 {
            let offset = random(1 << 40) as i64 - (1 << 39);
            let (there, back) = (random(50_000_000), random(50_000_000));
            let rounds = [round(10_000 * SECOND, offset, there, back)];
            let found = clock(&rounds).curve().overall().unwrap();
            assert!(found.offset.abs_diff(offset) <= found.error, "{found:?}");
        }
    }

    #[test]
    fn slow_round_trips_do_not_spoil_good_ones_and_drift_is_followed() {
        // 40 microseconds a second, measured every five, mostly badly.
        let offset = |host: u64| 5_000_000 + (host / 1000 * 40 / 1000) as i64;
        let mut all = MachineClock::default();
        for step in 0..120u64 {
            let host = 100 * SECOND + step * 5 * SECOND;
            let (there, back) = match step % 3 {
                0 => (100_000, 120_000),
                1 => (30_000_000, 100_000),
                _ => (100_000, 80_000_000),
            };
            all.add(&round(host, offset(host), there, back));
        }
        let curve = all.curve();
        for step in 0..580 {
            let host = 101 * SECOND + step * SECOND;
            let found = curve.at(host).unwrap();
            let wrong = found.offset.abs_diff(offset(host));
            assert!(
                wrong <= found.error && found.error < 250_000,
                "{found:?} {wrong}"
            );
        }
        let drift = curve.drift().unwrap();
        assert!((drift - 40_000.0).abs() < 1000.0, "{drift}");
    }

    #[test]
    fn nonsense_is_no_comparison() {
        let exchange = |client, host| Exchange { client, host };
        for (one, two) in [
            // Clocks that went back, stood still for too long, or cannot be.
            (exchange(5, 5), exchange(4, 6)),
            (exchange(5, 5), exchange(6, 4)),
            (exchange(0, 0), exchange(ONE_COMPARISON, 5)),
            (exchange(u64::MAX, 0), exchange(0, u64::MAX)),
        ] {
            assert_eq!(Comparison::new(one, two), None, "{one:?} {two:?}");
        }
        // Differences that no number of the trace can state are not stated as others.
        let half = 1 << 63;
        for (client, host) in [(u64::MAX - 1, 0), (half, 0), (0, half + 1), (0, u64::MAX)] {
            let next = exchange(client + 1, host);
            assert_eq!(Comparison::new(exchange(client, host), next), None);
        }
        for (client, host) in [(half - 2, 0), (0, half), (u64::MAX - 1, half)] {
            let (one, two) = (exchange(client, host), exchange(client + 1, host));
            let found = Comparison::new(one, two).unwrap().offset();
            // The machine's clock moved on before the host read its own.
            let truth = (i128::from(client) + 1 - i128::from(host)) as i64;
            assert!(found.offset.abs_diff(truth) <= found.error, "{found:?}");
            let mut clock = MachineClock::default();
            clock.add(&[one, two]);
            assert!(clock.curve().to_host(5).is_some());
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut clock = MachineClock::default();
        for step in 0..3 * MOST as u64 {
            clock.add(&round(step * SECOND, 10, 100 + step % 2, 100));
        }
        assert!(clock.len() <= MOST && clock.len() > MOST / 4);
        assert!(clock.curve().at(SECOND).is_some());
    }
}
