//! Waits for events of many descriptors.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

/// The largest number of events taken at a time.
const EVENTS: usize = 256;

/// The events to wait for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

/// An event of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) token: u64,
    /// Set if the other side is gone, which is always reported.
    pub(crate) is_over: bool,
}

/// Waits for many descriptors, each with a token.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
        })
    }

    pub(crate) fn add(&self, fd: BorrowedFd<'_>, token: u64, wanted: Interest) -> io::Result<()> {
        Ok(epoll::add(
            &self.epoll,
            fd,
            EventData::new_u64(token),
            flags(wanted),
        )?)
    }

    pub(crate) fn change(
        &self,
        fd: BorrowedFd<'_>,
        token: u64,
        wanted: Interest,
    ) -> io::Result<()> {
        Ok(epoll::modify(
            &self.epoll,
            fd,
            EventData::new_u64(token),
            flags(wanted),
        )?)
    }

    pub(crate) fn remove(&self, fd: BorrowedFd<'_>) {
        // This fails only for a descriptor that was not added.
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Waits for events until `deadline`.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> io::Result<Vec<Ready>> {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // Rounded up, since waking early would only wait again.
        let left = left.map(|left| left.saturating_add(Duration::from_nanos(1)));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ready = events.iter().map(|event| {
            let flags = event.flags;
            Ready {
                token: event.data.u64(),
                is_over: flags.intersects(EventFlags::HUP | EventFlags::ERR),
            }
        });
        Ok(ready.collect())
    }
}

fn flags(wanted: Interest) -> EventFlags {
    let mut flags = EventFlags::empty();
    flags.set(EventFlags::IN, wanted.read);
    flags.set(EventFlags::OUT, wanted.write);
    flags
}
