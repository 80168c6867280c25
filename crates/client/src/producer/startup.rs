//! Recording before the service has been reached: into memory that the producer brings along.
//!
//! The memory is offered when the connection is made. A service that takes it reads chunks written
//! before like all others. One that does not sends memory of its own for all further writers;
//! chunks written before, and those that the early writers still write, then travel inside the
//! commits. Nothing is lost either way.

use std::sync::Arc;

use ferretto_shm::{Arbiter, PageSize, Region};

use super::Producer;
use super::shared::SharedOutlet;
use crate::transport::Attachment;

/// The default size of the memory, in bytes; services use the same.
const DEFAULT_SIZE: u32 = 256 * 1024;

impl Producer {
    /// Has memory from now on, and offers it on the next connection, as if the options had said
    /// [`provide_memory`](super::ProducerOptions::provide_memory). Does nothing if there is memory
    /// already. A service that is connected but has not sent memory yet gets chunks written
    /// meanwhile inside the commits.
    pub fn provide_memory(&mut self) {
        if self.shared.arbiter().is_some() || self.shared.offered().is_some() {
            return;
        }
        self.options.provide_memory = true;
        self.prepare_memory();
        let session = self.session.as_ref();
        if session.is_some_and(|session| session.accepted.is_some()) {
            self.shared.settle_memory(false);
        }
    }

    /// Page size and size to ask for, in bytes. The service takes memory only if it would have made
    /// it like that, so they are said even where they are the default.
    pub(super) fn size_hints(&self) -> (u32, u32) {
        let (page, size) = (self.options.page_size_hint, self.options.memory_size_hint);
        if !self.options.provide_memory {
            return (page, size);
        }
        let or_default = |value, default| if value == 0 { default } else { value };
        (
            or_default(page, PageSize::DEFAULT.bytes() as u32),
            or_default(size, DEFAULT_SIZE),
        )
    }

    /// Makes the memory to be offered on the next connection, if the options say so. If there is
    /// none to be had, startup writers discard everything.
    pub(super) fn prepare_memory(&self) {
        if !self.options.provide_memory {
            return;
        }
        let (page, size) = self.size_hints();
        let arbiter = Region::create(size as usize).ok().and_then(|region| {
            let outlet = Box::new(SharedOutlet(Arc::downgrade(&self.shared)));
            let page = PageSize::new(page as usize)?;
            Arbiter::new(Arc::new(region), page, self.options.arbiter(), outlet)
        });
        self.shared.set_offered(arbiter);
    }

    /// The memory to send along with the greeting, where that is possible.
    pub(super) fn memory_to_offer(&self) -> Option<Attachment> {
        let is_shared = self.shared.with_connection(|link| link.shares_memory());
        let can_be_offered = is_shared == Some(true) && !self.offered_in_vain;
        let offered = self.shared.offered().filter(|_| can_be_offered)?;
        Some(Attachment::Memory(Arc::clone(offered.region())))
    }
}
