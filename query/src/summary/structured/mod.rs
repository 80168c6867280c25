//! Structured queries: messages from which SQL is made.
//!
//! Each query becomes a table of a `WITH` clause, after the queries that it reads. A shared query,
//! which others name by its id, becomes a table of its own, or another one of the clause.

mod clauses;
mod sources;

use std::collections::{BTreeMap, BTreeSet};

use ferretto_proto::fields::perfetto_sql_structured_query as q;

use super::message::Message;
use crate::error::SqlError;

/// The largest depth of queries in queries.
const MAX_DEPTH: usize = 64;

/// The largest size of the SQL of a query.
const MAX_SQL: usize = 1 << 24;

/// Queries that others refer to by their ids.
#[derive(Debug, Default, Clone)]
pub(super) struct Library {
    queries: BTreeMap<String, Vec<u8>>,
}

impl Library {
    /// Adds a query.
    ///
    /// # Errors
    ///
    /// Fails if it has no id, or that of another query.
    pub(super) fn add(&mut self, query: Message<'_>) -> Result<String, SqlError> {
        let Some(id) = query.text(q::ID) else {
            return Err(SqlError::new(
                "A shared query has no id, so that nothing can refer to it.",
            ));
        };
        if self.queries.contains_key(&id) {
            return Err(SqlError::new(format!(
                "There are several shared queries with the id '{id}'."
            )));
        }
        self.queries.insert(id.clone(), query.0.to_vec());
        Ok(id)
    }

    /// Returns the query with this id.
    pub(super) fn get(&self, id: &str) -> Result<&[u8], SqlError> {
        let found = self.queries.get(id).map(Vec::as_slice);
        found.ok_or_else(|| SqlError::new(format!("There is no query with the id '{id}'.")))
    }
}

/// A shared query that becomes a table.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) id: String,
    pub(super) table: String,
    pub(super) sql: String,
}

/// Makes SQL from queries.
#[derive(Debug)]
pub(super) struct Generator<'a> {
    library: &'a Library,
    /// `None` if shared queries become part of the SQL; otherwise the beginning of the names of
    /// their tables.
    prefix: Option<&'a str>,
    /// Shared queries that are tables already, by id.
    known: BTreeMap<String, String>,
    /// Shared queries, those first that others read.
    shared: Vec<Shared>,
    modules: BTreeSet<String>,
    preambles: Vec<String>,
    names: BTreeSet<String>,
    /// The tables of the current `WITH` clause.
    parts: Vec<(String, String)>,
    /// The ids of the queries around the current one.
    open: Vec<Option<String>>,
    /// The size of all generated SQL.
    size: usize,
}

/// SQL with all statements that it needs.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) modules: BTreeSet<String>,
    /// Statements, to be run after the modules are included.
    pub(super) preambles: Vec<String>,
    /// Shared queries, to be made tables after that.
    pub(super) shared: Vec<Shared>,
}

impl<'a> Generator<'a> {
    /// Returns a generator for which shared queries are tables whose names begin with `prefix`.
    pub(super) fn new(library: &'a Library, prefix: &'a str) -> Self {
        Self {
            library,
            prefix: Some(prefix),
            known: BTreeMap::new(),
            shared: Vec::new(),
            modules: BTreeSet::new(),
            preambles: Vec::new(),
            names: BTreeSet::new(),
            parts: Vec::new(),
            open: Vec::new(),
            size: 0,
        }
    }

    /// Returns a generator whose SQL contains shared queries.
    pub(super) fn inline(library: &'a Library) -> Self {
        Self {
            prefix: None,
            ..Self::new(library, "")
        }
    }

    /// Uses this table for a shared query.
    pub(super) fn with_table(mut self, id: &str, table: &str) -> Self {
        self.known.insert(id.to_owned(), table.to_owned());
        self
    }

    /// Returns the statements that the generated SQL needs.
    pub(super) fn finish(self) -> Script {
        Script {
            modules: self.modules,
            preambles: self.preambles,
            shared: self.shared,
        }
    }

