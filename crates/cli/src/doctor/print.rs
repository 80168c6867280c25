//! Prints the checks, for people and for programs.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use ferretto_text::terminal::shown;

use super::check::{Check, State};
use crate::json;

const GOOD: Style = AnsiColor::Green.on_default().bold();
const PARTLY: Style = AnsiColor::Yellow.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const DIM: Style = Style::new().dimmed();

/// Prints a line for each check, followed by its consequence and remedies.
pub(super) fn text(out: &mut impl Write, checks: &[Check]) -> io::Result<()> {
    let width = checks.iter().map(|check| check.name.len()).max();
    let width = width.unwrap_or(0);
    let indent = " ".repeat("missing".len() + width + 4);
    for check in checks {
        let style = match check.state {
            State::Works => GOOD,
            State::Limited => PARTLY,
            State::Missing => BAD,
        };
        let (state, name) = (check.state.as_str(), check.name);
        writeln!(
            out,
            "{style}{state:7}{style:#}  {name:width$}  {}",
            shown(&check.found)
        )?;
        if !check.effect.is_empty() {
            writeln!(out, "{indent}{}", shown(&check.effect))?;
        }
        for (index, remedy) in check.remedies.iter().enumerate() {
            let lead = if index == 0 { "to change it:" } else { "or:" };
            writeln!(out, "{indent}{DIM}{lead}{DIM:#} {}", shown(remedy))?;
        }
    }
    let not = |state| checks.iter().filter(|check| check.state == state).count();
    match (not(State::Missing), not(State::Limited)) {
        (0, 0) => writeln!(out, "\nEverything can be recorded here."),
        (missing, limited) => writeln!(out, "\n{missing} missing, {limited} limited."),
    }
}

/// Prints the checks as one JSON object on one line.
pub(super) fn json(out: &mut impl Write, checks: &[Check]) -> io::Result<()> {
    let text = json::answer(|all| {
        all.add(
            "works",
            checks.iter().all(|check| check.state == State::Works),
        );
        all.objects("checks", checks, |members, check| {
            members.add("name", check.name);
            members.add("state", check.state.as_str());
            members.add("found", &check.found);
            members.add("effect", &check.effect);
            members
                .name("remedies")
                .list(&check.remedies, |json, text| json.string(text));
        });
    });
    out.write_all(text.as_bytes())
}
