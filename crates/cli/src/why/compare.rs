//! The slices of a name: the longest ones, and what makes them longer than the others.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use ferretto_text::amount::counted;
use ferretto_text::terminal::shown;
use ferretto_why::{Shares, Why};

use super::print::{percent, time};
use super::select::{Instance, instances};
use super::{WhyArgs, phrases};
use crate::json;

/// The number of slices around the median that are explained at most.
const MAX_TYPICAL: usize = 200;
/// The number of slices of the longest 1 % that are explained at most.
const MAX_SLOW: usize = 1000;
/// The number of causes that are shown.
const MAX_CAUSES: usize = 12;

/// The mean time of a cause in typical and in slow slices, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Means {
    typical: i64,
    slow: i64,
}

/// The slices of a name, compared.
#[derive(Debug)]
pub(super) struct Comparison {
    name: String,
    count: usize,
    median: i64,
    p99: i64,
    worst: Vec<(Instance, Shares)>,
    /// The numbers of slices that are compared.
    typical: usize,
    slow: usize,
    /// The causes, those that explain the most of the difference first.
    causes: Vec<(String, Means)>,
}

/// Returns at most this many instances, evenly distributed.
fn evenly(all: &[Instance], most: usize) -> Vec<Instance> {
    let step = all.len().div_ceil(most).max(1);
    all.iter().step_by(step).copied().collect()
}

impl Comparison {
    pub(super) fn new(why: &Why<'_>, name: &str, worst: usize, args: &WhyArgs) -> Result<Self> {
        let all = instances(why, name, args)?;
        let explain =
            |instance: &Instance| Shares::new([&why.explain(instance.thread, instance.interval())]);
        // The longest come first.
        let count = all.len();
        let longest = &all[..count.div_ceil(100)];
        let slow = evenly(longest, MAX_SLOW);
        let around = (count / 10).clamp(1, MAX_TYPICAL);
        let first = (count / 2).saturating_sub(around / 2).min(count - around);
        let typical = &all[first..first + around];
        let mut sums: BTreeMap<String, Means> = BTreeMap::new();
        for (instances, is_slow) in [(typical, false), (&slow, true)] {
            for instance in instances {
                for share in explain(instance).causes {
                    let sum = sums
                        .entry(shown(&why.phrase_of_kind(share.cause)).into_owned())
                        .or_default();
                    if is_slow {
                        sum.slow += share.ns
                    } else {
                        sum.typical += share.ns
                    }
                }
            }
        }
        let mean = |sum: Means| Means {
            typical: sum.typical / typical.len() as i64,
            slow: sum.slow / slow.len() as i64,
        };
        let mut causes: Vec<(String, Means)> = sums
            .into_iter()
            .map(|(cause, sum)| (cause, mean(sum)))
            .collect();
        causes.sort_by_key(|(_, means)| means.typical - means.slow);
        Ok(Self {
            name: name.to_owned(),
            count,
            median: all[count / 2].dur(),
            p99: longest[longest.len() - 1].dur(),
            worst: all
                .iter()
                .take(worst)
                .map(|it| (*it, explain(it)))
                .collect(),
            typical: typical.len(),
            slow: slow.len(),
            causes,
        })
    }

    /// Returns the comparison for a person.
    pub(super) fn text(&self, why: &Why<'_>) -> String {
        let mut text = format!(
            "{}: {}, median {}, 99th percentile {}\n",
            shown(&self.name),
            counted(self.count as u64, "slice"),
            time(self.median),
            time(self.p99)
        );
        if self.count > 1 {
            let _ = writeln!(
                text,
                "\nThe longest {} compared with {} around the median (means)",
                self.slow, self.typical
            );
            let _ = writeln!(
                text,
                "{:>10}  {:>10}  {:>10}",
                "median", "longest", "difference"
            );
            for (cause, means) in self.causes.iter().take(MAX_CAUSES) {
                let difference = means.slow - means.typical;
                let sign = if difference < 0 { "-" } else { "+" };
                let _ = writeln!(
                    text,
                    "{:>10}  {:>10}  {:>10}  {cause}",
                    time(means.typical),
                    time(means.slow),
                    format!("{sign}{}", time(difference.abs())),
                );
            }
        }
        let zero = why.trace().tables().trace_bounds.start_ts().get(0);
        let _ = writeln!(text, "\nThe longest");
        for (instance, shares) in &self.worst {
            let _ = writeln!(
                text,
                "{:>10}  at {}, slice {}, {}",
                time(instance.dur()),
                time((instance.start - zero).max(0)),
                instance.slice,
                shown(&why.thread_label(instance.thread))
            );
            for share in shares.causes.iter().take(2) {
                let share_of = percent(share.ns, shares.ns);
                let cause = phrases::of_cause(why, share.cause);
                let _ = writeln!(text, "            {share_of:>7}  {cause}");
            }
        }
        text
    }

    /// Returns the comparison for programs.
    pub(super) fn json(&self, why: &Why<'_>) -> String {
        json::answer(|all| {
            all.add("name", &self.name);
            all.add("count", self.count);
            all.add("median_ns", self.median);
            all.add("p99_ns", self.p99);
            all.add("typical_count", self.typical);
            all.add("slow_count", self.slow);
            super::json::missing(all, why);
            all.objects("causes", &self.causes, |it, (cause, means)| {
                it.add("cause", cause);
                it.add("typical_ns", means.typical);
                it.add("slow_ns", means.slow);
            });
            all.objects("worst", &self.worst, |it, (instance, shares)| {
                it.add("slice", instance.slice);
                it.add("ts_ns", instance.start);
                it.add("dur_ns", instance.dur());
                it.name("thread")
                    .object(|it| super::json::thread(it, why, instance.thread));
                it.objects("causes", &shares.causes, |it, share| {
                    super::json::cause(it, why, share);
                });
            });
        })
    }
}