    /// Returns the SQL of a query.
    ///
    /// # Errors
    ///
    /// Fails if the query lacks something, or refers to itself or to a missing query.
    pub(super) fn select(&mut self, query: Message<'_>) -> Result<String, SqlError> {
        let outer = std::mem::take(&mut self.parts);
        let sql = self.body(query);
        let parts = std::mem::replace(&mut self.parts, outer);
        let parts = parts
            .iter()
            .map(|(name, sql)| format!("{name} AS (\n{sql}\n)"));
        let parts: Vec<_> = parts.collect();
        Ok(if parts.is_empty() {
            sql?
        } else {
            format!("WITH {}\n{}", parts.join(",\n"), sql?)
        })
    }

    /// Adds a query to the `WITH` clause, and returns its name there.
    fn nested(&mut self, query: Message<'_>) -> Result<String, SqlError> {
        let sql = self.body(query)?;
        let name = self.fresh("sq_", query.text(q::ID).as_deref());
        self.parts.push((name.clone(), sql));
        Ok(name)
    }

    /// Returns the name of the table of a shared query.
    fn reference(&mut self, id: &str) -> Result<String, SqlError> {
        if self.open.iter().any(|open| open.as_deref() == Some(id)) {
            return Err(SqlError::new(format!(
                "The query with the id '{id}' refers to itself."
            )));
        }
        if let Some(table) = self.known.get(id) {
            return Ok(table.clone());
        }
        let library = self.library;
        let query = Message(library.get(id)?);
        let Some(prefix) = self.prefix else {
            // The clause of the outermost query has it.
            let name = self.nested(query)?;
            self.known.insert(id.to_owned(), name.clone());
            return Ok(name);
        };
        let sql = self.select(query)?;
        let table = self.fresh(prefix, Some(id));
        self.known.insert(id.to_owned(), table.clone());
        let id = id.to_owned();
        self.shared.push(Shared {
            id,
            table: table.clone(),
            sql,
        });
        Ok(table)
    }

    /// Returns a new name of a table.
    fn fresh(&mut self, prefix: &str, id: Option<&str>) -> String {
        let of = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let id: String = id.unwrap_or_default().chars().take(64).map(of).collect();
        let mut name = format!("{prefix}{id}");
        let mut number = self.names.len();
        while id.is_empty() && name.len() == prefix.len()
            || !self.names.insert(name.to_ascii_lowercase())
        {
            number += 1;
            name = format!("{prefix}{id}{number}");
        }
        name
    }

    /// Returns the SELECT of a query.
    fn body(&mut self, query: Message<'_>) -> Result<String, SqlError> {
        let id = query.text(q::ID);
        let located = |error: SqlError| match &id {
            Some(id) => SqlError::new(format!("In the query '{id}': {}", error.message)),
            None => error,
        };
        if self.open.len() >= MAX_DEPTH {
            return Err(SqlError::new(format!(
                "Queries are nested more than {MAX_DEPTH} deep."
            )));
        }
        self.open.push(id.clone());
        let sql = self.clauses(query);
        self.open.pop();
        let sql = sql.map_err(located)?;
        self.size += sql.len();
        if self.size > MAX_SQL {
            return Err(SqlError::new("The SQL of the queries is too large."));
        }
        Ok(sql)
    }

