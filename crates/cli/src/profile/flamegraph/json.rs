//! The functions with the most samples and the tree of callstacks, for programs.
//! `docs/schema/flamegraph.json` describes them.

use anyhow::Result;
use ferretto_text::terminal::shown;
use ferretto_trace::profile::{CallTree, LabelKind, NodeId, hottest, sites};

use super::{FlamegraphArgs, Samples, tree, unit};
use crate::json::{self, Members};
use crate::profile::KeptSamples;
use crate::read::Extent;

/// The children of a node that are listed.
const MAX_CHILDREN: usize = 20;
/// The nodes of a tree that are listed.
const MAX_NODES: usize = 2_000;
/// The levels of a tree that are listed. Readers of JSON have limits, too.
const MAX_DEPTH: usize = 40;

/// Reads the samples of a trace, and returns the answer as one line.
pub(crate) fn answer(args: &FlamegraphArgs) -> Result<(String, Extent)> {
    let samples = Samples::read(&args.file, &args.selection)?;
    Ok((text(&samples, args), samples.extent))
}

/// Returns the answer for samples of a trace that were read before, and whose first event is at
/// `zero`.
pub(crate) fn answer_of(kept: &KeptSamples, zero: u64, args: &FlamegraphArgs) -> Result<String> {
    let samples = Samples::of_kept(kept, zero, &args.selection)?;
    Ok(text(&samples, args))
}

fn text(samples: &Samples, args: &FlamegraphArgs) -> String {
    let ranked = match samples.heap {
        Some(_) => sites(&samples.profile, &samples.counts, samples.value()),
        None => hottest(&samples.profile, &samples.counts, samples.value()),
    };
    let tree = tree(samples, args);
    json::answer(|all| {
        all.add("file", shown(&args.file.display().to_string()).as_ref());
        let unit = unit(samples);
        all.add("unit", unit.name());
        all.add("event", samples.event().name.as_str());
        all.add("off_cpu", samples.is_off_cpu());
        all.add("heap", samples.heap.is_some());
        all.add("total", tree.node(CallTree::ROOT).total);
        let value = samples.value();
        all.objects("functions", ranked.iter().take(args.top), |it, function| {
            it.add("name", &function.name);
            it.add("module", &function.module);
            it.add("self", function.own.value(value));
            it.add("total", function.total.value(value));
        });
        all.add("more_functions", ranked.len().saturating_sub(args.top));
        let mut left = MAX_NODES;
        all.name("tree").object(|it| {
            let depth = args.depth.min(MAX_DEPTH);
            node(it, &tree, CallTree::ROOT, depth, &mut left);
        });
    })
}

fn node(it: &mut Members<'_>, tree: &CallTree, id: NodeId, depth: usize, left: &mut usize) {
    let of = tree.node(id);
    let label = of.label.map(|label| tree.label(label));
    it.add("name", label.map(|label| &*label.name));
    it.add("module", label.map(|label| &*label.module));
    let kind = label.map_or("root", |label| match label.kind {
        LabelKind::Task => "task",
        LabelKind::User => "user",
        LabelKind::Inlined => "inlined",
        LabelKind::Kernel => "kernel",
        LabelKind::Jit => "jit",
        LabelKind::Unknown => "unknown",
        LabelKind::Truncated => "truncated",
    });
    it.add("kind", kind);
    it.add("self", of.own);
    it.add("total", of.total);
    let mut children = of.children.clone();
    children.sort_by_key(|child| (std::cmp::Reverse(tree.node(*child).total), *child));
    let most = if depth == 0 {
        0
    } else {
        MAX_CHILDREN.min(*left)
    };
    let listed = &children[..children.len().min(most)];
    *left -= listed.len();
    it.objects("children", listed, |it, child| {
        node(it, tree, *child, depth - 1, left);
    });
    it.add("more_children", children.len() - listed.len());
}
