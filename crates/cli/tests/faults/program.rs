//! The recorded program, and the judgement of its trace.

use std::env;
use std::process::Command;

use ferretto_testing::sdk::numbered;

use crate::judge;
use crate::world::World;

/// Set in the process of the program.
const VARIABLE: &str = "FERRETTO_TEST_NUMBERED_PROGRAM";
/// The number of its events.
const EVENTS: u64 = 3000;

pub(crate) fn main() {
    if env::var_os(VARIABLE).is_none() {
        return;
    }
    if ferretto::init().is_ok() {
        numbered::write(1, 0..EVENTS);
    }
}

/// Returns the words of a command that runs the program.
pub(crate) fn words() -> Vec<String> {
    let program = env::current_exe().expect("the path of this program");
    let program = program.to_str().expect("a path").to_owned();
    [
        "env",
        &format!("{VARIABLE}=1"),
        &program,
        "--exact",
        "program_main",
        "--nocapture",
    ]
    .map(str::to_owned)
    .into()
}

/// Adds the program to a command that runs another one.
pub(crate) fn add_to(command: &mut Command) {
    command.arg("--").args(words());
}

/// Fails if the trace does not open, or, of a recording that was complete, lacks events and does
/// not say so. With `is_whole`, it must have all events.
pub(crate) fn judge_trace(
    world: &World,
    name: &str,
    is_complete: bool,
    is_whole: bool,
) -> Result<(), String> {
    let text = judge::opens(world, name)?;
    let bytes = world.read(name).unwrap_or_default();
    let numbered = numbered::read(&*bytes);
    let seen = numbered.threads.get(&1).map_or(0, |thread| thread.seen);
    if is_whole && seen < EVENTS {
        return Err(format!("{seen} of {EVENTS} events\n{text}"));
    }
    if seen < EVENTS && is_complete && judge::says_whole(&text) {
        return Err(format!(
            "{seen} of {EVENTS} events, and no data is lost\n{text}"
        ));
    }
    Ok(())
}
