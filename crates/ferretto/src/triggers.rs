//! Triggers: named signals that recordings may wait for.

use ferretto_engine as engine;

use std::time::{Duration, Instant};

/// Fires triggers by their names: at the services this process is connected to, and at those it
/// connects to before `keep` has passed. Returns whether tracing has been [set up](crate::init());
/// without, nothing happens.
///
/// Recordings that are configured with such a trigger start, stop or are copied then. Up to 1024
/// triggers are kept for each service.
///
/// ```
/// ferretto::activate_triggers(&["frame.missed"], std::time::Duration::from_secs(10));
/// ```
pub fn activate_triggers(names: &[&str], keep: Duration) -> bool {
    let now = Instant::now();
    engine::trigger(names, now.checked_add(keep).unwrap_or(now))
}
