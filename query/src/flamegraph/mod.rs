//! `CREATE VIRTUAL TABLE name USING __intrinsic_flamegraph((query))`: callstacks with values, which
//! `name(__intrinsic_flamegraph_config(…))` merges to a flamegraph. [`Flamegraph`] also serves
//! other engines of SQL.

mod config;
mod layout;
mod source;
mod tree;

use std::collections::BTreeSet;
use std::sync::Arc;

use rusqlite::functions::FunctionFlags;
/// A value of a row.
pub use rusqlite::types::Value as Cell;
use rusqlite::types::Value;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};

use self::config::Aggregate;
pub use self::config::Config;
use self::source::{COMPUTED, NAME, Source, VALUE, kind};
use self::tree::{Numbers, Tree};
use crate::error::SqlError;
use crate::limits::Limits;
use crate::objects::failure;
use crate::relations::StoredRows;
use crate::relations::computed::{Cells, Kind};
use crate::sqlite::{Column, Condition, Op, Plan, Relation, Rows};
use crate::syntax::lexer::{self, Token, closing, split_commas, text, trim};

/// The function with the configuration of a flamegraph.
const CONFIG: &str = "__intrinsic_flamegraph_config";
/// The function that selects the row above all roots.
const FIND: &str = "__intrinsic_flamegraph_find";
/// The hidden column that is 1 in the row above all roots.
const IS_ROOT: &str = "__is_super_root";
/// Separates the texts of a configuration, and precedes the first.
const SEPARATOR: char = '\u{1f}';

/// The column of the result with the name of a frame.
const NAME_OF_ROW: usize = 3;

/// Registers the function of configurations.
pub(crate) fn register(connection: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function(CONFIG, -1, flags, |context| {
        let mut words = String::new();
        for argument in 0..context.len() {
            let ValueRef::Text(text) = context.get_raw(argument) else {
                return Err(failure(format!("{CONFIG}: all arguments must be texts")));
            };
            words.push(SEPARATOR);
            words.push_str(&String::from_utf8_lossy(text));
        }
        Ok(words)
    })
}

/// Rewrites `__intrinsic_flamegraph_find(t._tree_id, 'SUPER_ROOT')` to a condition on a hidden
/// column.
pub(crate) fn select_roots(mut tokens: Vec<Token>) -> Vec<Token> {
    while let Some(at) = tokens.iter().rposition(|token| token.is_word(FIND)) {
        let open = (at + 1..tokens.len()).find(|index| !tokens[*index].is_space());
        let open = open.filter(|open| tokens[*open].is("("));
        let inner = open.and_then(|open| Some((open, closing(&tokens, open)?)));
        let condition = inner.and_then(|(open, close)| {
            match split_commas(&tokens[open + 1..close]).as_slice() {
                [column, selector] if text(trim(selector)) == "'SUPER_ROOT'" => {
                    let (_, qualifier) = trim(column).split_last()?;
                    Some((close + 1, format!("({}{IS_ROOT} = 1)", text(qualifier))))
                }
                _ => None,
            }
        });
        let offset = tokens[at].at;
        // Anything else stays a call of a function that does not exist.
        let (end, replacement) = condition.unwrap_or_else(|| (at + 1, format!("{FIND} ")));
        tokens.splice(
            at..end,
            [Token::new(lexer::Kind::Symbol, replacement, offset)],
        );
    }
    tokens
}

/// The rows of a flamegraph, as a table that has to be called with a configuration.
#[derive(Debug)]
pub struct Flamegraph {
    source: Source,
    limits: Limits,
}

impl Flamegraph {
    /// Returns a table of the rows of a query.
    pub(crate) fn new(
        names: Vec<String>,
        rows: StoredRows,
        limits: &Limits,
    ) -> std::result::Result<Self, SqlError> {
        let mut columns = Vec::new();
        for (column, name) in names.into_iter().enumerate() {
            let values = (0..rows.len()).map(|row| &rows.row(row)[column]);
            let kind = kind(&name, values)?;
            columns.push((name, kind));
        }
        Ok(Self {
            source: Source::new(columns, rows)?,
            limits: limits.clone(),
        })
    }

    /// Returns a table of rows with these columns, whose values follow each other row by row. There
    /// is no limit of memory or time.
    ///
    /// # Errors
    ///
    /// Fails if the first columns are not `id`, `parent_id`, `name` and `value`, or if the rows are
    /// not trees.
    pub fn of(
        columns: Vec<(String, Kind)>,
        values: impl IntoIterator<Item = Value>,
    ) -> std::result::Result<Self, SqlError> {
        let limits = Limits::default();
        let mut rows = StoredRows::new(columns.len(), &limits);
        let added = rows.extend(values);
        added.map_err(|error| SqlError::new(error.to_string()))?;
        Ok(Self {
            source: Source::new(columns, rows)?,
            limits,
        })
    }

