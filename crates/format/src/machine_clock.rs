//! The clock of another machine, compared repeatedly with that of the host.
//!
//! A machine reads its clock and sends a request; the host reads its own clock and replies; the
//! machine reads its clock again. The host's reading is between the other two, so the offset of the
//! clocks is known within the duration of the round trip, whatever its asymmetry. Of many
//! comparisons, the shortest are the most precise.

use std::collections::BTreeMap;

use ferretto_proto::fields::remote_clock_sync::{SYNCED_CLOCKS, synced_clocks};
use ferretto_wire::Fields;

use crate::clock::BOOTTIME;
use crate::clock_graph::ClockSnapshot;

/// The largest number of machines, which bounds memory on any input.
const MAX_MACHINES: usize = 256;

/// Readings of the same clock on both machines, in nanoseconds: the machine's when it sends, and
/// the host's when it receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// The machine's reading.
    pub client: u64,
    /// The host's reading, taken later.
    pub host: u64,
}

/// The field of `RemoteClockSync` in which this project's service states the offset of `BOOTTIME`
/// that the exchanges imply; upstream's readers skip it. Its fields are [`STATED_OFFSET`] and
/// [`STATED_ERROR`].
pub const STATED: u32 = 15_502;
/// The nanoseconds by which the machine's clock is ahead of the host's, as `int64`.
pub const STATED_OFFSET: u32 = 1;
/// The maximum error of the offset in nanoseconds.
pub const STATED_ERROR: u32 = 2;

/// The longest time between two exchanges of one comparison, as in upstream's reader, in
/// nanoseconds.
pub const ONE_COMPARISON: u64 = 30_000_000_000;
/// The largest number of comparisons; beyond it, the better half is kept.
const MOST: usize = 4096;
/// The multiple of the usual error beyond which comparisons are ignored.
const POOR: u64 = 4;
/// The drift assumed outside of all comparisons, as a fraction of the time: 100 ppm.
const PARTING: u64 = 10_000;

/// A comparison of two clocks by two exchanges; the second is sent after the reply to the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comparison {
    /// The host's time.
    pub host: u64,
    /// The lower bound, in nanoseconds, of how far the machine's clock is ahead of the host's.
    pub lowest: i64,
    /// The upper bound, in nanoseconds, of how far the machine's clock is ahead of the host's.
    pub highest: i64,
}

/// The nanoseconds by which a machine's clock is ahead of the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offset {
    /// The best estimate.
    pub offset: i64,
    /// The maximum error, assuming constant drift between comparisons.
    pub error: u64,
}

/// Returns the difference, unless it exceeds any plausible offset.
fn difference(client: u64, host: u64) -> Option<i64> {
    i64::try_from(i128::from(client) - i128::from(host)).ok()
}

impl Comparison {
    /// Creates a comparison; `None` if the exchanges are too far apart or contradictory.
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

    /// Returns the middle of the possible offsets, and half of their range.
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
    /// The comparisons ordered by the host's time.
    comparisons: Vec<Comparison>,
}

impl MachineClock {
    /// Adds consecutive exchanges.
    pub fn add(&mut self, exchanges: &[Exchange]) {
        for pair in exchanges.windows(2) {
            if let Some(comparison) = Comparison::new(pair[0], pair[1]) {
                self.add_comparison(comparison);
            }
        }
    }

    /// Adds a comparison.
    pub fn add_comparison(&mut self, comparison: Comparison) {
        let position = self
            .comparisons
            .partition_point(|c| c.host <= comparison.host);
        if position > 0 && self.comparisons[position - 1] == comparison {
            return;
        }
        self.comparisons.insert(position, comparison);
        if self.comparisons.len() > MOST {
            // The better one of each two neighbours.
            let halves = self.comparisons.chunks(2);
            let better = halves.filter_map(|two| two.iter().min_by_key(|c| c.offset().error));
            self.comparisons = better.copied().collect();
        }
    }

    /// Returns true if there are no comparisons.
    pub fn is_empty(&self) -> bool {
        self.comparisons.is_empty()
    }

    /// Returns the offset of the best comparison.
    pub fn best(&self) -> Option<Offset> {
        let offsets = self.comparisons.iter().map(Comparison::offset);
        offsets.min_by_key(|offset| offset.error)
    }

    /// Returns the number of comparisons.
    pub fn len(&self) -> usize {
        self.comparisons.len()
    }

    /// Creates a curve of the good comparisons, for many lookups.
    pub fn curve(&self) -> OffsetCurve {
        let mut errors: Vec<u64> = self.comparisons.iter().map(|c| c.offset().error).collect();
        errors.sort_unstable();
        // A quarter of the comparisons achieve the usual error.
        let usual = errors.get(errors.len() / 4).copied().unwrap_or(0);
        let good = |c: &&Comparison| c.offset().error <= usual.saturating_mul(POOR).max(1);
        let points = self.comparisons.iter().filter(good);
        OffsetCurve {
            points: points.map(|c| (c.host, c.offset())).collect(),
        }
    }
}

/// The clocks of all machines of a trace, by id. Machine 0 is the host.
#[derive(Debug, Clone, Default)]
pub struct MachineClocks(BTreeMap<u32, MachineClock>);

impl MachineClocks {
    /// Reads a `RemoteClockSync` of a machine.
    pub fn compare(&mut self, machine: u32, sync: &[u8]) {
        if self.0.len() < MAX_MACHINES || self.0.contains_key(&machine) {
            self.0.entry(machine).or_default().add(&exchanges(sync));
        }
    }

