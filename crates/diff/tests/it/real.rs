//! Pairs of real recordings. Opt-in, as they take minutes: `FERRETTO_DIFF_SAME` has files of the
//! same command, separated by spaces, and `FERRETTO_DIFF_OTHER` those of a changed one.

use ferretto_diff::{Comparison, Limits, Recording, TABLES};
use ferretto_tables::{Continue, Options, Trace};

/// The most pairs of the same in which a change is found, in percent.
const MOST_SAME: usize = 1;
/// The least pairs with a change in which one is found, in percent.
const LEAST_CHANGED: usize = 80;

/// Reads the files that a variable names.
fn recordings(variable: &str) -> Option<Vec<(String, Recording)>> {
    let files = std::env::var(variable).ok()?;
    let read = |file: &str| {
        let options = Options {
            tables: TABLES,
            ..Options::default()
        };
        let trace = Trace::open(file, &options, |_| Continue::Yes).expect(file);
        (file.to_owned(), Recording::new(&trace, None))
    };
    Some(files.split_ascii_whitespace().map(read).collect())
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
