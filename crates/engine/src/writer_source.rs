//! The source of an instance's writers.

use std::sync::{Arc, Mutex};

use ferretto_client::{ExhaustedPolicy, ProducerHandle, TraceWriter};
use ferretto_shm::fork::forks;

use super::primitive::lock;

/// Creates writers into the buffer of one instance, as long as its connection lasts.
#[derive(Clone, Debug)]
pub struct WriterSource {
    opened: Arc<Mutex<Option<Opened>>>,
    forks: u32,
}

#[derive(Debug)]
struct Opened {
    handle: ProducerHandle,
    destination: Destination,
    policy: ExhaustedPolicy,
}

/// The buffer of the writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// A central buffer.
    Buffer(u32),
    /// The buffer of an expected recording.
    Reserved(u16),
}

impl WriterSource {
    pub(super) fn new(
        handle: ProducerHandle,
        destination: Destination,
        policy: ExhaustedPolicy,
    ) -> Self {
        Self {
            opened: Arc::new(Mutex::new(Some(Opened {
                handle,
                destination,
                policy,
            }))),
            forks: forks(),
        }
    }

    /// Creates a source whose writers discard everything.
    pub fn closed() -> Self {
        Self {
            opened: Arc::default(),
            forks: forks(),
        }
    }

    /// Creates a writer, which has a sequence of its own, for any one thread. It discards
    /// everything if the connection is lost, or in a forked child.
    pub fn create_writer(&self) -> TraceWriter {
        if self.forks != forks() {
            return TraceWriter::null();
        }
        // Created under the lock, so that no writer of a later connection gets this connection's
        // buffer id.
        match &*lock(&self.opened) {
            Some(opened) => opened.create_writer(),
            None => TraceWriter::null(),
        }
    }

    /// Closes the source, since the connection is lost.
    pub(super) fn close(&self) {
        *lock(&self.opened) = None;
    }
}

impl Opened {
    fn create_writer(&self) -> TraceWriter {
        match self.destination {
            Destination::Buffer(buffer) => self.handle.create_writer(buffer, self.policy),
            // Waits for chunks only after the reservation is bound: until then, none is freed.
            Destination::Reserved(reservation) => {
                self.handle.create_startup_writer(reservation, self.policy)
            }
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
