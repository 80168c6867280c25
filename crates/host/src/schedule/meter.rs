//! The measure of work.

/// The time of a piece of work, in nanoseconds, from which on it may contain a switch to another
/// program. Reading the CPU time of a thread takes a hundred times as long as reading the clock.
const LONG: u64 = 200_000;
/// The measured work after which the CPU time is read anyway: the less there is since the last
/// read, the less other CPU time a long piece can be taken for.
const RENEWED: u64 = 1_000_000;

/// Measures the work of a thread, in nanoseconds.
///
/// Pieces of work are measured by the clock. If other programs had the CPU during one, that is no
/// work of its user, who would not be served again before all others have had as much. So a long
/// piece counts at most the CPU time that the thread has used since it was last read, without the
/// pieces since then.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// The time up to which work was measured, `CLOCK_MONOTONIC`.
    at: u64,
    /// The CPU time of the thread when it was last read.
    cpu: u64,
    /// The work measured since then.
    measured: u64,
}

impl Meter {
    /// Begins a piece of work. The time since the last one is no work.
    pub(crate) fn begin(&mut self, now: u64) {
        self.at = now;
    }

    /// Returns the time up to which work was measured, `CLOCK_MONOTONIC`.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Ends a piece of work and begins the next. Returns the work. `cpu` reads the CPU time of the
    /// thread.
    pub(crate) fn lap(&mut self, now: u64, cpu: impl FnOnce() -> u64) -> u64 {
        let passed = now.saturating_sub(std::mem::replace(&mut self.at, now));
        if passed < LONG {
            self.measured += passed;
            if self.measured >= RENEWED {
                self.note_cpu(cpu());
            }
            return passed;
        }
        let measured = self.measured;
        passed.min(self.note_cpu(cpu()).saturating_sub(measured))
    }

    /// Notes the CPU time of the thread. Returns the CPU time since the last note.
    pub(crate) fn note_cpu(&mut self, cpu: u64) -> u64 {
        self.measured = 0;
        cpu.saturating_sub(std::mem::replace(&mut self.cpu, cpu))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A thread with virtual time.
    #[derive(Default)]
    struct Thread {
        meter: Meter,
        now: u64,
        cpu: u64,
        /// The number of times that the CPU time was read.
        reads: usize,
    }

    impl Thread {
        /// Works, while other programs have the CPU for `stolen`, and returns the measured work.
        fn work(&mut self, time: u64, stolen: u64) -> u64 {
            self.now += time + stolen;
            self.cpu += time;
            let (cpu, reads) = (self.cpu, &mut self.reads);
            self.meter.lap(self.now, || {
                *reads += 1;
                cpu
            })
        }
    }

    #[test]
    fn time_of_other_programs_is_no_work() {
        let mut thread = Thread::default();
        thread.meter.note_cpu(0);
        for _ in 0..10 {
            assert_eq!(thread.work(MS / 20, 0), MS / 20);
        }
        assert_eq!(thread.work(MS / 20, 12 * MS), MS / 20);
        assert_eq!(thread.work(MS / 20, 0), MS / 20);
        assert_eq!(thread.work(3 * MS, 7 * MS), 3 * MS);
        assert_eq!(thread.work(40 * MS, 0), 40 * MS);
    }

    #[test]
    fn the_cpu_time_is_seldom_read() {
        let mut thread = Thread::default();
        for _ in 0..1000 {
            thread.work(MS / 100, 0);
        }
        assert_eq!(thread.reads, 10);
    }

    #[test]
    fn little_of_other_work_is_taken_for_a_long_piece() {
        let mut thread = Thread::default();
        // The thread also works for nobody, before each of the pieces.
        for _ in 0..1000 {
            let own = MS / 100;
            (thread.now, thread.cpu) = (thread.now + own, thread.cpu + own);
            thread.meter.begin(thread.now);
            thread.work(MS / 10, 0);
        }
        let work = thread.work(MS / 10, 50 * MS);
        assert!(work <= MS / 10 + MS / 10, "{work}");
    }

    #[test]
    fn work_between_pieces_is_not_measured() {
        let mut thread = Thread::default();
        thread.meter.note_cpu(0);
        thread.now += 50 * MS;
        thread.meter.begin(thread.now);
        assert_eq!(thread.work(2 * MS, 0), 2 * MS);
        assert_eq!(thread.meter.at(), 52 * MS);
    }
}
