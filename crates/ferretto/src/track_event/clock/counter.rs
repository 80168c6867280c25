//! The processor's time stamp counter as a clock in step with `CLOCK_BOOTTIME`.

use std::fs;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use ferretto_shm::{Clock, counter, is_counter_steady};

use super::line::{Line, Pair};

/// The number of times that both clocks are read, at most, to find the moment between them that is
/// known best.
const TRIES: usize = 5;

/// The clock. Any thread may ask for the time at any time, and none waits for another: the line in
/// use is not changed, but another is written beside it.
#[derive(Debug)]
pub(super) struct Counter {
    /// The number of lines there were; 0 if the counter has not been started.
    generation: AtomicU64,
    /// The last two lines, by generation.
    lines: [Place; 2],
    /// The process of which a thread is writing a line, or 0.
    writer: AtomicU32,
}

/// A place where a line is kept.
#[derive(Debug)]
struct Place([AtomicU64; 6]);

impl Place {
    const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; 6])
    }

    #[inline]
    fn get(&self) -> Line {
        let [ticks, shown, real, rate, slope, limit] = &self.0;
        Line {
            ticks: ticks.load(Ordering::Relaxed),
            shown: shown.load(Ordering::Relaxed),
            real: real.load(Ordering::Relaxed),
            rate: rate.load(Ordering::Relaxed),
            slope: slope.load(Ordering::Relaxed),
            limit: limit.load(Ordering::Relaxed),
        }
    }

    fn set(&self, line: Line) {
        let values = [
            line.ticks, line.shown, line.real, line.rate, line.slope, line.limit,
        ];
        for (place, value) in self.0.iter().zip(values) {
            place.store(value, Ordering::Relaxed);
        }
    }
}

impl Counter {
    pub(super) const fn new() -> Self {
        Self {
            generation: AtomicU64::new(0),
            lines: [const { Place::new() }; 2],
            writer: AtomicU32::new(0),
        }
    }

    /// Begins to find out how fast the counter is, if the machine has one that can be relied on.
    /// Returns whether it has.
    pub(super) fn start(&self) -> bool {
        let first = Line::default();
        let Some(pair) = is_trusted().then(|| pair(&first)).flatten() else {
            return false;
        };
        self.replace(0, Line::origin(pair));
        true
    }

    /// The time, in nanoseconds. That of the clock itself as long as the speed of the counter is
    /// not known.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        let (generation, line) = self.line();
        let passed = counter().unwrap_or(0).wrapping_sub(line.ticks);
        if passed < line.limit {
            return line.at(passed);
        }
        self.beyond(generation, &line, passed)
    }

    /// The line in use, and its generation.
    #[inline]
    fn line(&self) -> (u64, Line) {
        loop {
            let generation = self.generation.load(Ordering::Acquire);
            let line = self.lines[(generation & 1) as usize].get();
            // Another line may have been written here if there were two more since.
            fence(Ordering::Acquire);
            if self.generation.load(Ordering::Relaxed) == generation {
                return (generation, line);
            }
        }
    }

    /// Returns the time where the line is not valid.
    #[cold]
    #[inline(never)]
    fn beyond(&self, generation: u64, line: &Line, passed: u64) -> u64 {
        if line.rate != 0 && passed.wrapping_neg() < line.limit {
            // The counter was read before the line began.
            return line.shown;
        }
        let real = Clock::Boottime.now();
        if generation == 0 || !line.is_ripe(real) {
            return real;
        }
        let pair = pair(line).filter(|pair| line.trusts(*pair));
        let next = pair.map(|pair| line.next(pair));
        match next {
            Some(next) if self.replace(generation, next) => next.shown,
            // Another thread has done it, or does it.
            _ if self.generation.load(Ordering::Relaxed) != generation => self.now(),
            _ if line.rate != 0 && passed < line.end() => line.at(passed),
            _ => real,
        }
    }

    /// Puts a line in the place of the one of this generation. Returns whether that was still in
    /// use, and no other thread is doing so.
    fn replace(&self, generation: u64, line: Line) -> bool {
        let process = std::process::id();
        let writer = self.writer.load(Ordering::Relaxed);
        // A thread of the process that this one was forked from has not come along.
        if writer == process
            || self
                .writer
                .compare_exchange(writer, process, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
        {
            return false;
        }
        let is_next = self.generation.load(Ordering::Relaxed) == generation;
        if is_next {
            // A reader that sees parts of this line also sees that the last one has been replaced.
            fence(Ordering::Release);
            let next = generation + 1;
            self.lines[(next & 1) as usize].set(line);
            self.generation.store(next, Ordering::Release);
        }
        self.writer.store(0, Ordering::Release);
        is_next
    }
}

/// Returns readings of both clocks at the same moment, as exactly as possible.
fn pair(line: &Line) -> Option<Pair> {
    let mut best: Option<Pair> = None;
    for _ in 0..TRIES {
        let before = counter()?;
        let real = Clock::Boottime.now();
        let doubt = counter()?.saturating_sub(before);
        if best.is_none_or(|best| doubt < best.doubt) {
            best = Some(Pair {
                ticks: before + doubt / 2,
                real,
                doubt,
            });
        }
        if best.is_some_and(|best| line.is_content(best)) {
            break;
        }
    }
    best
}

/// Returns true if the kernel itself uses the counter as its clock, so that both can differ by
/// corrections only, and the counter goes at the same speed always.
fn is_trusted() -> bool {
    const IN_USE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    is_counter_steady() && fs::read_to_string(IN_USE).is_ok_and(|name| name.trim_end() == "tsc")
}
