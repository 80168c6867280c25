//! The search for rows by names and arguments: the frame `found`.

use ferretto_tables::column::NullableColumn;
use ferretto_tables::{StringId, StringPool};
use regex_automata::meta::Regex;
use regex_automata::util::syntax;

use crate::details::arg_text;
use crate::frame::{Frame, Texts};
use crate::nodes::{Content, NONE};
use crate::view::View;

/// The maximum number of rows found.
const MAX_FOUND: usize = 10_000;
/// The maximum number of nodes found.
const MAX_NODES: usize = 1000;

/// The texts that are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchIn {
    /// Names.
    Names,
    /// Arguments.
    Args,
    /// Both.
    All,
}

/// The number of steps of the density of matches.
const STEPS: usize = 800;

/// A regular expression that is not valid.
#[derive(Debug, thiserror::Error)]
#[error("{text} is not a valid regular expression: {reason}")]
pub struct InvalidExpression {
    text: String,
    reason: String,
}

/// A text to search for, ignoring case, or a regular expression between slashes.
enum Needle {
    Text(String),
    Expression(Box<Regex>),
}

impl Needle {
    fn new(text: &str) -> Result<Self, InvalidExpression> {
        let Some(pattern) = expression(text) else {
            return Ok(Self::Text(text.to_lowercase()));
        };
        let syntax = syntax::Config::new().case_insensitive(true);
        let built = Regex::builder().syntax(syntax).build(pattern);
        let built = built.map_err(|error| {
            let reason = match error.syntax_error() {
                Some(syntax) => syntax.to_string(),
                None => error.to_string(),
            };
            InvalidExpression {
                text: text.to_owned(),
                // The last line has the reason, those before point into the expression.
                reason: reason
                    .lines()
                    .last()
                    .unwrap_or_default()
                    .replace("error: ", ""),
            }
        });
        Ok(Self::Expression(Box::new(built?)))
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self::Text(text) if text.is_empty())
    }

    fn is_in(&self, text: &str) -> bool {
        let wanted = match self {
            Self::Expression(expression) => return expression.is_match(text),
            Self::Text(wanted) => wanted,
        };
        if text.is_ascii() && wanted.is_ascii() {
            let (text, needle) = (text.as_bytes(), wanted.as_bytes());
            let mut windows = text.windows(needle.len().max(1));
            needle.is_empty() || windows.any(|part| part.eq_ignore_ascii_case(needle))
        } else {
            text.to_lowercase().contains(wanted)
        }
    }
}

/// Returns the pattern of a regular expression between slashes.
fn expression(text: &str) -> Option<&str> {
    let pattern = text.trim().strip_prefix('/')?.strip_suffix('/')?;
    (!pattern.is_empty()).then_some(pattern)
}

/// The texts and sets of arguments that match.
struct Matches {
    names: Vec<bool>,
    /// The result of each set; `None` if it has not been searched yet.
    args: Vec<Option<bool>>,
    key: Option<Needle>,
    value: Needle,
    search_in: SearchIn,
}

impl Matches {
    fn name(&self, name: StringId) -> bool {
        self.names.get(name.raw() as usize) == Some(&true)
    }

    fn args(&mut self, view: &View, set: Option<u32>) -> bool {
        let Some(set) = set.filter(|_| self.search_in != SearchIn::Names) else {
            return false;
        };
        if let Some(Some(known)) = self.args.get(set as usize) {
            return *known;
        }
        let strings = view.trace().strings();
        let found = view.trace().tables().args.set(set).any(|arg| {
            let key = strings.text(arg.key);
            let has_value = self.value.is_in(&arg_text(arg.value, strings));
            match &self.key {
                Some(wanted) => wanted.is_in(key) && has_value,
                None => has_value || self.value.is_in(key),
            }
        });
        if let Some(known) = self.args.get_mut(set as usize) {
            *known = Some(found);
        }
        found
    }
}

/// A row that was found.
struct Found {
    ts: i64,
    node: u32,
    depth: u32,
    row: u32,
}

