//! Functions of this test that run as programs of their own.

use std::env;

use crate::world::{Finished, World};

/// The variable that has the name of the function to run.
const VARIABLE: &str = "FERRETTO_TRUTH_PROGRAM";

/// Marks the lines in which a program prints its numbers.
const MARK: &str = "truth: ";

/// Runs `program` if this process was started for it by [`record`].
pub(crate) fn program(name: &str, program: impl FnOnce()) {
    if env::var(VARIABLE).is_ok_and(|wanted| wanted == name) {
        program();
    }
}

/// Prints a number that the recorded program knows.
pub(crate) fn known(name: &str, number: impl TryInto<i64>) {
    let number = number.try_into().unwrap_or(i64::MAX);
    println!("\n{MARK}{name} {number}");
}

/// Records the test function `test`, which calls [`program`] with the same name, into the file `t`.
pub(crate) fn record(world: &World, args: &[&str], test: &str) -> Known {
    let this = env::current_exe().expect("this program has a path");
    let this = this.to_str().expect("the path is text");
    let all = [
        &["record", "-q", "-o", "t"],
        args,
        &["--", this, test, "--exact", "--nocapture"],
    ];
    let mut command = world.command("ferretto", &all.concat());
    command.env(VARIABLE, test);
    let output = crate::world::Running::new(command.spawn().expect("ferretto starts")).finish();
    Known::of(output.returned(0))
}

/// The numbers that a recorded program printed, one in a line: its name and the number.
#[derive(Debug)]
pub(crate) struct Known(Vec<(String, i64)>);

impl Known {
    pub(crate) fn of(output: Finished) -> Self {
        let lines = output.text().lines();
        let lines = lines.filter_map(|line| line.strip_prefix(MARK)?.rsplit_once(' '));
        let numbers =
            lines.filter_map(|(name, number)| Some((name.to_owned(), number.parse().ok()?)));
        Self(numbers.collect())
    }

    /// Returns the numbers whose name ends with `suffix`, with the rest of the name.
    pub(crate) fn named(&self, suffix: &str) -> impl Iterator<Item = (&str, i64)> {
        let all = self.0.iter();
        all.filter_map(move |(name, number)| Some((name.strip_suffix(suffix)?, *number)))
    }

    #[track_caller]
    pub(crate) fn get(&self, name: &str) -> i64 {
        let found = self.0.iter().find(|(known, _)| known == name);
        found
            .unwrap_or_else(|| panic!("the program did not print {name}: {self:?}"))
            .1
    }
}
