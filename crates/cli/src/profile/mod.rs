//! `ferretto flamegraph`, `ferretto folded` and `ferretto pprof`: the callstack samples of a trace.

mod args;
mod flamegraph;
mod folded;
mod kept;
mod pprof;

use std::io::Seek as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use ferretto_trace::profile::{
    DumpChoice, Event, HeapView, Profile, Selection, StackCounts, Value, read_profile_within,
};
use ferretto_trace::{Bounds, Limits};

pub(crate) use self::args::{FlamegraphArgs, FoldedArgs, PprofArgs};
pub(crate) use self::flamegraph::json::{answer as flamegraph_answer, answer_of as flamegraph_of};
pub(crate) use self::flamegraph::{Side, run as flamegraph, write_changes};
pub(crate) use self::folded::run as folded;
pub(crate) use self::kept::KeptSamples;
pub(crate) use self::pprof::run as pprof;

use self::args::SelectionArgs;
use crate::read::{self, Extent, Input};
use ferretto_text::terminal::shown;

/// The maximum number of threads in an error message.
const MAX_LISTED: usize = 10;

/// The selected samples of a trace.
struct Samples {
    profile: Rc<Profile>,
    counts: StackCounts,
    selection: Selection,
    /// The completeness of the read trace.
    extent: Extent,
    /// Set if the samples are of the heap.
    heap: Option<HeapView>,
}

impl Samples {
    /// Reads a trace; `-` is standard input. Fails if it has no samples.
    fn read(file: &Path, selection: &SelectionArgs) -> Result<Self> {
        Self::read_within(file, selection, selection.limits.limits())
    }

    fn read_within(file: &Path, selection: &SelectionArgs, limits: Limits) -> Result<Self> {
        let (zero, input) = if selection.needs_zero() {
            // The trace is read twice, since its first event may be anywhere.
            let (name, mut trace, extent) =
                read::seekable_any(file, ferretto_foreign::is_imported, limits)?;
            let bounds = Bounds::read(&mut trace, limits);
            let bounds = bounds.with_context(|| format!("cannot read {name}"))?;
            trace.rewind()?;
            let packets = Box::new(trace);
            let input = Input {
                name,
                packets,
                extent,
            };
            (bounds.map_or(0, |bounds| bounds.start), input)
        } else {
            (0, read::open_any(file, limits)?)
        };
        let Input {
            name,
            packets,
            extent,
        } = input;
        let chosen = selection.selection(zero);
        let (profile, counts, damage) = read_profile_within(packets, chosen.clone(), limits)
            .with_context(|| format!("cannot read {name}"))?;
        let extent = Extent::report(&name, &damage)
            .and_left_out(&name, profile.left_out())
            .and(extent);
        Self::of(&name, Rc::new(profile), counts, (chosen, selection), extent)
    }

    /// Returns samples of a trace whose first event is at `zero`, which were read before.
    fn of_kept(kept: &KeptSamples, zero: u64, selection: &SelectionArgs) -> Result<Self> {
        let chosen = selection.selection(zero);
        let counts = kept.counts(chosen.clone());
        let profile = kept.profile.clone();
        Self::of(
            &kept.name,
            profile,
            counts,
            (chosen, selection),
            kept.extent,
        )
    }

    /// Returns counted samples. Fails if there are none.
    fn of(
        name: &str,
        profile: Rc<Profile>,
        counts: StackCounts,
        (chosen, selection): (Selection, &SelectionArgs),
        extent: Extent,
    ) -> Result<Self> {
        let heap = selection.heap.map(HeapView::from);
        let counts = match heap {
            Some(view) => profile.heap_counts(&chosen, view, DumpChoice::Last),
            None => counts,
        };
        let samples = Self {
            profile,
            counts,
            selection: chosen,
            extent,
            heap,
        };
        if samples.counts.iter(&samples.profile).next().is_none() {
            bail!("{}", samples.why_none(name, selection.event()));
        }
        samples.tell_events(name, selection.event());
        if samples.counts.left_out > 0 {
            let left_out = samples.counts.left_out;
            eprintln!(
                "ferretto: {left_out} samples are left out; select fewer samples, for example with --from"
            );
        }
        Ok(samples)
    }

