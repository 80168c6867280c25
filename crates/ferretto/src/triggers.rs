//! Triggers: named signals that start, stop or clone recordings.

use ferretto_engine as engine;

use std::time::{Duration, Instant};

/// Activates triggers by name at the services of this process, including those that it connects to
/// within `keep`. Returns true if tracing has been [set up](crate::init()); otherwise nothing
/// happens.
///
/// Recordings that are configured with such a trigger then start, stop or are cloned. Up to 1024
/// triggers are kept for each service.
///
/// ```
/// ferretto::activate_triggers(&["frame.missed"], std::time::Duration::from_secs(10));
/// ```
pub fn activate_triggers(names: &[&str], keep: Duration) -> bool {
    let now = Instant::now();
    engine::trigger(names, now.checked_add(keep).unwrap_or(now))
}
