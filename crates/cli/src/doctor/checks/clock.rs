//! The clock of events.

use super::super::check::Check;
use super::read;

const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Checks the clock of programs' events.
pub(super) fn events() -> Check {
    let found = match read(SOURCE).as_deref() {
        Some("tsc") => {
            "the processor's time stamp counter, synchronized with the kernel's clock".to_owned()
        }
        Some(other) => {
            format!("the kernel's (its source is {other}), which is slower to read than tsc")
        }
        None => "the kernel's".to_owned(),
    };
    Check::works("clock of events", found)
}