    /// Names the events that are not counted, if none was chosen.
    fn tell_events(&self, name: &str, wanted: Option<&str>) {
        let events = self.counts.events(&self.profile);
        if let (None, [first, others @ ..]) = (wanted, &events[..])
            && !others.is_empty()
        {
            let these = match first.as_str() {
                "samples" => "numbers of samples".to_owned(),
                first => format!("the samples of {}", event_name(first)),
            };
            eprintln!(
                "ferretto: {}: these are {}; choose others with --event: {}",
                shown(name),
                shown(&these),
                shown(&others.join(", "))
            );
        }
    }

    /// Returns true if the samples are of waiting threads.
    fn is_off_cpu(&self) -> bool {
        self.heap.is_none() && self.counts.is_off_cpu(&self.profile)
    }

    /// Returns the counted event.
    fn event(&self) -> Event {
        self.counts
            .event(&self.profile)
            .cloned()
            .unwrap_or_default()
    }

    /// The heap at another dump.
    fn at_dump(&self, number: usize) -> StackCounts {
        let view = self.heap.unwrap_or_default();
        self.profile
            .heap_counts(&self.selection, view, DumpChoice::Number(number))
    }

    fn why_none(&self, name: &str, event: Option<&str>) -> String {
        let has_heap = !self.profile.heap_dumps().is_empty();
        match (self.heap, has_heap) {
            (Some(_), true) => {
                return format!(
                    "no heap of {name} is selected, or all memory was freed; --heap=allocated shows freed memory, too"
                );
            }
            (Some(_), false) => {
                return format!(
                    "{name} has no heap dumps; record them with ferretto record --heap"
                );
            }
            _ => {}
        }
        let events = self.counts.events(&self.profile);
        let is_unknown = self.counts.event(&self.profile).is_none();
        if let Some(event) = event.filter(|_| is_unknown && !events.is_empty()) {
            let events: Vec<_> = events.iter().map(|name| event_name(name)).collect();
            return format!(
                "{name} has no samples of the event {event}; it has those of {}",
                events.join(", ")
            );
        }
        let mut has_samples = false;
        let mut skipped = 0;
        for (_, session) in self.profile.sessions() {
            has_samples |= session.samples > 0;
            skipped += session.skipped.values().sum::<u64>();
        }
        match (has_samples, skipped) {
            (false, 0) if self.extent == Extent::Partly => {
                format!("there are no callstack samples in the readable part of {name}")
            }
            (false, 0) if has_heap => {
                format!("{name} has heap dumps but no callstack samples; show them with --heap")
            }
            (true, _) => self.why_none_selected(name),
            (false, 0) => {
                format!(
                    "{name} has no callstack samples; record them with ferretto record --perf, \
             or --off-cpu for waiting threads"
                )
            }
            (false, skipped) => format!(
                "all {skipped} samples of {name} lack a callstack; ferretto summary shows why"
            ),
        }
    }

    fn why_none_selected(&self, name: &str) -> String {
        let others = self.counts.other_threads(&self.profile);
        if others.is_empty() {
            return format!("no callstack sample of {name} is selected");
        }
        let shown_thread = |&(tid, name): &(i32, Option<&str>)| match name {
            Some(name) => format!("{} ({tid})", shown(name)),
            None => tid.to_string(),
        };
        let listed = others.iter().take(MAX_LISTED).map(shown_thread);
        let mut listed = listed.collect::<Vec<_>>().join(", ");
        if let more @ 1.. = others.len().saturating_sub(MAX_LISTED) {
            listed += &format!(" and {more} more");
        }
        format!("{name} has no callstack sample of such a thread; there are samples of {listed}")
    }

    /// The heap counts by its bytes, samples by their weights if each has its own.
    fn value(&self) -> Value {
        match self.heap {
            Some(_) => Value::Weight,
            None => self.counts.value(&self.profile),
        }
    }
}

/// Returns the name of an event to show.
fn event_name(name: &str) -> &str {
    match name {
        "" => "an event without a name",
        name => name,
    }
}

/// Returns the path of the output: the given one, or that of the trace with another extension.
fn output(wanted: Option<&Path>, trace: &Path, ending: &str) -> PathBuf {
    match wanted {
        Some(path) => path.to_path_buf(),
        None if trace.as_os_str() == "-" => PathBuf::from(format!("trace.{ending}")),
        None => trace.with_extension(ending),
    }
}
