//! A summarizer: structured queries that become tables when a client asks for them, and are
//! computed again only if they or the queries that they read have changed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use ferretto_proto::fields::{perfetto_sql_structured_query as q, trace_summary_spec as s};
use rusqlite::types::ValueRef;

use super::message::Message;
use super::rows::each_row;
use super::structured::{Generator, Library, references};
use crate::engine::Engine;
use crate::error::SqlError;

/// The change of a query by a new specification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryState {
    /// The id of the query.
    pub id: String,
    /// True if it has to be computed again.
    pub is_updated: bool,
    /// True if the specification does not have it any more.
    pub is_dropped: bool,
}

/// The table of a query.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// The name.
    pub name: String,
    /// The number of rows.
    pub rows: i64,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The time that it took, in milliseconds.
    pub duration_ms: f64,
    /// The SQL that was run.
    pub sql: String,
    /// The query as text.
    pub text: String,
    /// SQL without tables of other queries.
    pub standalone_sql: String,
}

/// A query of a specification.
#[derive(Debug)]
struct Query {
    bytes: Vec<u8>,
    references: BTreeSet<String>,
    /// The result; `None` before the query is needed.
    result: Option<Result<Computed, SqlError>>,
    /// The relation of an earlier version, which is dropped after the new one exists.
    old: Option<Relation>,
}

/// A table or view.
#[derive(Debug, Clone)]
struct Relation {
    name: String,
    is_view: bool,
}

impl Relation {
    fn drop(&self, engine: &mut Engine) {
        let kind = if self.is_view { "VIEW" } else { "TABLE" };
        let sql = format!("DROP {kind} IF EXISTS {}", self.name);
        // It may be in use.
        let _ = each_row(engine, &sql, |_, _| Ok(()));
    }
}

#[derive(Debug)]
struct Computed {
    relation: Relation,
    table: Table,
}

/// Structured queries of a client, by id.
#[derive(Debug)]
pub struct Summarizer {
    /// A number that no other summarizer of the session has.
    number: u64,
    queries: BTreeMap<String, Query>,
    tables: u64,
}

impl Summarizer {
    /// Returns a summarizer without queries. `number` is its own in the session.
    pub fn new(number: u64) -> Self {
        Self {
            number,
            queries: BTreeMap::new(),
            tables: 0,
        }
    }

    /// Replaces the queries by those of an encoded message `TraceSummarySpec`.
    ///
    /// # Errors
    ///
    /// Fails if a query has no id, or that of another one.
    pub fn update(
        &mut self,
        engine: &mut Engine,
        spec: &[u8],
    ) -> Result<Vec<QueryState>, SqlError> {
        let mut queries = BTreeMap::new();
        for message in Message(spec).messages(s::QUERY) {
            let id = message.filled(q::ID);
            let id = id.ok_or_else(|| SqlError::new("A query has no id."))?;
            let query = Query {
                bytes: message.0.to_vec(),
                references: references(message),
                result: None,
                old: None,
            };
            if queries.insert(id.clone(), query).is_some() {
                return Err(SqlError::new(format!(
                    "There are several queries with the id '{id}'."
                )));
            }
        }
        let mut states = Vec::new();
        for (id, mut earlier) in std::mem::take(&mut self.queries) {
            let relation = match earlier.result.take() {
                Some(Ok(computed)) => Some(computed),
                _ => None,
            };
            match queries.get_mut(&id) {
                Some(query) if query.bytes == earlier.bytes => {
                    query.result = relation.map(Ok);
                    query.old = earlier.old;
                }
                Some(query) => query.old = relation.map(|it| it.relation).or(earlier.old),
                None => {
                    let all = relation
                        .map(|it| it.relation)
                        .into_iter()
                        .chain(earlier.old);
                    all.for_each(|relation| relation.drop(engine));
                    states.push(QueryState {
                        id,
                        is_updated: false,
                        is_dropped: true,
                    });
                }
            }
        }
        self.queries = queries;
        self.invalidate();
        states.extend(self.queries.iter().map(|(id, query)| QueryState {
            id: id.clone(),
            is_updated: query.result.is_none(),
            is_dropped: false,
        }));
        Ok(states)
    }

    /// Forgets the results of queries that read changed ones.
    fn invalidate(&mut self) {
        let mut changed: Vec<String> = self
            .queries
            .iter()
            .filter(|(_, query)| query.result.is_none())
            .map(|(id, _)| id.clone())
            .collect();
        let mut readers: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (id, query) in &self.queries {
            for read in &query.references {
                readers.entry(read.clone()).or_default().push(id.clone());
            }
        }
        while let Some(id) = changed.pop() {
            for reader in readers.remove(&id).unwrap_or_default() {
                if let Some(query) = self.queries.get_mut(&reader)
                    && let Some(result) = query.result.take()
                {
                    query.old = result.ok().map(|it| it.relation);
                    changed.push(reader);
                }
            }
        }
    }

    /// Returns the table of a query, which is computed if necessary; `None` without such a query.
    ///
    /// # Errors
    ///
    /// Fails if the query does, or one that it reads.
    pub fn query(&mut self, engine: &mut Engine, id: &str) -> Result<Option<Table>, SqlError> {
        if !self.queries.contains_key(id) {
            return Ok(None);
        }
        let mut library = Library::default();
        for query in self.queries.values() {
            library.add(Message(&query.bytes))?;
        }
        for id in self.order(id) {
            self.compute(engine, &library, &id)?;
        }
        let result = self.queries.get(id).and_then(|query| query.result.as_ref());
        let table = match result {
            Some(Ok(computed)) => computed.table.clone(),
            Some(Err(error)) => return Err(error.clone()),
            None => return Ok(None),
        };
        Ok(Some(table))
    }

