//! `ferretto flamegraph FILE`.

mod changes;
pub(super) mod json;
mod layout;
mod name;
mod picture;
mod svg;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use ferretto_text::amount::{counted, duration, human_bytes};
use ferretto_text::terminal::shown;
use ferretto_trace::profile::{
    CallTree, Count, HeapView, Interval, StackCounts, TreeOptions, Value,
};

pub(crate) use self::changes::{Side, write_changes};
use self::picture::Picture;
use self::svg::{Style, Texts, Unit, svg};
use super::{FlamegraphArgs, Samples, output as output_of};
use crate::output::{self, write};
use crate::print::{sample_amount, sampled_by, unit_noun};
use crate::read::Extent;

/// The initial limit of boxes of an image.
const MAX_BOXES: usize = 20_000;
/// The size of an image above which boxes are left out, so that browsers open it quickly.
const MAX_BYTES: usize = 1_000_000;

pub(crate) fn run(args: &FlamegraphArgs) -> Result<Extent> {
    if args.json {
        let (text, extent) = json::answer(args)?;
        output::print(text)?;
        return Ok(extent);
    }
    let limits = match args.before {
        Some(_) => args.selection.limits.limits().half(),
        None => args.selection.limits.limits(),
    };
    let mut samples = Samples::read_within(&args.file, &args.selection, limits)?;
    let baseline = match &args.before {
        Some(before) => Some(Samples::read_within(before, &args.selection, limits)?),
        None => None,
    };
    if let Some((first, second)) = args.diff {
        let dumps = samples.profile.max_dumps(&samples.selection);
        if first.max(second) > dumps {
            bail!(
                "{} has no heap dump {}: it has {dumps}; record --heap-dumps sets the time between dumps",
                shown(&args.file.display().to_string()),
                first.max(second)
            );
        }
    }
    let first = args.diff.map(|(first, second)| {
        samples.counts = samples.at_dump(second);
        samples.at_dump(first)
    });
    let whole = baseline.as_ref().map_or(Extent::Whole, |it| it.extent);
    let extent = samples.extent.and(whole);
    let tree = tree(&samples, args);
    let baseline_tree = match &first {
        Some(counts) => Some(tree_of(&samples, counts, args)),
        None => baseline.as_ref().map(|samples| self::tree(samples, args)),
    };
    let texts = texts(args, &samples, baseline.as_ref());
    let style = Style {
        icicle: args.icicle,
        unit: unit(&samples),
    };
    let path = output_of(args.output.as_deref(), &args.file, "svg");
    let image = of_kind(image(&tree, baseline_tree.as_ref(), &texts, &style), &path);
    let inputs: Vec<&Path> = [Some(&args.file), args.before.as_ref()]
        .into_iter()
        .flatten()
        .map(PathBuf::as_path)
        .collect();
    write(&path, &inputs, |out| {
        out.write_all(image.as_bytes())
            .context("cannot write the flamegraph")
    })?;
    if path.as_os_str() != "-" {
        eprintln!("{}: open it in a browser", path.display());
    }
    Ok(extent)
}

/// Draws a tree, compared with a baseline if there is one.
fn image(tree: &CallTree, baseline: Option<&CallTree>, texts: &Texts, style: &Style) -> String {
    let mut limit = MAX_BOXES;
    loop {
        let image = svg(&Picture::new(tree, baseline, limit), texts, style);
        if image.len() <= MAX_BYTES || limit < 2 {
            return image;
        }
        limit = limit * 2 / 3;
    }
}

/// Returns an image as a file of the kind that its name asks for: itself, or a page that shows it.
fn of_kind(image: String, path: &Path) -> String {
    let is_page = path
        .extension()
        .is_some_and(|it| it == "html" || it == "htm");
    if !is_page {
        return image;
    }
    let start = image.find("<svg").unwrap_or(0);
    let title = image
        .split_once("<title>")
        .and_then(|it| it.1.split_once("</title>"));
    let title = title.map_or("", |it| it.0);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{title}</title>\
         </head>\n<body style=\"margin:0\">\n{}</body>\n</html>\n",
        &image[start..]
    )
}

/// Returns the unit of the values.
fn unit(samples: &Samples) -> Unit {
    match samples.value() {
        _ if samples.heap.is_some() => Unit::Bytes,
        Value::Weight if samples.is_off_cpu() => Unit::Nanoseconds,
        Value::Weight => match unit_noun(&samples.event()) {
            "ns" => Unit::Nanoseconds,
            "bytes" => Unit::Bytes,
            "samples" => Unit::Samples,
            noun => Unit::Other(noun.to_owned()),
        },
        Value::Samples => Unit::Samples,
    }
}

