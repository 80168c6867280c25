//! Making sure.

use std::time::Duration;

use ferretto_engine as engine;

use crate::{data_source, track_event};

/// Hands over the packets that this thread has written and waits until the service has it, at most
/// for as long as `limit`. Returns whether it has; with several services, whether all of them have.
/// They then also know every data source registered before.
///
/// Other threads hand over their packets as chunks fill, at their end, or when they call this.
pub fn flush(limit: Duration) -> bool {
    if !engine::is_started() {
        return false;
    }
    track_event::flush_thread();
    data_source::flush_thread();
    engine::sync(limit)
}
