//! The judgement of a run that is the same for all commands.

use ferretto_testing::faults::{Effect, End, Fault, Kind, Outcome};

use crate::world::World;

/// A run of a command, with the reason why it was wrong.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) outcome: Outcome,
    pub(crate) wrong: Result<(), String>,
}

/// Returns the reason why the end of a program is wrong: a panic, a signal, or that it did not end.
pub(crate) fn end(outcome: &Outcome, fault: Option<Fault>, stderr: &str) -> Result<(), String> {
    let is_killed = fault.is_some_and(|fault| fault.effect == Effect::Kill);
    match outcome.end {
        End::Stuck => Err(format!("it did not end: {}", outcome.stuck_in)),
        End::Exited(101) => Err("it panicked".to_owned()),
        _ if stderr.contains("panicked at") => Err("it panicked".to_owned()),
        End::Killed(9) if is_killed => Ok(()),
        End::Killed(signal) => Err(format!("it was ended by signal {signal}")),
        End::Exited(code) if fault.is_none() && code != 0 => Err(format!("it returned {code}")),
        End::Exited(_) => Ok(()),
    }
}

/// Returns true if a fault may leave other files behind: the program was killed, or files could not
/// be removed.
pub(crate) fn may_leave_files(fault: Option<Fault>) -> bool {
    fault.is_some_and(|fault| fault.effect == Effect::Kill || fault.kind == Kind::Name)
}

/// Fails unless `summary` opens a file. Returns what it printed.
pub(crate) fn opens(world: &World, name: &str) -> Result<String, String> {
    let (code, text) = world.summary(&world.path(name));
    match code {
        Some(0 | 3) => Ok(text),
        code => Err(format!("summary of {name} returned {code:?}: {text}")),
    }
}

/// Returns true if a summary says that the trace has everything.
pub(crate) fn says_whole(text: &str) -> bool {
    text.contains("no data lost") || text.contains("nothing else is missing")
}