    /// Converts a time of the host to the clock of a machine.
    pub fn from_host(&self, machine: u32, host: u64) -> u64 {
        host.saturating_add_signed(self.ahead(machine))
    }

    /// Converts a time of a machine to the clock of the host.
    pub fn to_host(&self, machine: u32, time: u64) -> u64 {
        time.saturating_add_signed(self.ahead(machine).saturating_neg())
    }

    fn ahead(&self, machine: u32) -> i64 {
        let clock = self.0.get(&machine).and_then(MachineClock::best);
        clock.map_or(0, |offset| offset.offset)
    }
}

/// Returns the exchanges of a `RemoteClockSync`.
pub fn exchanges(sync: &[u8]) -> Vec<Exchange> {
    let boot = |number, both| boot_time(Fields::find(number, both)?.as_bytes()?);
    let all = Fields::new(sync).map_while(Result::ok);
    let exchanges = all.filter(|field| field.number == SYNCED_CLOCKS);
    let exchanges = exchanges.filter_map(|field| {
        let both = field.as_bytes()?;
        Some(Exchange {
            client: boot(synced_clocks::CLIENT_CLOCKS, both)?,
            host: boot(synced_clocks::HOST_CLOCKS, both)?,
        })
    });
    exchanges.collect()
}

/// Returns the boot time in a `ClockSnapshot`.
fn boot_time(snapshot: &[u8]) -> Option<u64> {
    ClockSnapshot::read(snapshot, 0, 0, 0).time_of(BOOTTIME)
}

/// The offset of a machine's clock over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OffsetCurve {
    /// Host times with their offsets.
    points: Vec<(u64, Offset)>,
}

impl OffsetCurve {
    /// Returns the offset at a host time.
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

    /// Converts a machine time to the host time.
    pub fn to_host(&self, client: u64) -> Option<(u64, u64)> {
        let to_host = |offset: i64| {
            let host = i128::from(client) - i128::from(offset);
            host.clamp(0, u64::MAX.into()) as u64
        };
        let (_, first) = self.points.first()?;
        // The offset changes slowly, so that its previous value suffices here.
        let mut host = to_host(first.offset);
        let mut error = 0;
        for _ in 0..3 {
            let offset = self.at(host)?;
            host = to_host(offset.offset);
            error = offset.error;
        }
        Some((host, error))
    }

    /// Returns the offset in the middle of all comparisons, with the largest error.
    pub fn overall(&self) -> Option<Offset> {
        let (first, last) = (self.points.first()?, self.points.last()?);
        let middle = self.at(first.0 + (last.0 - first.0) / 2)?;
        let error = self.points.iter().map(|(_, offset)| offset.error).max();
        Some(Offset {
            error: error.unwrap_or(middle.error),
            ..middle
        })
    }

    /// Returns the drift of the machine's clock from the host's, in nanoseconds per second; `None`
    /// if there is too little data.
    pub fn drift(&self) -> Option<f64> {
        let (first, last) = (self.points.first()?, self.points.last()?);
        let time = (last.0 - first.0) as f64;
        let known = self.points.iter().map(|(_, offset)| offset.error).max()?;
        let gained = (i128::from(last.1.offset) - i128::from(first.1.offset)) as f64;
        // The difference must exceed what the errors alone could cause.
        let is_certain = time >= 1e9 && known as f64 * 2e9 / time < 100_000.0;
        is_certain.then_some(gained * 1e9 / time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a round trip that starts at a host time, with the durations to the host and back.
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
    fn an_asymmetric_link_stays_within_the_stated_error() {
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
    fn slow_round_trips_are_ignored_and_drift_is_followed() {
        // 40 microseconds per second, measured every five seconds, mostly imprecisely.
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
    fn invalid_exchanges_are_rejected() {
        let exchange = |client, host| Exchange { client, host };
        for (one, two) in [
            // Clocks that went backwards, stopped for too long, or have impossible values.
            (exchange(5, 5), exchange(4, 6)),
            (exchange(5, 5), exchange(6, 4)),
            (exchange(0, 0), exchange(ONE_COMPARISON, 5)),
            (exchange(u64::MAX, 0), exchange(0, u64::MAX)),
        ] {
            assert_eq!(Comparison::new(one, two), None, "{one:?} {two:?}");
        }
        // Differences that cannot be represented in the trace are rejected.
        let half = 1 << 63;
        for (client, host) in [(u64::MAX - 1, 0), (half, 0), (0, half + 1), (0, u64::MAX)] {
            let next = exchange(client + 1, host);
            assert_eq!(Comparison::new(exchange(client, host), next), None);
        }
        for (client, host) in [(half - 2, 0), (0, half), (u64::MAX - 1, half)] {
            let (one, two) = (exchange(client, host), exchange(client + 1, host));
            let found = Comparison::new(one, two).unwrap().offset();
            // The machine's clock advanced before the host read its own.
            let truth = (i128::from(client) + 1 - i128::from(host)) as i64;
            assert!(found.offset.abs_diff(truth) <= found.error, "{found:?}");
            let mut clock = MachineClock::default();
            clock.add(&[one, two]);
            assert!(clock.curve().to_host(5).is_some());
        }
    }

    #[test]
    fn the_number_of_comparisons_is_bounded() {
        let mut clock = MachineClock::default();
        for step in 0..3 * MOST as u64 {
            clock.add(&round(step * SECOND, 10, 100 + step % 2, 100));
        }
        assert!(clock.len() <= MOST && clock.len() > MOST / 4);
        assert!(clock.curve().at(SECOND).is_some());
    }
}
