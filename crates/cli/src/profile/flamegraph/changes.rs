//! The flamegraph of the changes between two sets of recordings.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use ferretto_text::amount::counted;
use ferretto_trace::profile::{By, CallTree, TreeOptions};

use super::svg::{Style, Texts, Unit};
use super::{image, of_kind, unit};
use crate::moment::Range;
use crate::output::write;
use crate::profile::Samples;
use crate::profile::args::SelectionArgs;

/// A set of recordings, and the compared time of each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Side<'a> {
    pub(crate) files: &'a [PathBuf],
    pub(crate) range: Option<Range>,
}

impl Side<'_> {
    /// Reads the samples of all recordings as one tree, with their unit.
    fn tree(&self) -> Result<(CallTree, Unit)> {
        let selection = SelectionArgs::within(self.range);
        let mut sum: Option<(CallTree, Unit)> = None;
        for file in self.files {
            let limits = selection.limits.limits().half();
            let samples = Samples::read_within(file, &selection, limits)?;
            let options = TreeOptions {
                by: By::Program,
                value: samples.value(),
                inverted: false,
            };
            let unit = unit(&samples);
            match &mut sum {
                None => {
                    let tree = CallTree::new(&samples.profile, &samples.counts, &options);
                    sum = Some((tree, unit));
                }
                Some((_, known)) if *known != unit => {
                    bail!("the callstacks of {} are of other events", file.display());
                }
                Some((tree, _)) => tree.add(&samples.profile, &samples.counts, &options),
            }
        }
        sum.context("there are no recordings")
    }

    fn text(&self) -> String {
        match self.files {
            [file] => file.display().to_string(),
            files => counted(files.len() as u64, "recording"),
        }
    }
}

/// Draws the changes of the samples of running threads to a file.
pub(crate) fn write_changes(before: Side<'_>, after: Side<'_>, output: &Path) -> Result<()> {
    let (baseline, unit_before) = before.tree()?;
    let (tree, unit) = after.tree()?;
    if unit != unit_before {
        bail!("the callstacks of the recordings are of different events");
    }
    let texts = Texts {
        title: "CPU flamegraph: changes".to_owned(),
        subtitle: format!("{}, compared with {}", after.text(), before.text()),
        hint: "The width of a function is its share of the time after the change. Red has a \
               greater share than before, blue a smaller one. Its callees are above it. Click a \
               box to enlarge it; point at it for numbers."
            .to_owned(),
    };
    let style = Style {
        icicle: false,
        unit,
    };
    let image = of_kind(image(&tree, Some(&baseline), &texts, &style), output);
    let inputs = before.files.iter().chain(after.files);
    let inputs: Vec<&Path> = inputs.map(PathBuf::as_path).collect();
    write(output, &inputs, |out| {
        out.write_all(image.as_bytes())
            .context("cannot write the flamegraph")
    })
}
