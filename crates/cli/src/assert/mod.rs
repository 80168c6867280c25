//! `ferretto assert`: judges recordings by rules, for gates.

mod calibration;
mod report;

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use ferretto_diff::rules::{self, Measure, Rules, Verdict};
use ferretto_diff::{Recording, TABLES};
use ferretto_tables::Trace;
use ferretto_text::terminal::shown;

use crate::diff::expanded;
use crate::output;
use crate::read::{self, Extent};
use crate::{errors, query};

/// The largest file of rules.
const MAX_RULES: u64 = 1 << 20;
/// A rule is broken.
const BROKEN: u8 = 1;
/// A rule cannot be judged.
const UNKNOWN: u8 = 2;

/// Judge recordings by rules: budgets of durations, functions, calls, losses and queries
///
/// Exits with 0 if all rules hold for all recordings, with 1 if one is broken, and with 2 if
/// something cannot be judged. docs/diff.md describes the rules.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferretto assert rules.toml trace.pftrace
  ferretto assert --junit result.xml --markdown result.md rules.toml trace.pftrace
  ferretto assert --calibrate calibrated.toml rules.toml good-*.pftrace")]
pub(crate) struct AssertArgs {
    /// The file of rules
    #[arg(value_name = "RULES")]
    rules: PathBuf,
    /// The recordings; patterns with *, ? and [] are expanded
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Write the rules to this file, with bounds that recordings like these keep, and the functions
    /// of these as known
    #[arg(long, value_name = "FILE", conflicts_with_all = ["junit", "markdown"])]
    calibrate: Option<PathBuf>,
    /// Recordings whose functions are not new
    #[arg(long, value_name = "FILE", num_args = 1)]
    baseline: Vec<PathBuf>,
    /// Write the verdicts as JUnit's XML to this file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write the verdicts as Markdown to this file
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Print one JSON object with the verdicts, or the calibrated bounds, for programs
    #[arg(long)]
    json: bool,
}

/// The verdict of a rule about a recording.
#[derive(Debug)]
struct Judgement {
    rule: String,
    measure: Measure,
    file: String,
    verdict: Verdict,
}

pub(crate) fn run(args: &AssertArgs) -> ExitCode {
    match judge(args) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            errors::report("ferretto", &error);
            ExitCode::from(UNKNOWN)
        }
    }
}

fn judge(args: &AssertArgs) -> Result<u8> {
    let mut rules = rules_of(&args.rules)?;
    let has_queries = rules
        .rules
        .iter()
        .any(|rule| matches!(rule.measure, Measure::Sql(_)));
    if has_queries {
        query::check_installed().context("a rule has a query")?;
    }
    let files = expanded(&args.files)?;
    for path in expanded(&args.baseline)? {
        let (_, trace, _) = read::tables(&path, TABLES)?;
        known_functions(&Recording::new(&trace, None), &mut rules.known_functions);
    }
    if let Some(output) = &args.calibrate {
        return calibration::calibrate(rules, &files, output, args);
    }
    let mut judgements = Vec::new();
    let mut is_whole = true;
    for path in &files {
        let (name, trace, extent) = read::tables(path, TABLES)?;
        is_whole &= extent == Extent::Whole;
        let recording = Recording::new(&trace, None);
        for rule in &rules.rules {
            let value = value(
                &rule.measure,
                path,
                &trace,
                &recording,
                &rules.known_functions,
            );
            judgements.push(Judgement {
                rule: rule.title(),
                measure: rule.measure.clone(),
                file: name.clone(),
                verdict: rules.judge(rule, value, &recording),
            });
        }
    }
    let inputs: Vec<&Path> = files
        .iter()
        .chain([&args.rules])
        .map(PathBuf::as_path)
        .collect();
    let outputs = [
        (&args.junit, report::junit as fn(&[Judgement]) -> String),
        (&args.markdown, report::markdown),
    ];
    for (path, text) in outputs {
        if let Some(path) = path {
            let text = text(&judgements);
            output::write(path, &inputs, |file| Ok(file.write_all(text.as_bytes())?))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    let any = |is: fn(&Verdict) -> bool| judgements.iter().any(|it| is(&it.verdict));
    let (word, code) = if any(|verdict| matches!(verdict, Verdict::Broken(..))) {
        ("broken", BROKEN)
    } else if !is_whole || any(|verdict| matches!(verdict, Verdict::Unknown(_))) {
        ("unknown", UNKNOWN)
    } else {
        ("holds", 0)
    };
    output::print(if args.json {
        report::json(word, &judgements)
    } else {
        report::text(&judgements)
    })?;
    Ok(code)
}

/// Reads the rules of a file.
fn rules_of(path: &Path) -> Result<Rules> {
    let name = shown(&path.display().to_string()).into_owned();
    let file = fs::File::open(path).with_context(|| format!("cannot read {name}"))?;
    let mut bytes = Vec::new();
    file.take(MAX_RULES + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {name}"))?;
    let is_small = bytes.len() as u64 <= MAX_RULES;
    let Some(text) = String::from_utf8(bytes).ok().filter(|_| is_small) else {
        bail!(
            "{name} is not a file of rules, which is a text of at most 1 MiB; name it before the \
             recordings. docs/diff.md describes the rules; one is\n\
             [[rule]]\nmeasure = \"duration\"\nmax = \"2s\""
        );
    };
    Rules::parse(&text).map_err(|error| anyhow!("{name}: {error}"))
}

/// Adds the functions of a recording that are more than chance.
fn known_functions(recording: &Recording, known: &mut BTreeSet<String>) {
    known.extend(rules::known_in(&rules::functions(recording)).map(str::to_owned));
}

fn value(
    measure: &Measure,
    path: &Path,
    trace: &Trace,
    recording: &Recording,
    known: &BTreeSet<String>,
) -> Result<f64, String> {
    match measure {
        Measure::Sql(sql) => of_query(path, sql).map_err(|error| errors::message(&error)),
        measure => rules::value(measure, trace, recording, known),
    }
}

/// Returns the number that a query returns.
fn of_query(path: &Path, sql: &str) -> Result<f64> {
    let mut command = Command::new(query::program());
    let output = command
        .arg(path)
        .arg(sql)
        .args(["--format", "csv"])
        .output();
    let output = output.context("cannot run the query")?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("the query fails: {}", error.trim());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text
        .lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or_default();
    let number = last.trim().trim_matches('"').parse::<f64>().ok();
    number.context("the query does not return one number")
}
