//! Where the writers of an instance come from.

use std::sync::{Arc, Mutex};

use ferretto_client::{ExhaustedPolicy, ProducerHandle, TraceWriter};
use ferretto_shm::fork::forks;

use super::primitive::lock;

/// Makes writers into the buffer of one instance, for as long as its connection lasts.
#[derive(Clone, Debug)]
pub struct Outlet {
    way: Arc<Mutex<Option<Way>>>,
    forks: u32,
}

#[derive(Debug)]
struct Way {
    handle: ProducerHandle,
    destination: Destination,
    policy: ExhaustedPolicy,
}

/// What the writers write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// A central buffer.
    Buffer(u32),
    /// The buffer of a recording that is expected to begin.
    Reserved(u16),
}

impl Outlet {
    pub(super) fn new(
        handle: ProducerHandle,
        destination: Destination,
        policy: ExhaustedPolicy,
    ) -> Self {
        Self {
            way: Arc::new(Mutex::new(Some(Way {
                handle,
                destination,
                policy,
            }))),
            forks: forks(),
        }
    }

    /// Leads nowhere.
    pub fn closed() -> Self {
        Self {
            way: Arc::default(),
            forks: forks(),
        }
    }

    /// A writer, a sequence of its own, for any one thread. It discards everything if the connection is lost, or in a
    /// forked child.
    pub fn create_writer(&self) -> TraceWriter {
        if self.forks != forks() {
            return TraceWriter::null();
        }
        // Under the lock, so that no writer of a later connection gets the buffer number of this one.
        match &*lock(&self.way) {
            Some(way) => way.create_writer(),
            None => TraceWriter::null(),
        }
    }

    /// The connection is lost.
    pub(super) fn close(&self) {
        *lock(&self.way) = None;
    }
}

impl Way {
    fn create_writer(&self) -> TraceWriter {
        match self.destination {
            Destination::Buffer(buffer) => self.handle.create_writer(buffer, self.policy),
            // Startup writers never wait: while a reservation is open no chunk is freed.
            Destination::Reserved(reservation) => self
                .handle
                .create_startup_writer(reservation, ExhaustedPolicy::Drop),
        }
    }
}

impl Destination {
    pub(super) fn reservation(self) -> Option<u16> {
        match self {
            Self::Buffer(_) => None,
            Self::Reserved(reservation) => Some(reservation),
        }
    }
}
