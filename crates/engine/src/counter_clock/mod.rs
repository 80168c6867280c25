//! The processor's counter as a clock, synchronised with `CLOCK_BOOTTIME`.

mod line;

use std::fs;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use ferretto_shm::{COUNTER_CLOCK_SOURCE, Clock, counter, is_counter_steady};

use self::line::{Line, Pair};

/// The largest number of attempts to read both clocks at nearly the same moment.
const TRIES: usize = 5;

/// The time since boot (`CLOCK_BOOTTIME`), computed from the processor's counter. It is within a
/// microsecond of the clock, and never goes backwards on a thread.
///
/// The clock is lock-free: a new line never overwrites the one in use, but is written beside it.
#[derive(Debug)]
pub struct CounterClock {
    /// The number of lines so far; 0 before the counter is started.
    generation: AtomicU64,
    /// The last two lines, by generation.
    lines: [LineStorage; 2],
    /// The process id of the thread that writes a line, or 0.
    writer: AtomicU32,
}

/// The storage of a line.
#[derive(Debug)]
struct LineStorage([AtomicU64; 6]);

impl LineStorage {
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
        for (word, value) in self.0.iter().zip(values) {
            word.store(value, Ordering::Relaxed);
        }
    }
}

impl Default for CounterClock {
    fn default() -> Self {
        Self::new()
    }
}

impl CounterClock {
    /// Creates a clock that reads `CLOCK_BOOTTIME` itself until it is [started](Self::start).
    pub const fn new() -> Self {
        Self {
            generation: AtomicU64::new(0),
            lines: [const { LineStorage::new() }; 2],
            writer: AtomicU32::new(0),
        }
    }

    /// Starts calibrating the counter, unless that has been done. Returns false if the machine has
    /// no reliable counter.
    pub fn start(&self) -> bool {
        if self.generation.load(Ordering::Relaxed) != 0 {
            return true;
        }
        let first = Line::default();
        let Some(pair) = is_trusted().then(|| pair(&first)).flatten() else {
            return false;
        };
        self.replace(0, Line::origin(pair));
        true
    }

    /// Returns the time in nanoseconds, read from the clock itself until the counter's frequency is
    /// known.
    #[inline]
    pub fn now(&self) -> u64 {
        let (generation, line) = self.line();
        if generation == 0 {
            return Clock::Boottime.now();
        }
        let passed = counter().unwrap_or(0).wrapping_sub(line.ticks);
        if passed < line.limit {
            return line.at(passed);
        }
        self.beyond(generation, &line, passed)
    }

    /// Returns the current line and its generation.
    #[inline]
    fn line(&self) -> (u64, Line) {
        loop {
            let generation = self.generation.load(Ordering::Acquire);
            let line = self.lines[(generation & 1) as usize].get();
            // Two newer lines may have replaced this one during the read.
            fence(Ordering::Acquire);
            if self.generation.load(Ordering::Relaxed) == generation {
                return (generation, line);
            }
        }
    }

    /// Returns the time outside the validity of a line.
    #[cold]
    #[inline(never)]
    fn beyond(&self, generation: u64, line: &Line, passed: u64) -> u64 {
        if line.rate != 0 && passed.wrapping_neg() < line.limit {
            // The counter was read before the start of the line.
            return line.shown;
        }
        let real = Clock::Boottime.now();
        if !line.is_ripe(real) {
            return real;
        }
        let pair = pair(line).filter(|pair| line.trusts(*pair));
        let next = pair.map(|pair| line.next(pair));
        match next {
            Some(next) if self.replace(generation, next) => next.shown,
            // Another thread has replaced the line or is replacing it.
            _ if self.generation.load(Ordering::Relaxed) != generation => self.now(),
            _ if line.rate != 0 && passed < line.end() => line.at(passed),
            _ => real,
        }
    }

    /// Replaces the line of this generation. Returns false if the line was no longer current or
    /// another thread is replacing it.
    fn replace(&self, generation: u64, line: Line) -> bool {
        let process = std::process::id();
        let writer = self.writer.load(Ordering::Relaxed);
        // The writing thread of a parent process does not exist in a forked child.
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
            // A reader that sees parts of this line also sees the new generation.
            fence(Ordering::Release);
            let next = generation + 1;
            self.lines[(next & 1) as usize].set(line);
            self.generation.store(next, Ordering::Release);
        }
        self.writer.store(0, Ordering::Release);
        is_next
    }
}

/// Returns readings of both clocks that are as close together as possible.
fn pair(line: &Line) -> Option<Pair> {
    let mut best: Option<Pair> = None;
    for _ in 0..TRIES {
        let before = counter()?;
        let real = Clock::Boottime.now();
        // Slow counters show only when a tick is over.
        let doubt = counter()?.saturating_sub(before) + 1;
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

/// Returns true if the kernel uses the counter as its clock source. Then the counter has a constant
/// frequency, and the clocks differ only by corrections.
fn is_trusted() -> bool {
    const IN_USE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    is_counter_steady()
        && fs::read_to_string(IN_USE).is_ok_and(|name| name.trim_end() == COUNTER_CLOCK_SOURCE)
}