    /// Reads a configuration: names followed by values.
    ///
    /// # Errors
    ///
    /// Fails if a name is unknown or lacks values, or if a column does not exist.
    pub fn configuration(&self, words: &[String]) -> Result<Config> {
        Config::parse(words, &self.source)
    }

    /// Returns the names and kinds of the columns of the rows; without a configuration, those of
    /// all rows before they are merged.
    pub fn columns(&self, config: Option<&Config>) -> Vec<(String, Kind)> {
        let source = &self.source;
        let size = config.map_or(VALUE, |config| config.values[0]);
        let kind = |(index, name): (usize, String)| {
            let kind = match index {
                0..NAME_OF_ROW => Kind::Integers,
                NAME_OF_ROW => Kind::Texts,
                _ if index < COMPUTED.len() => source.kind(size),
                _ => self.kind_of_property(&name, config),
            };
            (name, kind)
        };
        self.names().into_iter().enumerate().map(kind).collect()
    }

    /// Returns the kind of a column after those of all flamegraphs.
    fn kind_of_property(&self, name: &str, config: Option<&Config>) -> Kind {
        let source = &self.source;
        let Some(column) = source.properties().find(|c| source.names[*c] == name) else {
            let sum = ["self_", "cumulative_"].into_iter().find_map(|start| {
                let name = name.strip_prefix(start)?;
                source.properties().find(|c| source.names[*c] == name)
            });
            return sum.map_or(Kind::Integers, |column| source.kind(column));
        };
        // A column that distinguishes frames has its own values, also if it is aggregated.
        let config = config.filter(|config| !config.grouping.contains(&column));
        let mut aggregates = config.iter().flat_map(|config| &config.aggregates);
        let aggregate = aggregates.find(|(_, c)| *c == column);
        if aggregate.is_some_and(|(of, _)| *of != Aggregate::Sum) {
            Kind::Texts
        } else {
            source.kind(column)
        }
    }

    /// Returns the row above all roots.
    ///
    /// # Errors
    ///
    /// Fails if a limit of the session is reached.
    pub fn super_root(&self) -> Result<Cells> {
        self.root().map(Cells)
    }

    /// Returns the rows of a flamegraph.
    ///
    /// # Errors
    ///
    /// Fails if a sum is too large, a value is negative, or a limit of the session is reached.
    pub fn merged(&self, config: &Config) -> Result<Cells> {
        self.rows(config).map(Cells)
    }

    /// Returns the names of the columns without the hidden ones.
    fn names(&self) -> Vec<String> {
        let source = &self.source;
        let mut names: Vec<String> = COMPUTED.iter().map(|name| (*name).to_owned()).collect();
        names.extend(
            source
                .properties()
                .map(|column| source.names[column].clone()),
        );
        for column in source.properties().filter(|c| source.is_number(*c)) {
            let name = &source.names[column];
            names.extend([format!("self_{name}"), format!("cumulative_{name}")]);
        }
        names
    }

    /// Returns the row above all roots.
    fn root(&self) -> Result<StoredRows> {
        let names = self.names();
        let mut rows = StoredRows::new(names.len(), &self.limits);
        for name in &names {
            rows.push(match name.as_str() {
                "_tree_id" | "depth" => Value::Integer(0),
                "cumulative_value" => self.source.total(),
                _ => Value::Null,
            })?;
        }
        Ok(rows)
    }

    /// Returns the rows of a flamegraph.
    fn rows(&self, config: &Config) -> Result<StoredRows> {
        let source = &self.source;
        let tree = tree::build(source, config)?;
        self.limits.check()?;
        let layout = layout::layout(&tree);
        let sizes = &tree.sums[0];
        let mut rows = StoredRows::new(self.names().len(), &self.limits);
        for (row, node) in layout.nodes.iter().copied().enumerate() {
            let first = tree.rows[node];
            let parent = layout.parents[row];
            let start = layout.starts[row];
            let position = |value: f64| match sizes.own {
                Numbers::Int(_) => Value::Integer(value as i64),
                Numbers::Real(_) => Value::Real(value),
            };
            rows.extend([
                Value::Integer(row as i64),
                parent.map_or(Value::Null, |parent| Value::Integer(parent as i64)),
                Value::Integer(layout.depths[row]),
                source.value(first, NAME).clone(),
                sizes.own.value(node),
                sizes.cumulative.value(node),
                parent.map_or(Value::Null, |row| sizes.cumulative.value(layout.nodes[row])),
                position(start),
                position(start + sizes.cumulative.real(node)),
            ])?;
            for column in source.properties() {
                let aggregate = config.aggregates.iter().find(|(_, c)| *c == column);
                rows.push(if config.grouping.contains(&column) {
                    source.value(first, column).clone()
                } else if let Some((aggregate, _)) = aggregate {
                    self.aggregated(*aggregate, column, &tree, node)?
                } else {
                    Value::Null
                })?;
            }
            for column in source.properties().filter(|c| source.is_number(*c)) {
                let position = config.values.iter().position(|c| *c == column);
                rows.extend(match position.map(|position| &tree.sums[position]) {
                    Some(sums) => [sums.own.value(node), sums.cumulative.value(node)],
                    None => [Value::Null, Value::Null],
                })?;
            }
        }
        Ok(rows)
    }

