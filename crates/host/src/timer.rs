//! One alarm on the clock that counts suspended time too.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// An alarm that makes its descriptor readable.
#[derive(Debug)]
pub(crate) struct Timer {
    fd: OwnedFd,
    armed_for: Option<u64>,
}

impl Timer {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let fd = timerfd_create(TimerfdClockId::Boottime, flags)?;
        Ok(Self {
            fd,
            armed_for: None,
        })
    }

    pub(crate) fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Sets when to ring, in nanoseconds of `CLOCK_BOOTTIME`; `None` never. A
    /// time in the past rings at once. Costs nothing if nothing changed.
    pub(crate) fn set(&mut self, at: Option<u64>) -> io::Result<()> {
        if self.armed_for == at {
            return Ok(());
        }
        // A value of zero would disarm.
        let value = at.map_or(0, |at| at.max(1));
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
        self.armed_for = at;
        Ok(())
    }

    /// To be called when it rang: the same time can be set again.
    pub(crate) fn rang(&mut self) {
        let mut expirations = [0; 8];
        // Fails only if it did not ring after all.
        let _ = rustix::io::read(&self.fd, &mut expirations);
        self.armed_for = None;
    }
}
