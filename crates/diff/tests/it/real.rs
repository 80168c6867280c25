//! Pairs of real recordings. Opt-in, as they take minutes: `FERRETTO_DIFF_SAME` has files of the
//! same command, separated by spaces, and `FERRETTO_DIFF_OTHER` those of a changed one.

use std::collections::BTreeSet;

use ferretto_diff::rules::{Measure, Rules, Verdict, value};
use ferretto_diff::{Comparison, Limits, Recording, TABLES};
use ferretto_tables::{Continue, Options, Trace};

/// The most pairs of the same in which a change is found, in percent.
const MOST_SAME: usize = 1;
/// The least pairs with a change in which one is found, in percent.
const LEAST_CHANGED: usize = 80;

/// Reads the files that a variable names.
fn each<T>(variable: &str, of: impl Fn(&str, &Trace) -> T) -> Option<Vec<T>> {
    let files = std::env::var(variable).ok()?;
    let read = |file: &str| {
        let options = Options {
            tables: TABLES,
            ..Options::default()
        };
        let trace = Trace::open(file, &options, |_| Continue::Yes).expect(file);
        of(file, &trace)
    };
    Some(files.split_ascii_whitespace().map(read).collect())
}

fn recordings(variable: &str) -> Option<Vec<(String, Recording)>> {
    each(variable, |file, trace| {
        (file.to_owned(), Recording::new(trace, None))
    })
}

fn compare(before: &(String, Recording), after: &(String, Recording)) -> Comparison {
    let both = [&before.1, &after.1].map(std::slice::from_ref);
    let comparison = Comparison::new(both[0], both[1], &Limits::default());
    for change in comparison.changes.iter().chain(&comparison.effects) {
        let (before, after) = (&before.0, &after.0);
        println!(
            "{before} {after}: {} {:.0} {:.0} p {:.1e}",
            change.feature.text(),
            change.before,
            change.after,
            change.p
        );
    }
    comparison
}

#[test]
fn pairs_of_recordings_are_judged() {
    let Some(same) = recordings("FERRETTO_DIFF_SAME") else {
        println!("skipped: FERRETTO_DIFF_SAME is not set");
        return;
    };
    let (mut pairs, mut changed, mut possible) = (0, 0, 0);
    for (at, before) in same.iter().enumerate() {
        for after in &same[at + 1..] {
            let comparison = compare(before, after);
            pairs += 1;
            changed += usize::from(!comparison.is_empty());
            possible += usize::from(!comparison.possible.is_empty());
        }
    }
    println!("{changed} of {pairs} pairs of the same changed, {possible} may have");
    assert!(changed * 100 <= pairs * MOST_SAME);
    let Some(other) = recordings("FERRETTO_DIFF_OTHER") else {
        return;
    };
    let (mut pairs, mut found) = (0, 0);
    for before in &same {
        for after in &other {
            pairs += 1;
            found += usize::from(!compare(before, after).is_empty());
        }
    }
    println!("{found} of {pairs} changed pairs changed");
    assert!(found * 100 >= pairs * LEAST_CHANGED);
}

/// The number of recordings that rules are calibrated with.
const CALIBRATED: usize = 10;
/// The probability with which a calibrated rule is broken by chance.
const CHANCE: f64 = 0.0007;

/// The rules. `FERRETTO_DIFF_FUNCTION` names the function that changed.
const RULES: &str = "[[rule]]\nmeasure = \"own-duration\"\n[[rule]]\nmeasure = \"cpu\"\n\
                     [[rule]]\nfunction = \"main\"\n\
                     [[rule]]\nfunction = \"main\"\nmeasure = \"time\"\n";

#[test]
fn calibrated_rules_hold_for_recordings_of_the_same() {
    let function = std::env::var("FERRETTO_DIFF_FUNCTION").unwrap_or("main".to_owned());
    let mut rules = Rules::parse(&RULES.replace("main", &function)).expect("rules");
    let measures: Vec<Measure> = rules
        .rules
        .iter()
        .map(|rule| rule.measure.clone())
        .collect();
    let values = |_: &str, trace: &Trace| -> Vec<f64> {
        let recording = Recording::new(trace, None);
        let value = |measure| value(measure, trace, &recording, &BTreeSet::new());
        measures
            .iter()
            .map(|it| value(it).expect("a value"))
            .collect()
    };
    let Some(same) = each("FERRETTO_DIFF_SAME", values) else {
        println!("skipped: FERRETTO_DIFF_SAME is not set");
        return;
    };
    let other = each("FERRETTO_DIFF_OTHER", values).unwrap_or_default();
    let (calibrated, same) = same.split_at(CALIBRATED.min(same.len() / 2));
    for (at, rule) in rules.rules.iter_mut().enumerate() {
        let calibrated: Vec<f64> = calibrated.iter().map(|values| values[at]).collect();
        rule.calibrate(&calibrated, CHANCE);
    }
    let is_broken = |values: &&Vec<f64>| {
        let mut judged = rules.rules.iter().zip(values.iter());
        judged.any(|(rule, value)| matches!(rule.judge(Ok(*value)), Verdict::Broken(..)))
    };
    let broken = same.iter().filter(is_broken).count();
    let found = other.iter().filter(is_broken).count();
    println!(
        "{broken} of {} of the same, {found} of {} changed",
        same.len(),
        other.len()
    );
    assert!(broken * 100 <= same.len() * MOST_SAME);
    assert!(found * 100 >= other.len() * LEAST_CHANGED);
}
