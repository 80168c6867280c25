//! `ferretto flamegraph FILE`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use ferretto_trace::profile::{FoldOptions, Value, folded};
use inferno::flamegraph::color::MultiPalette;
use inferno::flamegraph::{self, Options, Palette};

use super::{FlamegraphArgs, Samples, output};
use crate::output::write;

pub(crate) fn run(args: &FlamegraphArgs) -> Result<()> {
    let samples = Samples::read(&args.file, &args.selection)?;
    let mut lines = fold(&samples, args);
    if let Some(before) = &args.before {
        let before = Samples::read(before, &args.selection)?;
        lines = compare(&fold(&before, args), &lines);
    }
    let path = output(args.output.as_deref(), &args.file, "svg");
    let mut options = options(args, &samples);
    let inputs: Vec<_> = [Some(&args.file), args.before.as_ref()]
        .into_iter()
        .flatten()
        .map(PathBuf::as_path)
        .collect();
    write(&path, &inputs, |out| {
        let lines = lines.iter().map(String::as_str);
        flamegraph::from_lines(&mut options, lines, out).context("cannot draw the flamegraph")
    })?;
    if path.as_os_str() != "-" {
        eprintln!("{}: open it in a browser", path.display());
    }
    Ok(())
}

fn fold(samples: &Samples, args: &FlamegraphArgs) -> Vec<String> {
    let options = FoldOptions {
        by: args.by.into(),
        value: samples.value(),
        annotate: true,
    };
    folded(&samples.profile, &samples.counts, &options)
}

fn options(args: &FlamegraphArgs, samples: &Samples) -> Options<'static> {
    let mut options = Options::default();
    let off_cpu = samples.value() == Value::Weight;
    let title = match (off_cpu, args.before.is_some()) {
        (false, false) => "CPU flamegraph",
        (false, true) => "CPU flamegraph: what has changed",
        (true, false) => "Off-CPU flamegraph: where threads waited",
        (true, true) => "Off-CPU flamegraph: what has changed",
    };
    options.title = args.title.clone().unwrap_or_else(|| title.to_owned());
    options.subtitle = Some(args.file.display().to_string());
    options.colors = Palette::Multi(MultiPalette::Java);
    options.deterministic = true;
    options.reverse_stack_order = args.inverted;
    if off_cpu {
        options.count_name = "µs".to_owned();
        options.factor = 0.001;
    }
    options
}

/// Lines with two numbers: before, as if there had been as much in all, and after.
fn compare(before: &[String], after: &[String]) -> Vec<String> {
    let mut both: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (stack, count) in before.iter().filter_map(|line| parse(line)) {
        both.entry(stack).or_default().0 += count;
    }
    for (stack, count) in after.iter().filter_map(|line| parse(line)) {
        both.entry(stack).or_default().1 += count;
    }
    let total = |which: fn(&(u64, u64)) -> u64| both.values().map(which).sum::<u64>();
    let scale = total(|counts| counts.1) as f64 / total(|counts| counts.0).max(1) as f64;
    both.iter()
        .map(|(stack, (before, after))| {
            let before = (*before as f64 * scale).round() as u64;
            format!("{stack} {before} {after}")
        })
        .collect()
}

fn parse(line: &str) -> Option<(&str, u64)> {
    let (stack, count) = line.rsplit_once(' ')?;
    Some((stack, count.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_is_of_shares() {
        let before = ["main;a 10".to_owned(), "main;b 10".to_owned()];
        let after = ["main;a 30".to_owned(), "main;c 10".to_owned()];
        let lines = compare(&before, &after);
        assert_eq!(lines, ["main;a 20 30", "main;b 20 0", "main;c 0 10"]);
    }
}