impl View {
    /// Returns the rows that contain a text or match an expression between slashes, as a frame.
    /// `key=value` searches arguments.
    ///
    /// # Errors
    ///
    /// Fails if the expression is not valid.
    pub fn search(
        &self,
        text: &str,
        search_in: SearchIn,
        limit: usize,
    ) -> Result<Vec<u8>, InvalidExpression> {
        let limit = limit.min(MAX_FOUND);
        let (tables, strings) = (self.trace().tables(), self.trace().strings());
        let needle = Needle::new(text)?;
        let pair = text
            .split_once(['=', ':'])
            .filter(|(key, _)| !key.is_empty() && expression(text).is_none());
        let mut matches = Matches {
            names: names(strings, &needle, search_in),
            args: vec![None; tables.args.len() as usize],
            key: pair.map(|(key, _)| Needle::new(key.trim())).transpose()?,
            value: Needle::new(pair.map_or(text, |(_, value)| value.trim()))?,
            search_in,
        };
        let (mut found, mut total) = (Vec::new(), 0_u64);
        let mut density = vec![0_u32; STEPS];
        let step = (self.duration() as f64 / STEPS as f64).max(1.0);
        if !needle.is_empty() {
            self.each_match(&mut matches, |table, one| {
                total += 1;
                let at = (self.relative(one.ts) / step).max(0.0) as usize;
                density[at.min(STEPS - 1)] += 1;
                if *table < limit {
                    *table += 1;
                    found.push(one);
                }
            });
        }
        found.sort_by_key(|found| found.ts);
        found.truncate(limit);
        let mut texts = Texts::default();
        let mut frame = Frame::new("found");
        frame.field("total", total);
        frame.field("nodes", self.nodes_named(&needle, search_in));
        let (mut start, mut dur, mut name) = (Vec::new(), Vec::new(), Vec::new());
        for one in &found {
            let content = &self.scene().nodes()[one.node as usize].content;
            let time = self.time_of(content, one.row).unwrap_or_default();
            start.push(time.0);
            dur.push(time.1);
            name.push(texts.of(strings, self.label(content, one.row).name));
        }
        frame.texts(texts);
        let column = |value: fn(&Found) -> u32| found.iter().map(value).collect::<Vec<u32>>();
        frame.u32s("node", &column(|found| found.node));
        frame.u32s("id", &column(|found| found.row));
        frame.u32s("depth", &column(|found| found.depth));
        frame.f64s("start", &start);
        frame.f64s("dur", &dur);
        frame.u32s("name", &name);
        if total > 0 {
            let most = density.iter().copied().max().unwrap_or(1).max(1);
            let share = |count: &u32| (f64::from(*count) / f64::from(most)).sqrt() * 255.0;
            let shares: Vec<u8> = density
                .iter()
                .map(|count| share(count).ceil() as u8)
                .collect();
            frame.u8s("density", &shares);
        }
        Ok(frame.finish())
    }

    /// Calls `each` with all matches, table by table, and with the number of rows kept of the
    /// table.
    fn each_match(&self, matches: &mut Matches, mut each: impl FnMut(&mut usize, Found)) {
        let tables = self.trace().tables();
        let args = |matches: &mut Matches, sets: &NullableColumn<u32>, row: u32| {
            matches.args(self, sets.get(row))
        };
        let mut kept = 0;
        let slices = &tables.slice;
        for row in 0..slices.len() {
            if !matches.name(slices.name().get(row)) && !args(matches, slices.arg_set_id(), row) {
                continue;
            }
            if let Some((node, depth)) = self.position_of_slice(row) {
                let ts = slices.ts().get(row);
                each(
                    &mut kept,
                    Found {
                        ts,
                        node,
                        depth,
                        row,
                    },
                );
            }
        }
        for (index, of) in self.scene().nodes().iter().enumerate() {
            let node = index as u32;
            if !matches!(
                of.content,
                Content::Values(_) | Content::Ftrace(_) | Content::Lines
            ) {
                continue;
            }
            let Some((lanes, times)) = self.lanes(&of.content) else {
                continue;
            };
            kept = 0;
            for row in lanes.rows(of.lane).iter() {
                let is_match = match of.content {
                    Content::Values(_) => {
                        matches.name(tables.state.value().get(row))
                            || args(matches, tables.state.arg_set_id(), row)
                    }
                    Content::Ftrace(_) => {
                        matches.name(tables.ftrace_event.name().get(row))
                            || args(matches, tables.ftrace_event.arg_set_id(), row)
                    }
                    _ => {
                        matches.name(tables.logs.tag().get(row))
                            || matches.name(tables.logs.msg().get(row))
                            || args(matches, tables.logs.arg_set_id(), row)
                    }
                };
                if is_match {
                    let ts = times.start(row);
                    each(
                        &mut kept,
                        Found {
                            ts,
                            node,
                            depth: 0,
                            row,
                        },
                    );
                }
            }
        }
    }

    fn nodes_named(&self, needle: &Needle, search_in: SearchIn) -> Vec<u32> {
        if search_in == SearchIn::Args || needle.is_empty() {
            return Vec::new();
        }
        let named = (0..self.scene().nodes().len() as u32)
            .filter(|node| *node != NONE)
            .filter(|node| needle.is_in(&self.title(*node)) || needle.is_in(&self.command(*node)));
        named.take(MAX_NODES).collect()
    }
}

/// Returns for each text if it contains the searched one.
fn names(strings: &StringPool, needle: &Needle, search_in: SearchIn) -> Vec<bool> {
    if search_in == SearchIn::Args {
        return Vec::new();
    }
    strings.iter().map(|text| needle.is_in(text)).collect()
}
