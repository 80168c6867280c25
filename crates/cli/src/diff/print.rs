//! The comparison for a person: one screen, or Markdown.

use std::fmt::Write as _;

use ferretto_diff::{Change, Comparison, Scope, Unit};
use ferretto_text::amount::{counted, duration, grouped, human_bytes};
use ferretto_text::terminal::shown;

/// The number of changes that are shown.
const MAX_CHANGES: usize = 12;
/// The maximum length of a value of the setup.
const MAX_VALUE: usize = 60;

/// Returns the comparison as text.
pub(super) fn text(comparison: &Comparison) -> String {
    let mut text = headline(comparison);
    text.push('\n');
    for (name, before, after) in &comparison.setup {
        let _ = writeln!(text, "{}", fact(name, before, after));
    }
    for (title, changes) in parts(comparison) {
        let _ = writeln!(text, "\n{title}");
        for change in changes.iter().take(MAX_CHANGES) {
            let _ = writeln!(
                text,
                "{:>10} {:>8}  {:>10} → {:<10}  {}{}",
                difference(change),
                relative(change),
                amount(change, change.before),
                amount(change, change.after),
                shown(&change.feature.text()),
                more_of(change),
            );
        }
        more(&mut text, changes.len());
    }
    if !comparison.remarks.is_empty() {
        text.push('\n');
    }
    for remark in &comparison.remarks {
        let _ = writeln!(text, "{remark}");
    }
    text
}

/// Returns the comparison as Markdown.
pub(super) fn markdown(comparison: &Comparison) -> String {
    let mut text = format!("### {}\n", headline(comparison));
    for (name, before, after) in &comparison.setup {
        let _ = writeln!(text, "\n- {}", escaped(&fact(name, before, after)));
    }
    for (title, changes) in parts(comparison) {
        let _ = writeln!(
            text,
            "\n| {title} | before | after | change | |\n|---|--:|--:|--:|--:|"
        );
        for change in changes.iter().take(MAX_CHANGES) {
            let _ = writeln!(
                text,
                "| {}{} | {} | {} | {} | {} |",
                escaped(&change.feature.text()),
                escaped(&more_of(change)),
                amount(change, change.before),
                amount(change, change.after),
                difference(change),
                relative(change),
            );
        }
        more(&mut text, changes.len());
    }
    for remark in &comparison.remarks {
        let _ = writeln!(text, "\n{}", escaped(remark));
    }
    text
}

fn headline(comparison: &Comparison) -> String {
    let (before, after) = comparison.recordings;
    let sets = match (before, after) {
        (1, 1) => String::new(),
        _ => format!(" ({before} and {})", counted(after as u64, "recording")),
    };
    let count = comparison.changes.len() + comparison.effects.len();
    let found = match count {
        0 => "No change found".to_owned(),
        count => counted(count as u64, "change"),
    };
    let found = match comparison.possible.len() {
        0 => found,
        count => format!("{found}, {count} possible"),
    };
    let (before, after) = comparison.durations;
    match comparison.scope {
        Scope::Command => format!(
            "{found}{sets}: the command took {} before, {} after",
            time(before),
            time(after)
        ),
        Scope::Period => format!(
            "{found}{sets}: {} before, {} after; values are per second",
            time(before),
            time(after)
        ),
    }
}

fn parts(comparison: &Comparison) -> Vec<(&'static str, &[Change])> {
    let all = [
        (
            "What changed, the largest first",
            comparison.changes.as_slice(),
        ),
        ("Durations", comparison.effects.as_slice()),
        (
            "Possible changes; record again to know",
            comparison.possible.as_slice(),
        ),
    ];
    all.into_iter()
        .filter(|(_, changes)| !changes.is_empty())
        .collect()
}

fn more(text: &mut String, count: usize) {
    if count > MAX_CHANGES {
        let _ = writeln!(text, "\n{} more; --json lists all", count - MAX_CHANGES);
    }
}

fn fact(name: &str, before: &str, after: &str) -> String {
    let short = |value: &str| match value {
        "" if name == "config" => "nothing".to_owned(),
        "" => "unknown".to_owned(),
        value if value.lines().count() > 1 || value.chars().count() > MAX_VALUE => {
            format!(
                "{}…",
                shown(
                    &value
                        .lines()
                        .next()
                        .unwrap_or("")
                        .chars()
                        .take(MAX_VALUE)
                        .collect::<String>()
                )
            )
        }
        value => shown(value).into_owned(),
    };
    match name {
        "config" if before.lines().count() > 1 || after.lines().count() > 1 => {
            "The configs of the recordings differ.".to_owned()
        }
        _ => format!(
            "Different {}: {} before, {} after.",
            shown(name),
            short(before),
            short(after)
        ),
    }
}

/// Returns what else is known of a change.
fn more_of(change: &Change) -> String {
    let mostly = match change.mostly.as_str() {
        "" => String::new(),
        mostly => format!(", mostly {}", shown(mostly)),
    };
    match change.via.as_str() {
        "" => mostly,
        via => format!("{mostly} ({})", shown(via)),
    }
}

fn time(ns: f64) -> String {
    duration(ns.max(0.0).round() as u64)
}

/// Formats a value of a change.
fn amount(change: &Change, value: f64) -> String {
    let whole = value.abs().round() as u64;
    match change.feature.kind.unit() {
        Unit::Time => duration(whole),
        Unit::Count => grouped(whole),
        Unit::Bytes => human_bytes(whole),
        Unit::Value => format!("{value:.3}"),
    }
}

fn difference(change: &Change) -> String {
    let difference = change.difference();
    let sign = if difference < 0.0 { "-" } else { "+" };
    format!("{sign}{}", amount(change, difference.abs()))
}

fn relative(change: &Change) -> String {
    if change.before <= 0.0 {
        return "new".to_owned();
    }
    if change.after <= 0.0 {
        return "gone".to_owned();
    }
    let percent = change.difference() * 100.0 / change.before;
    match percent.abs() {
        1000.0.. => format!("×{:.0}", change.after / change.before),
        _ => format!("{percent:+.0} %"),
    }
}

/// Returns a text without the characters that mean something in Markdown.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in shown(text).chars() {
        if matches!(
            c,
            '|' | '\\' | '`' | '*' | '_' | '<' | '>' | '[' | ']' | '#'
        ) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
