//! One alarm on the clock that counts suspended time too.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// The delay beyond the time asked for with which it may ring, in nanoseconds.
const SLACK: u64 = 100_000;

/// An alarm that makes its descriptor readable.
#[derive(Debug)]
pub struct Alarm {
    fd: OwnedFd,
    armed_for: Option<u64>,
}

impl Alarm {
    /// An alarm that is not set.
    ///
    /// # Errors
    ///
    /// If the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let fd = timerfd_create(TimerfdClockId::Boottime, flags)?;
        Ok(Self {
            fd,
            armed_for: None,
        })
    }

    /// Makes sure that it rings at this time, in nanoseconds of `CLOCK_BOOTTIME`, or a tenth of a
    /// millisecond later. A time in the past rings at once.
    ///
    /// It may also ring before: one ring in vain is cheaper than a system call at every turn, as
    /// deadlines on other clocks vary a little each time they are converted to this one.
    ///
    /// # Errors
    ///
    /// If the system has no timers left.
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

    /// To be called when it rang: the same time can be set again.
    pub fn rang(&mut self) {
        let mut expirations = [0; 8];
        // Fails only if it did not ring after all.
        let _ = rustix::io::read(&self.fd, &mut expirations);
        self.armed_for = None;
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