    /// Returns the value of a column for the rows of a node.
    fn aggregated(
        &self,
        aggregate: Aggregate,
        column: usize,
        tree: &Tree,
        node: usize,
    ) -> Result<Value> {
        let source = &self.source;
        let rows = tree.members[node].iter().copied();
        if aggregate == Aggregate::Sum && source.has_reals(column) {
            let values = rows.filter_map(|row| source.real(row, column));
            return Ok(values.reduce(|a, b| a + b).into());
        }
        if aggregate == Aggregate::Sum {
            let mut sum: Option<i64> = None;
            for value in rows.filter_map(|row| source.integer(row, column)) {
                let next = sum.unwrap_or(0).checked_add(value);
                let name = &source.names[column];
                let large = || failure(format!("flamegraph: the sum of '{name}' is too large"));
                sum = Some(next.ok_or_else(large)?);
            }
            return Ok(sum.into());
        }
        let all: Vec<String> = rows.filter_map(|row| source.text(row, column)).collect();
        let Some(first) = all.first() else {
            return Ok(Value::Null);
        };
        if aggregate == Aggregate::Concat {
            return Ok(Some(all.join(",")).filter(|text| !text.is_empty()).into());
        }
        Ok(Value::Text(
            match all.iter().collect::<BTreeSet<_>>().len() {
                1 => first.clone(),
                count => format!("{first} and {count} others"),
            },
        ))
    }
}

impl Relation for Flamegraph {
    fn columns(&self) -> Vec<Column> {
        let names = self.names();
        let hidden = ["__config", IS_ROOT].map(Column::hidden);
        names.iter().map(Column::new).chain(hidden).collect()
    }

    fn plan(&self, conditions: &[Condition], _: &[(usize, bool)]) -> Option<Plan> {
        let mut plan = Plan {
            cost: 1e4,
            rows: 1e3,
            ..Plan::default()
        };
        let shown = self.names().len();
        for hidden in [shown, shown + 1] {
            let is_value = |c: &Condition| c.column == hidden && c.op == Op::Eq;
            match conditions.iter().position(|c| is_value(c) && c.is_usable) {
                Some(index) => plan.used.push(index),
                // The value comes from a table that must be read before.
                None if conditions.iter().any(is_value) => return None,
                None => {}
            }
        }
        Some(plan)
    }

    fn open(self: Arc<Self>) -> Box<dyn Rows> {
        Box::new(Reader {
            shown: self.names().len(),
            flamegraph: self,
            rows: StoredRows::default(),
            is_root: false,
            at: 0,
        })
    }
}

struct Reader {
    flamegraph: Arc<Flamegraph>,
    /// The number of columns that are not hidden.
    shown: usize,
    rows: StoredRows,
    /// True if the rows are that above all roots.
    is_root: bool,
    at: usize,
}

impl Rows for Reader {
    fn start(&mut self, conditions: &[(usize, Op, Value)]) -> Result<()> {
        let graph = &self.flamegraph;
        let value = |column: usize| {
            let found = conditions.iter().find(|(of, ..)| *of == column);
            found.map(|(_, _, value)| value)
        };
        let words: Vec<String> = match value(self.shown) {
            Some(Value::Text(words)) if words.starts_with(SEPARATOR) => {
                words.split(SEPARATOR).skip(1).map(str::to_owned).collect()
            }
            Some(_) => {
                return Err(failure(format!(
                    "the argument of a flamegraph must be {CONFIG}(…)"
                )));
            }
            None => {
                return Err(failure(format!(
                    "a flamegraph takes an argument: {CONFIG}('value', 'value', 'view', 'TOP_DOWN')"
                )));
            }
        };
        let config = Config::parse(&words, &graph.source)?;
        self.is_root = value(self.shown + 1) == Some(&Value::Integer(1));
        self.rows = if self.is_root {
            graph.root()?
        } else {
            graph.rows(&config)?
        };
        self.at = 0;
        Ok(())
    }

    fn advance(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.at >= self.rows.len()
    }

    fn value(&self, column: usize) -> ValueRef<'_> {
        match column.checked_sub(self.shown) {
            None => ValueRef::from(&self.rows.row(self.at)[column]),
            Some(1) => ValueRef::Integer(i64::from(self.is_root)),
            Some(_) => ValueRef::Null,
        }
    }

    fn row(&self) -> i64 {
        self.at as i64
    }
}
