//! `ferretto flamegraph`, `ferretto folded` and `ferretto pprof`: the callstack samples of a trace.

mod args;
mod flamegraph;
mod folded;
mod pprof;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use ferretto_trace::Limits;
use ferretto_trace::profile::{Profile, StackCounts, Value, read_profile_within};

pub(crate) use self::args::{FlamegraphArgs, FoldedArgs, PprofArgs};
pub(crate) use self::flamegraph::run as flamegraph;
pub(crate) use self::folded::run as folded;
pub(crate) use self::pprof::run as pprof;

use self::args::SelectionArgs;
use crate::read::{self, Extent};

/// The selected samples of a trace.
struct Samples {
    profile: Profile,
    counts: StackCounts,
    /// The extent to which the trace was read.
    extent: Extent,
}

impl Samples {
    /// Reads a trace; `-` is standard input. That there are no samples is an error.
    fn read(file: &Path, selection: &SelectionArgs) -> Result<Self> {
        Self::read_within(file, selection, selection.memory.limits())
    }

    fn read_within(file: &Path, selection: &SelectionArgs, limits: Limits) -> Result<Self> {
        let (name, input) = read::open(file)?;
        let (profile, counts, damage) = read_profile_within(input, selection.selection(), limits)
            .with_context(|| format!("cannot read {name}"))?;
        let extent = Extent::tell(&name, &damage).and_left_out(&name, profile.left_out());
        let samples = Self {
            profile,
            counts,
            extent,
        };
        if samples.counts.iter(&samples.profile).next().is_none() {
            bail!("{}", samples.why_none(&name));
        }
        if samples.counts.left_out > 0 {
            let left_out = samples.counts.left_out;
            eprintln!("ferretto: {left_out} samples are left out; select fewer, as with --from");
        }
        Ok(samples)
    }

    fn why_none(&self, name: &str) -> String {
        let mut has_samples = false;
        let mut skipped = 0;
        for (_, session) in self.profile.sessions() {
            has_samples |= session.samples > 0;
            skipped += session.skipped.values().sum::<u64>();
        }
        match (has_samples, skipped) {
            (false, 0) if self.extent == Extent::Partly => {
                format!("there are no callstack samples in what could be read of {name}")
            }
            (true, _) => format!("no callstack sample of {name} is selected"),
            (false, 0) => {
                format!(
                    "{name} has no callstack samples; ferretto record --perf records some of programs while they run, \
                     --off-cpu while they wait"
                )
            }
            (false, skipped) => format!(
                "all {skipped} samples of {name} are without callstack; ferretto summary tells why"
            ),
        }
    }

    /// Time off the CPU counts by its length, everything else by the sample.
    fn value(&self) -> Value {
        match self.counts.is_off_cpu(&self.profile) {
            true => Value::Weight,
            false => Value::Samples,
        }
    }
}

/// Returns the path of the output: the one asked for, or beside the trace, with another ending.
fn output(wanted: Option<&Path>, trace: &Path, ending: &str) -> PathBuf {
    match wanted {
        Some(path) => path.to_path_buf(),
        None if trace.as_os_str() == "-" => PathBuf::from(format!("trace.{ending}")),
        None => trace.with_extension(ending),
    }
}
