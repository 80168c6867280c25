//! The processes of a recording.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Processes whose end is awaited. Each is held by a descriptor, since ids are reused.
#[derive(Debug)]
pub(super) struct Watched(Vec<OwnedFd>);

impl Watched {
    /// Opens the existing processes with these ids. Before Linux 5.3, which has no process
    /// descriptors, watches nothing.
    pub(super) fn new(pids: &[i32]) -> Self {
        let open = |pid: &i32| pidfd_open(Pid::from_raw(*pid)?, PidfdFlags::empty()).ok();
        Self(pids.iter().filter_map(open).collect())
    }

    /// Returns true if none of them runs, or there were none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if the last of them has ended since the last call. Never blocks.
    pub(super) fn have_ended(&mut self) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        self.0.retain(|process| {
            let mut fds = [PollFd::new(process, PollFlags::IN)];
            !poll(&mut fds, Some(&now)).is_ok_and(|count| count > 0)
        });
        self.0.is_empty()
    }
}
