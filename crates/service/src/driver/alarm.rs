//! An alarm on the clock that includes suspended time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// The largest delay of the alarm, in nanoseconds.
const SLACK: u64 = 100_000;

/// An alarm that makes its descriptor readable.
#[derive(Debug)]
pub struct Alarm {
    fd: OwnedFd,
    armed_for: Option<u64>,
}

impl Alarm {
    /// Creates an alarm that is not set.
    ///
    /// # Errors
    ///
    /// Fails if the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let fd = timerfd_create(TimerfdClockId::Boottime, flags)?;
        Ok(Self {
            fd,
            armed_for: None,
        })
    }

    /// Makes sure that the alarm goes off at this time, in nanoseconds of `CLOCK_BOOTTIME`, or at
    /// most a tenth of a millisecond later. It goes off at once for a time in the past.
    ///
    /// It may also go off early. Deadlines on other clocks vary a little each time they are
    /// converted to this one, and one needless wake-up is cheaper than a system call at every turn.
    ///
    /// # Errors
    ///
    /// Fails if the system has no timers left.
    pub fn set(&mut self, at: Option<u64>) -> io::Result<()> {
        let Some(at) = at else {
            return Ok(());
        };
        if self
            .armed_for
            .is_some_and(|armed| armed <= at.saturating_add(SLACK))
        {
            return Ok(());
        }
        // A value of zero would disarm.
        let value = at.max(1);
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let it_value = Timespec {
            tv_sec: i64::try_from(value / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (value % 1_000_000_000) as i64,
        };
        let spec = Itimerspec {
            it_interval: zero,
            it_value,
        };
        timerfd_settime(self.fd.as_fd(), TimerfdTimerFlags::ABSTIME, &spec)?;
        self.armed_for = Some(at);
        Ok(())
    }

    /// Acknowledges the alarm after it went off, so that the same time can be set again.
    pub fn rang(&mut self) {
        let mut expirations = [0; 8];
        // This fails only if it did not go off.
        let _ = rustix::io::read(&self.fd, &mut expirations);
        self.armed_for = None;
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
