//! Flushing of this thread's packets.

use std::time::Duration;

use ferretto_engine as engine;

use crate::{data_source, track_event};

/// Commits the packets that this thread has written and waits until the service has received them,
/// for at most `limit`. Returns true on success; with several services, if all of them have. By
/// then they also know every data source registered before.
///
/// Other threads commit their packets as chunks fill, when they end, or when they call this
/// function.
pub fn flush(limit: Duration) -> bool {
    if !engine::is_started() {
        return false;
    }
    track_event::flush_thread();
    data_source::flush_thread();
    engine::sync(limit)
}
