//! The profiler's priority over the profiled programs.
//!
//! On a busy machine the profiler would otherwise wait for the programs that it profiles: rings
//! would fill up and samples would be lost.

use ferretto_priority::{Priority, ThreadBoost};

/// A nice value of -10: ten times the share of an ordinary thread. Not a real-time priority, with
/// which programs could block the CPU by callstacks that are expensive to unwind.
const URGENT: Priority = Priority::Normal(10);

/// The priority of the calling thread; all calls must come from the same thread. Threads that it
/// starts meanwhile inherit the priority for good, but only run while there is work for them.
#[derive(Debug, Default)]
pub(super) struct Urgency {
    boost: ThreadBoost,
    is_urgent: bool,
    /// The error of raising the priority.
    reason: Option<String>,
    has_reported: bool,
}

impl Urgency {
    /// Raises the priority if permitted, or restores it.
    pub(super) fn set(&mut self, is_urgent: bool) {
        if std::mem::replace(&mut self.is_urgent, is_urgent) != is_urgent {
            let set = self.boost.set(is_urgent.then_some(URGENT));
            self.reason = set.err().map(|error| error.to_string());
        }
    }

    /// Returns, once, why the priority could not be raised, after samples were lost.
    pub(super) fn reason(&mut self) -> Option<String> {
        if self.has_reported {
            return None;
        }
        let reason = self.reason.as_ref()?;
        self.has_reported = true;
        Some(format!(
            "samples are lost as the machine is busy, and the profiler may not go ahead of other programs: {reason}; it needs \
             CAP_SYS_NICE"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nice() -> i32 {
        rustix::process::getpriority_process(None).expect("a nice value")
    }

    #[test]
    fn threads_have_a_raised_priority_during_a_recording() {
        let thread = std::thread::spawn(|| {
            let mut urgency = Urgency::default();
            let own = nice();
            urgency.set(true);
            if let Some(sentence) = urgency.reason() {
                println!("skipped: {sentence}");
                assert_eq!(urgency.reason(), None, "it is reported once");
                assert_eq!(nice(), own);
                return;
            }
            assert_eq!(nice(), own.min(-10));
            let other = std::thread::spawn(nice).join().expect("no panic");
            assert_eq!(other, own.min(-10), "unwinders have it, too");
            urgency.set(false);
            assert_eq!(nice(), own);
        });
        thread.join().expect("no panic");
    }
}
