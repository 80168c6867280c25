//! The computation of a flamegraph: callstacks are filtered, and frames with the same identity and
//! the same path are merged.

use std::collections::HashMap;

use regex::Regex;
use rusqlite::Result;
use rusqlite::types::Value;

use super::config::{Config, View};
use super::source::{NAME, Source};
use crate::objects::failure;

/// The path from a root to a row.
#[derive(Debug, Clone, Copy, Default)]
struct Path {
    /// The innermost frame that is shown: the row itself, or the caller that it became part of.
    frame: Option<usize>,
    /// The `SHOW_STACK` filters that match a frame.
    shown: u64,
    /// True if a `HIDE_STACK` filter matches a frame.
    is_hidden: bool,
}

/// The filters that match a frame.
#[derive(Debug, Clone, Copy, Default)]
struct Matches {
    shown: u64,
    hides_stack: bool,
    hides_frame: bool,
    starts_view: bool,
}

/// Merged frames. A parent has a smaller number than its children.
#[derive(Debug, Default)]
struct Merged {
    parents: Vec<Option<usize>>,
    /// The first row of each node.
    rows: Vec<usize>,
    by_path: HashMap<(Option<usize>, usize), usize>,
}

impl Merged {
    /// Returns the node of an identity below a parent.
    fn node(&mut self, parent: Option<usize>, identity: usize, row: usize) -> usize {
        *self.by_path.entry((parent, identity)).or_insert_with(|| {
            self.parents.push(parent);
            self.rows.push(row);
            self.rows.len() - 1
        })
    }

    /// Adds the values of each node to all nodes above it.
    fn sum_up<T: Number>(&self, sums: &mut [T]) -> Result<()> {
        for node in (0..self.parents.len()).rev() {
            if let Some(parent) = self.parents[node] {
                sums[parent] = add(sums[parent], sums[node])?;
            }
        }
        Ok(())
    }
}

/// A number that can be summed.
trait Number: Copy + Default + PartialOrd {
    fn plus(self, other: Self) -> Option<Self>;
}

impl Number for i64 {
    fn plus(self, other: Self) -> Option<Self> {
        self.checked_add(other)
    }
}

impl Number for f64 {
    fn plus(self, other: Self) -> Option<Self> {
        Some(self + other)
    }
}

fn add<T: Number>(a: T, b: T) -> Result<T> {
    match a.plus(b) {
        Some(sum) => Ok(sum),
        None => Err(failure("flamegraph: the sum of the values is too large")),
    }
}

/// Integers or reals of each node.
#[derive(Debug)]
pub(super) enum Numbers {
    Int(Vec<i64>),
    Real(Vec<f64>),
}

impl Numbers {
    pub(super) fn real(&self, node: usize) -> f64 {
        match self {
            Self::Int(values) => values[node] as f64,
            Self::Real(values) => values[node],
        }
    }

    pub(super) fn value(&self, node: usize) -> Value {
        match self {
            Self::Int(values) => Value::Integer(values[node]),
            Self::Real(values) => Value::Real(values[node]),
        }
    }
}

/// The sums of a column of values.
#[derive(Debug)]
pub(super) struct Sums {
    /// Without the frames below and above.
    pub(super) own: Numbers,
    pub(super) cumulative: Numbers,
}

/// The nodes of a flamegraph: those below the roots, followed by those above them.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) parents: Vec<Option<usize>>,
    /// The first row of each node.
    pub(super) rows: Vec<usize>,
    /// The number of nodes below the roots.
    pub(super) below: usize,
    /// The sums of the columns of values, in their order.
    pub(super) sums: Vec<Sums>,
    /// The rows that belong to each node, without those of other nodes.
    pub(super) members: Vec<Vec<usize>>,
}

/// The end of a path upwards: its start and its last caller.
type Ends = (usize, usize);

struct Builder<'a> {
    source: &'a Source,
    config: &'a Config,
    identities: Vec<usize>,
    matches: Vec<Matches>,
    paths: Vec<Path>,
    down: Merged,
    /// The node of each row.
    down_nodes: Vec<Option<usize>>,
    up: Merged,
    /// The frames with a path upwards.
    anchors: Vec<(usize, Ends)>,
    /// The nodes of the paths upwards, with the frames that belong to them.
    up_members: Vec<(usize, usize)>,
}

