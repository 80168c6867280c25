//! Recording before there is a connection, into memory that the producer provides.
//!
//! The producer offers the memory when it connects. A service that adopts it reads the earlier
//! chunks like all others. Otherwise, the service sends memory of its own for new writers, and the
//! commits contain the earlier chunks and those that startup writers still write. No data is lost
//! in either case.

use std::sync::Arc;

use ferretto_shm::{Arbiter, PageSize, Region};

use super::Producer;
use super::shared::SharedOutlet;
use crate::transport::Attachment;

/// The default size of the memory, in bytes; services use the same.
const DEFAULT_SIZE: u32 = 256 * 1024;

impl Producer {
    /// Provides memory from now on, and offers it on the next connection, as with the option
    /// [`provide_memory`](super::ProducerOptions::provide_memory). Does nothing if there is memory
    /// already. If a service is connected but has not sent memory yet, the commits contain the
    /// chunks written meanwhile. Returns true if there is memory.
    pub fn provide_memory(&mut self) -> bool {
        if self.shared.arbiter().is_some() || self.shared.offered().is_some() {
            return true;
        }
        self.options.provide_memory = true;
        self.prepare_memory();
        let session = self.session.as_ref();
        if session.is_some_and(|session| session.accepted.is_some()) {
            self.shared.decide_memory(false);
        }
        self.shared.offered().is_some()
    }

    /// Returns the page size and the size to request, in bytes. The service adopts memory only if
    /// it has the requested sizes, so they are sent even if they are the default.
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

    /// Creates the memory to offer on the next connection, if the options require it. If that
    /// fails, startup writers discard all packets.
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

    /// Returns the memory to send with InitializeConnection, if the link can share memory.
    pub(super) fn memory_to_offer(&self) -> Option<Attachment> {
        let is_shared = self.shared.with_connection(|link| link.shares_memory());
        let can_be_offered = is_shared == Some(true) && !self.was_offer_fatal;
        let offered = self.shared.offered().filter(|_| can_be_offered)?;
        Some(Attachment::Memory(Arc::clone(offered.region())))
    }
}
