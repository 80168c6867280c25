//! The configuration of a flamegraph: names followed by values.

use regex::{Regex, RegexBuilder};
use rusqlite::Result;

use super::source::Source;
use crate::objects::failure;

/// The parts of the callstacks that are shown.
#[derive(Debug)]
pub(super) enum View {
    /// From the callers to the functions that they call.
    TopDown,
    /// From the functions with own values to their callers.
    BottomUp,
    /// From matching functions, in both directions.
    Pivot(Regex),
    /// From matching functions to the functions that they call.
    FromFrame(Regex),
}

/// The value of a column for several frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aggregate {
    /// The sum.
    Sum,
    /// The value if all are equal, otherwise the first and the number of values.
    OneOrSummary,
    /// All values, separated by commas.
    Concat,
}

/// The configuration, with indexes of the columns.
#[derive(Debug)]
pub struct Config {
    pub(super) view: View,
    /// Callstacks are shown if each expression matches one of their frames.
    pub(super) show_stack: Vec<Regex>,
    /// Callstacks with a matching frame are not shown.
    pub(super) hide_stack: Vec<Regex>,
    /// Matching frames become part of their callers.
    pub(super) hide_frame: Vec<Regex>,
    /// The columns that distinguish frames of the same name.
    pub(super) grouping: Vec<usize>,
    /// The columns whose sums are the sizes of frames; the first determines the layout.
    pub(super) values: Vec<usize>,
    pub(super) aggregates: Vec<(Aggregate, usize)>,
}

/// The largest number of `SHOW_STACK` filters, whose matches are bits of a number.
const MAX_SHOW_STACK: usize = 64;

impl Config {
    /// Reads a configuration for these rows.
    pub(super) fn parse(words: &[String], source: &Source) -> Result<Self> {
        let mut view = "TOP_DOWN".to_owned();
        let mut pattern = None;
        let mut config = Self {
            view: View::TopDown,
            show_stack: Vec::new(),
            hide_stack: Vec::new(),
            hide_frame: Vec::new(),
            grouping: Vec::new(),
            values: Vec::new(),
            aggregates: Vec::new(),
        };
        let column = |name: &String| match source.column(name) {
            Some(index) => Ok(index),
            None => Err(failure(format!(
                "flamegraph: column '{name}' does not exist"
            ))),
        };
        let number = |name: &String| match column(name)? {
            index if source.is_number(index) => Ok(index),
            _ => Err(failure(format!(
                "flamegraph: the column '{name}' must be numeric"
            ))),
        };
        let mut rest = words;
        while let Some((key, values)) = rest.split_first() {
            let count = match key.as_str() {
                "view" | "grouping" | "value" => 1,
                "view_pattern" => 2,
                "filter" | "aggregate" => 3,
                other => {
                    return Err(failure(format!(
                        "flamegraph_config: unknown name '{other}'"
                    )));
                }
            };
            let Some((values, after)) = values.split_at_checked(count) else {
                return Err(failure(format!(
                    "flamegraph_config: '{key}' takes {count} values"
                )));
            };
            rest = after;
            match (key.as_str(), values) {
                ("view", [name]) => view.clone_from(name),
                ("view_pattern", [text, flags]) => pattern = Some(regex(text, flags)?),
                ("grouping", [name]) => config.grouping.push(column(name)?),
                ("value", [name]) => config.values.push(number(name)?),
                ("filter", [kind, text, flags]) => {
                    let filters = match kind.as_str() {
                        "SHOW_STACK" => &mut config.show_stack,
                        "HIDE_STACK" => &mut config.hide_stack,
                        "HIDE_FRAME" => &mut config.hide_frame,
                        _ => {
                            return Err(failure(format!(
                                "flamegraph_config: unknown filter '{kind}'"
                            )));
                        }
                    };
                    filters.push(regex(text, flags)?);
                }
                ("aggregate", [kind, input, output]) => {
                    if input != output {
                        return Err(failure(format!(
                            "flamegraph_config: the aggregate '{output}' must have the name of its column '{input}'"
                        )));
                    }
                    config.aggregates.push(match kind.as_str() {
                        "SUM" => (Aggregate::Sum, number(input)?),
                        "ONE_OR_SUMMARY" => (Aggregate::OneOrSummary, column(input)?),
                        "CONCAT_WITH_COMMA" => (Aggregate::Concat, column(input)?),
                        _ => {
                            return Err(failure(format!(
                                "flamegraph_config: unknown aggregate '{kind}'"
                            )));
                        }
                    });
                }
                _ => {}
            }
        }
        config.view = match (view.as_str(), pattern) {
            ("TOP_DOWN", None) => View::TopDown,
            ("BOTTOM_UP", None) => View::BottomUp,
            ("PIVOT", Some(pattern)) => View::Pivot(pattern),
            ("FROM_FRAME", Some(pattern)) => View::FromFrame(pattern),
            ("TOP_DOWN" | "BOTTOM_UP" | "PIVOT" | "FROM_FRAME", _) => {
                return Err(failure(
                    "flamegraph_config: PIVOT and FROM_FRAME take a view_pattern, other views none",
                ));
            }
            (other, _) => {
                return Err(failure(format!(
                    "flamegraph_config: unknown view '{other}'"
                )));
            }
        };
        if config.values.is_empty() {
            return Err(failure("flamegraph: at least one value column is required"));
        }
        if config.show_stack.len() > MAX_SHOW_STACK {
            return Err(failure(format!(
                "flamegraph: at most {MAX_SHOW_STACK} filters can be SHOW_STACK"
            )));
        }
        Ok(config)
    }

    /// Returns the expression that starts the view, if it has one.
    pub(super) fn pattern(&self) -> Option<&Regex> {
        match &self.view {
            View::Pivot(pattern) | View::FromFrame(pattern) => Some(pattern),
            View::TopDown | View::BottomUp => None,
        }
    }

    /// Returns true if the view has frames and the functions that they call.
    pub(super) fn goes_down(&self) -> bool {
        !matches!(self.view, View::BottomUp)
    }
}

fn regex(text: &str, flags: &str) -> Result<Regex> {
    if !matches!(flags, "" | "i") {
        return Err(failure(format!(
            "flamegraph_config: unknown flags '{flags}': use 'i' or ''"
        )));
    }
    match RegexBuilder::new(text)
        .case_insensitive(flags == "i")
        .build()
    {
        Ok(regex) => Ok(regex),
        Err(error) => Err(failure(format!(
            "flamegraph_config: '{text}' cannot be read: {error}"
        ))),
    }
}
