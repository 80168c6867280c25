//! Options of the producer's side.

use std::time::Duration;

use crate::layout::Layout;

/// Options of an [`Arbiter`](crate::Arbiter).
#[derive(Clone, Debug)]
pub struct ArbiterOptions {
    /// The layout of free pages. By default pages stay whole for few writers, and are divided into
    /// smaller chunks for many.
    pub layout: Option<Layout>,
    /// Keep chunks with holes back until they are sent, and fill the holes in place. Set this only
    /// if the service supports it.
    pub direct_patching: bool,
    /// Set if there is no shared memory: chunks travel inside the commits. See also
    /// [`Arbiter::send_chunks`](crate::Arbiter::send_chunks).
    pub emulated: bool,
    /// Without shared memory, send copies of unfinished chunks with every flush acknowledgement,
    /// since the service cannot read them itself.
    pub self_scraping: bool,
    /// The time for which complete chunks may wait for others before they are committed.
    pub batch: Duration,
    /// The number of times that a stalled writer looks for a free chunk before it gives up. The
    /// time between attempts grows from zero to a tenth of a second, so that the default of 300
    /// takes about 29 seconds.
    pub stall_limit: u32,
    /// The number of bytes that a writer without a chunk discards before it looks for one again, at
    /// the next packet.
    pub retry_after: u64,
}

impl Default for ArbiterOptions {
    fn default() -> Self {
        Self {
            layout: None,
            direct_patching: false,
            emulated: false,
            self_scraping: false,
            batch: Duration::ZERO,
            stall_limit: 300,
            retry_after: 1024,
        }
    }
}
