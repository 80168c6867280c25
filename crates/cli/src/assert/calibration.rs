//! Calibration: the bounds that recordings of the same keep.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use ferretto_diff::rules::{self, Measure, Rules};
use ferretto_diff::{Recording, TABLES};
use ferretto_text::terminal::shown;

use super::{AssertArgs, known_functions, value};
use crate::json;
use crate::output;
use crate::read::{self, Extent};

/// The probability that a calibrated rule fails by chance, for all rules together.
const CHANCE: f64 = 0.002;

/// A recording of a calibration.
#[derive(Debug)]
struct Calibrating {
    file: String,
    /// The reason for which it counts for no bound.
    left_out: Option<String>,
}

/// Writes rules with bounds that the recordings keep.
pub(super) fn calibrate(
    mut rules: Rules,
    files: &[PathBuf],
    path: &Path,
    args: &AssertArgs,
) -> Result<u8> {
    let mut values: Vec<Vec<f64>> = vec![Vec::new(); rules.rules.len()];
    let known_before = rules.known_functions.clone();
    let (mut functions, mut recordings) = (Vec::new(), Vec::new());
    let mut others: Vec<f64> = Vec::new();
    for path in files {
        let (name, trace, extent) = read::tables(path, TABLES)?;
        let recording = Recording::new(&trace, None);
        let left_out = if recording.has_losses() {
            Some("it lost data".to_owned())
        } else if extent != Extent::Whole {
            Some("it is not complete".to_owned())
        } else {
            None
        };
        let counts = left_out.is_none();
        recordings.push(Calibrating {
            file: name.clone(),
            left_out,
        });
        if !counts {
            continue;
        }
        known_functions(&recording, &mut rules.known_functions);
        functions.push(rules::functions(&recording));
        others.extend(recording.behind_others());
        let own = rules::value(&Measure::OwnDuration, &trace, &recording, &BTreeSet::new());
        if values.iter().all(Vec::is_empty) && own.is_ok() {
            rules.leave_out_others();
        }
        for (rule, values) in rules.rules.iter().zip(&mut values) {
            let value = match rule.measure {
                Measure::NewFunctions => Ok(rules::samples(&recording)),
                _ => value(
                    &rule.measure,
                    path,
                    &trace,
                    &recording,
                    &rules.known_functions,
                ),
            };
            values.push(value.map_err(|reason| anyhow!("{name}: {}: {reason}", rule.title()))?);
        }
    }
    for recording in &recordings {
        if let Some(reason) = &recording.left_out {
            let file = shown(&recording.file);
            eprintln!("ferretto: {file}: {reason}, and so it counts for no bound");
        }
    }
    if recordings.iter().filter(|it| it.left_out.is_none()).count() < 2 {
        bail!("bounds need at least two recordings of the same that lost no data, better ten");
    }
    rules.behind_others = others.into_iter().reduce(f64::max);
    let chance = CHANCE / rules.rules.len() as f64;
    for (rule, values) in rules.rules.iter_mut().zip(&values) {
        match rule.measure {
            Measure::NewFunctions => {
                let held_out = rules::held_out(&functions, &known_before);
                rule.calibrate_new_functions(values, &held_out, chance);
                rule.remark_on(&held_out);
            }
            _ => {
                rule.calibrate(values, chance);
                rule.remark_on(values);
            }
        }
        if let Some(remark) = &rule.remark {
            eprintln!("ferretto: {}: {remark}", shown(&rule.title()));
        }
    }
    let source = &args.rules;
    let inputs: Vec<&Path> = files.iter().chain([source]).map(PathBuf::as_path).collect();
    // The rules may replace themselves.
    let inputs = if path == source {
        &inputs[..files.len()]
    } else {
        &inputs
    };
    let text = rules.text();
    output::write(path, inputs, |file| Ok(file.write_all(text.as_bytes())?))
        .with_context(|| format!("cannot write {}", path.display()))?;
    if args.json {
        output::print(report(&rules, &recordings))?;
    }
    Ok(0)
}

/// Returns calibrated rules as one line, for programs: the definition `calibration` of
/// `docs/schema/assert.json`.
fn report(rules: &Rules, recordings: &[Calibrating]) -> String {
    json::answer(|all| {
        all.objects("rules", &rules.rules, |it, rule| {
            it.add("rule", rule.title());
            it.add("min", rule.min);
            it.add("max", rule.max);
            it.add("unit", rule.measure.unit());
            it.add("remark", rule.remark.as_deref());
        });
        all.add("behind_others", rules.behind_others);
        all.objects("recordings", recordings, |it, recording| {
            it.add("file", &recording.file);
            it.add("left_out", recording.left_out.as_deref());
        });
    })
}