    fn clauses(&mut self, query: Message<'_>) -> Result<String, SqlError> {
        self.modules.extend(query.texts(q::REFERENCED_MODULES));
        let source = self.source(query)?;
        let filters = match query.message(q::EXPERIMENTAL_FILTER_GROUP) {
            Some(group) => Some(clauses::group(group, MAX_DEPTH)?),
            None => clauses::filters(&query.messages(q::FILTERS))?,
        };
        let mut from = format!("FROM {source}");
        if let Some(filters) = filters {
            from += &format!("\nWHERE {filters}");
        }
        let columns = query.messages(q::SELECT_COLUMNS);
        let mut sql = match query.message(q::GROUP_BY) {
            Some(group_by) => clauses::aggregated(group_by, &columns, &from)?,
            None => format!("SELECT {}\n{from}", clauses::columns(&columns)?),
        };
        if let Some(order) = query.message(q::ORDER_BY) {
            sql += &format!("\nORDER BY {}", clauses::order(order)?);
        }
        let rows = |name: &str, number| match query.int(number) {
            Some(rows) if rows < 0 => Err(SqlError::new(format!("{name} is negative: {rows}."))),
            rows => Ok(rows),
        };
        match (rows("LIMIT", q::LIMIT)?, rows("OFFSET", q::OFFSET)?) {
            (None, Some(_)) => return Err(SqlError::new("OFFSET needs a LIMIT.")),
            (Some(limit), None) => sql += &format!("\nLIMIT {limit}"),
            (Some(limit), Some(offset)) => sql += &format!("\nLIMIT {limit} OFFSET {offset}"),
            (None, None) => {}
        }
        Ok(sql)
    }
}

/// Returns the error that a message lacks a field.
fn missing(message: &str, field: &str) -> SqlError {
    SqlError::new(format!("{message} lacks '{field}'."))
}

/// Returns the ids of shared queries that a query refers to, itself or in a query inside it.
pub(super) fn references(query: Message<'_>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect(query, &mut found, MAX_DEPTH);
    found
}

fn collect(query: Message<'_>, found: &mut BTreeSet<String>, depth: usize) {
    let Some(depth) = depth.checked_sub(1) else {
        return;
    };
    found.extend(query.text(q::INNER_QUERY_ID));
    for inner in inner_queries(query) {
        collect(inner, found, depth);
    }
}

/// Returns the queries inside a query.
fn inner_queries(query: Message<'_>) -> Vec<Message<'_>> {
    /// The fields of sources, and the fields of queries in these.
    const SOURCES: [(u32, &[u32]); 8] = [
        (
            q::INTERVAL_INTERSECT,
            &[
                q::interval_intersect::BASE,
                q::interval_intersect::INTERVAL_INTERSECT,
            ],
        ),
        (
            q::EXPERIMENTAL_FILTER_TO_INTERVALS,
            &[
                q::experimental_filter_to_intervals::BASE,
                q::experimental_filter_to_intervals::INTERVALS,
            ],
        ),
        (
            q::EXPERIMENTAL_JOIN,
            &[
                q::experimental_join::LEFT_QUERY,
                q::experimental_join::RIGHT_QUERY,
            ],
        ),
        (q::EXPERIMENTAL_UNION, &[q::experimental_union::QUERIES]),
        (
            q::EXPERIMENTAL_ADD_COLUMNS,
            &[
                q::experimental_add_columns::CORE_QUERY,
                q::experimental_add_columns::INPUT_QUERY,
            ],
        ),
        (
            q::EXPERIMENTAL_CREATE_SLICES,
            &[
                q::experimental_create_slices::STARTS_QUERY,
                q::experimental_create_slices::ENDS_QUERY,
            ],
        ),
        (
            q::EXPERIMENTAL_COUNTER_INTERVALS,
            &[q::experimental_counter_intervals::INPUT_QUERY],
        ),
        (
            q::EXPERIMENTAL_FILTER_IN,
            &[
                q::experimental_filter_in::BASE,
                q::experimental_filter_in::MATCH_VALUES,
            ],
        ),
    ];
    let mut inner: Vec<_> = query.message(q::INNER_QUERY).into_iter().collect();
    for (source, fields) in SOURCES {
        if let Some(source) = query.message(source) {
            inner.extend(fields.iter().flat_map(|field| source.messages(*field)));
        }
    }
    if let Some(sql) = query.message(q::SQL) {
        let dependencies = sql.messages(q::sql::DEPENDENCIES).into_iter();
        inner.extend(dependencies.filter_map(|it| it.message(q::sql::dependency::QUERY)));
    }
    inner
}