    /// Returns a query after those that it reads.
    fn order(&self, id: &str) -> Vec<String> {
        let (mut order, mut seen) = (Vec::new(), BTreeSet::new());
        let mut stack = vec![(id.to_owned(), false)];
        while let Some((id, are_read_done)) = stack.pop() {
            if are_read_done {
                order.push(id);
            } else if let Some(query) = self.queries.get(&id)
                && seen.insert(id.clone())
            {
                stack.push((id, true));
                stack.extend(query.references.iter().map(|read| (read.clone(), false)));
            }
        }
        order
    }

    /// Computes a query unless it has a result. The queries that it reads have one.
    fn compute(
        &mut self,
        engine: &mut Engine,
        library: &Library,
        id: &str,
    ) -> Result<(), SqlError> {
        let Some(query) = self.queries.get(id) else {
            return Ok(());
        };
        if query.result.is_some() {
            return Ok(());
        }
        let mut failed = None;
        let mut generator = Generator::new(library, "");
        for read in &query.references {
            match self
                .queries
                .get(read)
                .and_then(|query| query.result.as_ref())
            {
                Some(Ok(computed)) => {
                    generator = generator.with_table(read, &computed.relation.name);
                }
                Some(Err(error)) => failed = Some((read, error)),
                // Missing queries, and those around this one, are refused below.
                None => {}
            }
        }
        let result = match failed {
            Some((read, error)) => Err(SqlError::new(format!(
                "The query '{read}' failed: {}",
                error.message
            ))),
            None => {
                let name = format!("__summarizer_{}_{}", self.number, self.tables);
                create(engine, library, generator, &query.bytes, name)
            }
        };
        self.tables += 1;
        if let Some(query) = self.queries.get_mut(id) {
            let is_done = result.is_ok();
            query.result = Some(result);
            if let Some(old) = query.old.take_if(|_| is_done) {
                old.drop(engine);
            }
        }
        Ok(())
    }

    /// Forgets all tables, which a new session does not have.
    pub fn forget(&mut self) {
        for query in self.queries.values_mut() {
            query.result = None;
            query.old = None;
        }
    }

    /// Drops all tables.
    pub fn destroy(self, engine: &mut Engine) {
        for query in self.queries.into_values() {
            let relation = query.result.and_then(Result::ok).map(|it| it.relation);
            for relation in relation.into_iter().chain(query.old) {
                relation.drop(engine);
            }
        }
    }
}

/// Creates the relation of a query.
fn create(
    engine: &mut Engine,
    library: &Library,
    mut generator: Generator<'_>,
    bytes: &[u8],
    name: String,
) -> Result<Computed, SqlError> {
    let message = Message(bytes);
    let select = generator.select(message)?;
    let script = generator.finish();
    script.begin(engine)?;
    let is_view = is_view(message);
    let kind = if is_view { "VIEW" } else { "TABLE" };
    let started = Instant::now();
    let sql = format!("CREATE PERFETTO {kind} {name} AS {select}");
    each_row(engine, &sql, |_, _| Ok(()))?;
    let relation = Relation { name, is_view };
    let described = describe(engine, &relation.name);
    let (columns, rows) = match described {
        Ok(described) => described,
        Err(error) => {
            relation.drop(engine);
            return Err(error);
        }
    };
    let duration_ms = started.elapsed().as_secs_f64() * 1e3;
    let sql = script.text(&select);
    let mut standalone = Generator::inline(library);
    let standalone_sql = match standalone.select(message) {
        Ok(select) => standalone.finish().text(&select),
        Err(_) => sql.clone(),
    };
    let kind = "perfetto.protos.PerfettoSqlStructuredQuery";
    let text = ferretto_text::print::message_to_text(kind, bytes);
    let text = text.expect("the schema has structured queries");
    let table = Table {
        name: relation.name.clone(),
        rows,
        columns,
        duration_ms,
        sql,
        text: String::from_utf8_lossy(&text).into_owned(),
        standalone_sql,
    };
    Ok(Computed { relation, table })
}

/// Returns the names of the columns and the number of rows.
fn describe(engine: &mut Engine, name: &str) -> Result<(Vec<String>, i64), SqlError> {
    let mut rows = 0;
    each_row(engine, &format!("SELECT count(*) FROM {name}"), |_, row| {
        if let [ValueRef::Integer(count)] = row {
            rows = *count;
        }
        Ok(())
    })?;
    let columns = each_row(engine, &format!("SELECT * FROM {name} LIMIT 0"), |_, _| {
        Ok(())
    })?;
    Ok((columns, rows))
}

/// Returns true for a query that only passes rows on, for which SQLite can use what it knows of
/// the table below.
fn is_view(query: Message<'_>) -> bool {
    let is_computed = query.has(q::GROUP_BY) || query.has(q::ORDER_BY);
    let is_plain = [q::TABLE, q::SIMPLE_SLICES, q::INNER_QUERY_ID];
    !is_computed && is_plain.iter().any(|field| query.has(*field))
}