/// Returns the nodes of a flamegraph.
pub(super) fn build(source: &Source, config: &Config) -> Result<Tree> {
    let (identities, matches) = identify(source, config)?;
    let mut builder = Builder {
        source,
        config,
        identities,
        matches,
        paths: Vec::new(),
        down: Merged::default(),
        down_nodes: Vec::new(),
        up: Merged::default(),
        anchors: Vec::new(),
        up_members: Vec::new(),
    };
    builder.find_paths();
    builder.build_down();
    builder.build_up();
    let sums = config
        .values
        .iter()
        .map(|column| builder.sums_of(*column))
        .collect::<Result<Vec<_>>>()?;
    let members = builder.members();
    let below = builder.down.rows.len();
    let above = builder
        .up
        .parents
        .iter()
        .map(|parent| parent.map(|p| p + below));
    Ok(Tree {
        parents: builder.down.parents.iter().copied().chain(above).collect(),
        rows: [builder.down.rows.as_slice(), &builder.up.rows].concat(),
        below,
        sums,
        members,
    })
}

/// Returns the identity of each row's frame, and the filters that match each identity.
fn identify(source: &Source, config: &Config) -> Result<(Vec<usize>, Vec<Matches>)> {
    let columns: Vec<usize> = std::iter::once(NAME)
        .chain(config.grouping.iter().copied())
        .collect();
    let mut known: HashMap<Vec<Option<String>>, usize> = HashMap::new();
    let mut identities = Vec::with_capacity(source.len());
    let mut matches = Vec::new();
    for row in 0..source.len() {
        let values = columns.iter();
        let key: Vec<Option<String>> = values.map(|column| source.text(row, *column)).collect();
        let next = known.len();
        let identity = *known.entry(key).or_insert_with_key(|key| {
            let any = |regex: &Regex| key.iter().flatten().any(|text| regex.is_match(text));
            let shown = config.show_stack.iter().enumerate();
            matches.push(Matches {
                shown: shown
                    .filter(|(_, regex)| any(regex))
                    .fold(0, |bits, (index, _)| bits | 1 << index),
                hides_stack: config.hide_stack.iter().any(any),
                hides_frame: config.hide_frame.iter().any(any),
                starts_view: config.pattern().is_some_and(any),
            });
            next
        });
        identities.push(identity);
    }
    Ok((identities, matches))
}