fn tree(samples: &Samples, args: &FlamegraphArgs) -> CallTree {
    tree_of(samples, &samples.counts, args)
}

fn tree_of(samples: &Samples, counts: &StackCounts, args: &FlamegraphArgs) -> CallTree {
    let options = TreeOptions {
        by: args.by.into(),
        value: samples.value(),
        inverted: args.inverted,
    };
    CallTree::new(&samples.profile, counts, &options)
}

fn texts(args: &FlamegraphArgs, samples: &Samples, baseline: Option<&Samples>) -> Texts {
    let off_cpu = samples.is_off_cpu();
    let event = samples.event();
    // Times and cycles pass on the CPU; other events happen there.
    let is_time = matches!(unit_noun(&event), "ns" | "cycles" | "samples");
    let is_time = is_time || samples.value() == Value::Samples;
    let is_compared = baseline.is_some() || args.diff.is_some();
    let of_heap = samples.heap.map(|view| match (view, is_compared) {
        (HeapView::Leaked, false) => "Heap flamegraph: memory not freed",
        (HeapView::Allocated, false) => "Heap flamegraph: all allocations",
        (HeapView::Peak, false) => "Heap flamegraph: memory at its peak",
        (_, true) => "Heap flamegraph: changes",
    });
    let title = of_heap.map_or_else(
        || match (off_cpu, is_compared) {
            (false, _) if !is_time => format!("Flamegraph: {}", shown(&event.name)),
            (false, false) => "CPU flamegraph: time on the CPU".to_owned(),
            (false, true) => "CPU flamegraph: changes".to_owned(),
            (true, false) => "Off-CPU flamegraph: time spent waiting".to_owned(),
            (true, true) => "Off-CPU flamegraph: changes".to_owned(),
        },
        str::to_owned,
    );
    let of = |file: &Path, samples: &Samples| format!("{} ({})", file.display(), amount(samples));
    let now = of(&args.file, samples);
    let subtitle = match (&args.before, baseline) {
        (Some(file), Some(before)) => {
            format!("{now}, compared with the baseline {}", of(file, before))
        }
        _ => match args.diff {
            Some((first, second)) => format!("{now}: dump {second}, compared with dump {first}"),
            None => now,
        },
    };
    let what = if samples.heap.is_some() {
        "the bytes"
    } else if off_cpu {
        "the time waited"
    } else if samples.value() == Value::Weight && unit_noun(&event) != "samples" {
        "the amount"
    } else {
        "the samples"
    };
    let beside = match (args.icicle, args.inverted) {
        (false, false) => "Its callees are above it",
        (false, true) => "Its callers are above it",
        (true, false) => "Its callees are below it",
        (true, true) => "Its callers are below it",
    };
    Texts {
        title: args.title.clone().unwrap_or(title),
        subtitle,
        hint: format!(
            "The width of a function is its share of {what}. {beside}, the widest first. Click a box to enlarge it; \
             point at it for numbers."
        ),
    }
}

/// `5,243 samples, cpu-clock, 999 times a second`.
fn amount(samples: &Samples) -> String {
    let (profile, counts) = (&samples.profile, &samples.counts);
    let mut sessions: Vec<_> = counts.iter(profile).map(|(key, _)| key.session).collect();
    sessions.sort_unstable();
    let session = sessions.first().and_then(|id| profile.session(*id));
    let total = |value| -> u64 {
        counts
            .iter(profile)
            .map(|(_, count)| count.value(value))
            .sum()
    };
    if samples.heap.is_some() {
        return format!(
            "{} in {}",
            human_bytes(total(Value::Weight)),
            counted(total(Value::Samples), "sampled allocation")
        );
    }
    if samples.is_off_cpu() {
        return format!(
            "{} in {}",
            duration(total(Value::Weight)),
            counted(total(Value::Samples), "callstack")
        );
    }
    let event = samples.event();
    let Some(session) = session else {
        return counted(total(Value::Samples), "sample");
    };
    let total = Count {
        samples: total(Value::Samples),
        weight: total(Value::Weight),
    };
    let interval = if event == session.event {
        session.interval
    } else {
        Interval::Unknown
    };
    format!(
        "{} of {}",
        sample_amount(total, samples.value(), &event, session.is_added_up()),
        sampled_by(&event, interval)
    )
}
