//! `ferretto folded FILE`.

use anyhow::Result;
use ferretto_trace::profile::{FoldOptions, folded};

use super::{FoldedArgs, Samples};
use crate::output::write;
use crate::read::Extent;

pub(crate) fn run(args: &FoldedArgs) -> Result<Extent> {
    let samples = Samples::read(&args.file, &args.selection)?;
    let options = FoldOptions {
        by: args.by.into(),
        value: samples.value(),
        annotate: args.annotate,
    };
    write(&args.output, &[&args.file], |out| {
        for line in folded(&samples.profile, &samples.counts, &options) {
            writeln!(out, "{line}")?;
        }
        Ok(())
    })?;
    Ok(samples.extent)
}