impl Builder<'_> {
    fn matches(&self, row: usize) -> Matches {
        self.matches[self.identities[row]]
    }

    /// Returns true if the row is a frame of the flamegraph, not a part of its caller.
    fn is_frame(&self, row: usize) -> bool {
        self.paths[row].frame == Some(row)
    }

    /// Returns true if the callstack of a row is shown.
    fn is_shown(&self, row: usize) -> bool {
        let path = self.paths[row];
        let count = self.config.show_stack.len() as u32;
        let all = u64::MAX.checked_shr(u64::BITS - count).unwrap_or(0);
        path.frame.is_some() && !path.is_hidden && path.shown == all
    }

    /// Returns the frame that calls a frame.
    fn caller(&self, row: usize) -> Option<usize> {
        self.source.callers[row].and_then(|caller| self.paths[caller].frame)
    }

    fn find_paths(&mut self) {
        for row in 0..self.source.len() {
            let above =
                self.source.callers[row].map_or_else(Path::default, |caller| self.paths[caller]);
            let matches = self.matches(row);
            self.paths.push(if matches.hides_frame {
                above
            } else {
                Path {
                    frame: Some(row),
                    shown: above.shown | matches.shown,
                    is_hidden: above.is_hidden || matches.hides_stack,
                }
            });
        }
    }

    fn build_down(&mut self) {
        for row in 0..self.source.len() {
            let above = self.source.callers[row].and_then(|caller| self.down_nodes[caller]);
            let node = if !self.config.goes_down() {
                None
            } else if !self.is_frame(row) {
                above
            } else {
                let starts = match self.config.view {
                    View::TopDown => self.caller(row).is_none(),
                    _ => self.matches(row).starts_view,
                };
                let parent = above.filter(|_| !starts);
                let identity = self.identities[row];
                (starts || parent.is_some()).then(|| self.down.node(parent, identity, row))
            };
            self.down_nodes.push(node);
        }
    }

    /// Adds the paths from functions to their callers.
    fn build_up(&mut self) {
        match self.config.view {
            View::Pivot(_) => {
                for row in 0..self.source.len() {
                    if self.is_frame(row) && self.matches(row).starts_view {
                        let has_members = self.is_shown(row);
                        self.add_path(row, has_members);
                    }
                }
            }
            View::BottomUp => {
                let mut has_value = vec![false; self.source.len()];
                for column in &self.config.values {
                    for row in 0..self.source.len() {
                        let is_zero = self.source.real(row, *column).unwrap_or(0.0) == 0.0;
                        if let (false, true, Some(frame)) =
                            (is_zero, self.is_shown(row), self.paths[row].frame)
                        {
                            has_value[frame] = true;
                        }
                    }
                }
                for row in (0..self.source.len()).filter(|row| has_value[*row]) {
                    self.add_path(row, true);
                }
            }
            View::TopDown | View::FromFrame(_) => {}
        }
    }

    fn add_path(&mut self, frame: usize, has_members: bool) {
        let mut node = None;
        let mut start = None;
        let mut at = Some(frame);
        while let Some(row) = at {
            let next = self.up.node(node, self.identities[row], row);
            start.get_or_insert(next);
            if has_members {
                self.up_members.push((next, row));
            }
            node = Some(next);
            at = self.caller(row);
        }
        if let (Some(start), Some(last)) = (start, node) {
            self.anchors.push((frame, (start, last)));
        }
    }

    fn sums_of(&self, column: usize) -> Result<Sums> {
        let rows = 0..self.source.len();
        Ok(if self.source.has_reals(column) {
            let values: Vec<f64> = rows
                .map(|row| self.source.real(row, column).unwrap_or_default())
                .collect();
            let (own, cumulative) = self.sums(&values)?;
            Sums {
                own: Numbers::Real(own),
                cumulative: Numbers::Real(cumulative),
            }
        } else {
            let values: Vec<i64> = rows
                .map(|row| self.source.integer(row, column).unwrap_or_default())
                .collect();
            let (own, cumulative) = self.sums(&values)?;
            Sums {
                own: Numbers::Int(own),
                cumulative: Numbers::Int(cumulative),
            }
        })
    }

    /// Returns the own and the cumulative sums of all nodes.
    fn sums<T: Number>(&self, values: &[T]) -> Result<(Vec<T>, Vec<T>)> {
        if values.iter().any(|value| *value < T::default()) {
            return Err(failure("flamegraph: value columns must be non-negative"));
        }
        let mut own = vec![T::default(); self.down.rows.len()];
        // The sum of each frame with the frames below it, up to the root of its view.
        let mut of_frame = vec![T::default(); values.len()];
        for (row, value) in values.iter().enumerate() {
            if let (Some(node), Some(frame), true) = (
                self.down_nodes[row],
                self.paths[row].frame,
                self.is_shown(row),
            ) {
                own[node] = add(own[node], *value)?;
                of_frame[frame] = add(of_frame[frame], *value)?;
            }
        }
        let mut cumulative = own.clone();
        self.down.sum_up(&mut cumulative)?;

        let mut up_own = vec![T::default(); self.up.rows.len()];
        let mut up_cumulative = up_own.clone();
        match self.config.view {
            View::Pivot(_) => {
                for row in (0..values.len()).rev() {
                    let below =
                        self.down_nodes[row].is_some_and(|node| self.down.parents[node].is_some());
                    if let (true, true, Some(caller)) =
                        (below, self.is_frame(row), self.caller(row))
                    {
                        of_frame[caller] = add(of_frame[caller], of_frame[row])?;
                    }
                }
            }
            _ => {
                for row in (0..values.len()).filter(|row| self.is_shown(*row)) {
                    if let Some(frame) = self.paths[row].frame {
                        of_frame[frame] = add(of_frame[frame], values[row])?;
                    }
                }
            }
        }
        for (frame, (start, last)) in &self.anchors {
            up_own[*start] = add(up_own[*start], of_frame[*frame])?;
            up_cumulative[*last] = add(up_cumulative[*last], of_frame[*frame])?;
        }
        self.up.sum_up(&mut up_cumulative)?;
        own.extend(up_own);
        cumulative.extend(up_cumulative);
        Ok((own, cumulative))
    }

    fn members(&self) -> Vec<Vec<usize>> {
        let mut members = vec![Vec::new(); self.down.rows.len() + self.up.rows.len()];
        if self.config.aggregates.is_empty() {
            return members;
        }
        let mut of_frame: Vec<Vec<usize>> = vec![Vec::new(); self.source.len()];
        for row in 0..self.source.len() {
            let path = self.paths[row];
            if let (Some(frame), false) = (path.frame, path.is_hidden) {
                of_frame[frame].push(row);
            }
        }
        for (row, rows) in of_frame.iter().enumerate() {
            if let (Some(node), true, true) =
                (self.down_nodes[row], self.is_frame(row), self.is_shown(row))
            {
                members[node].extend(rows);
            }
        }
        for (node, frame) in &self.up_members {
            members[self.down.rows.len() + node].extend(&of_frame[*frame]);
        }
        members
    }
}
