//! The cost of a function by the addresses of its frames.

use rustc_hash::FxHashMap;

use super::cost::Cost;
use super::source::Sources;
use crate::profile::{Function, ProfileRequest, frames, functions};
use crate::view::View;

/// A function of a flamegraph.
#[derive(Debug, Clone, Copy)]
pub struct FunctionRequest<'a> {
    /// The samples to count.
    pub samples: ProfileRequest<'a>,
    /// The name of the function.
    pub function: &'a str,
    /// The path of its program or library in the trace.
    pub file: &'a str,
}

/// An address of a frame: `stack_profile_mapping.id`, and the address in the trace.
pub(super) type Address = (u32, u64);

/// The costs of a function by the addresses of its frames.
#[derive(Debug, Default)]
pub(super) struct Costs {
    /// The weight of all samples.
    pub(super) total: f64,
    pub(super) function: Cost,
    /// The costs of each address; true if it is where a call returns to.
    pub(super) addresses: FxHashMap<(Address, bool), Cost>,
    /// The source lines that the trace has.
    pub(super) lines: Sources,
}

impl View {
    /// Returns the costs of a function; `None` if there is no such profile.
    pub(super) fn costs(&self, request: &FunctionRequest<'_>) -> Option<Costs> {
        let mut weights: FxHashMap<Option<u32>, f64> = FxHashMap::default();
        self.weights(&request.samples, |callsite, weight| {
            *weights.entry(callsite).or_default() += weight;
        })?;
        let table = &self.trace().tables().stack_profile_frame;
        // The source line of each frame that is of the function.
        let mut known: FxHashMap<u32, Option<String>> = FxHashMap::default();
        let mut costs = Costs::default();
        let mut weights: Vec<_> = weights.into_iter().collect();
        weights.sort_unstable_by_key(|(callsite, _)| *callsite);
        for (callsite, weight) in weights {
            costs.total += weight;
            let Some(callsite) = callsite else { continue };
            let mut seen: Vec<(Address, bool)> = Vec::new();
            let mut lines: Vec<&String> = Vec::new();
            let frames = frames(self.trace(), callsite);
            for frame in &frames {
                known.entry(*frame).or_insert_with(|| {
                    let mut all = functions(self.trace(), *frame).into_iter();
                    let is_it =
                        |it: &Function| it.name == request.function && it.file == request.file;
                    all.find(is_it).map(|it| it.line)
                });
            }
            for (depth, frame) in frames.iter().enumerate() {
                let Some(Some(line)) = known.get(frame) else {
                    continue;
                };
                let is_innermost = depth == 0;
                let address = (
                    (
                        table.mapping().get(*frame),
                        table.rel_pc().get(*frame) as u64,
                    ),
                    !is_innermost,
                );
                // Recursive functions count once.
                if seen.is_empty() {
                    costs.function.add(weight, is_innermost);
                }
                if !seen.contains(&address) {
                    seen.push(address);
                    costs
                        .addresses
                        .entry(address)
                        .or_default()
                        .add(weight, is_innermost);
                }
                if let Some((file, number)) = line.rsplit_once(':')
                    && let Ok(number @ 1..) = number.parse()
                    && !lines.contains(&line)
                {
                    lines.push(line);
                    let mut cost = Cost::default();
                    cost.add(weight, is_innermost);
                    costs.lines.add(file, number, cost);
                }
            }
        }
        Some(costs)
    }
}
