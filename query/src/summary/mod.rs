//! Summaries of traces: metrics that are defined by structured queries.

mod bundles;
mod message;
mod metrics;
mod rows;
mod structured;
mod summarizer;

use ferretto_proto::fields::{trace_summary as t, trace_summary_spec as s};
use ferretto_text::config::{Unknown, read_message};
use ferretto_wire::encode;
use rusqlite::types::ValueRef;

use self::message::Message;
use self::metrics::Metric;
use self::rows::each_row;
use self::structured::{Generator, Library, Script};
pub use self::summarizer::{QueryState, Summarizer, Table};
use crate::engine::Engine;
use crate::error::SqlError;

/// The beginning of the names of shared queries' tables.
const SHARED: &str = "__summary_";

/// The largest size of a summary.
const MAX_SUMMARY: usize = 256 << 20;

/// The metrics of a summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Metrics {
    /// All that the specifications define.
    All,
    /// Those with these ids.
    Named(Vec<String>),
}

/// The definition of a summary.
#[derive(Debug, Clone)]
pub struct SummaryRequest {
    /// Encoded messages `TraceSummarySpec`.
    pub specs: Vec<Vec<u8>>,
    /// The metrics to compute.
    pub metrics: Metrics,
    /// The id of the query for the metadata, if any.
    pub metadata: Option<String>,
}

/// Reads a specification, a message `TraceSummarySpec` as text.
///
/// # Errors
///
/// Fails if the text is not such a message. `name` is its name in the error.
pub fn parse_spec(name: &str, text: &[u8]) -> Result<Vec<u8>, SqlError> {
    let parsed = read_message(
        "perfetto.protos.TraceSummarySpec",
        name,
        text,
        Unknown::Refuse,
    );
    let parsed = parsed.expect("the schema has specifications");
    let parsed = parsed.map_err(|error| SqlError::new(error.to_string()))?;
    Ok(parsed.bytes)
}

/// Reads a specification, as text or encoded.
///
/// # Errors
///
/// Fails if the bytes are not text and no message, or a text that is not a specification.
pub fn read_spec(name: &str, bytes: &[u8]) -> Result<Vec<u8>, SqlError> {
    let is_text = match std::path::Path::new(name)
        .extension()
        .map(|it| it.as_encoded_bytes())
    {
        Some(b"pb") => false,
        Some(b"textproto" | b"pbtxt" | b"txtpb") => true,
        _ => bytes
            .iter()
            .take(128)
            .all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()),
    };
    if is_text {
        return parse_spec(name, bytes);
    }
    match ferretto_wire::Fields::new(bytes).find_map(Result::err) {
        None => Ok(bytes.to_vec()),
        Some(error) => Err(SqlError::new(format!(
            "{name} is neither a specification as text nor an encoded one: {error}"
        ))),
    }
}

/// Returns a message `TraceSummary` as text.
pub fn summary_text(summary: &[u8]) -> String {
    let text = ferretto_text::print::message_to_text("perfetto.protos.TraceSummary", summary);
    String::from_utf8_lossy(&text.expect("the schema has summaries")).into_owned()
}

/// Returns the shared queries of specifications.
fn library(specs: &[Vec<u8>]) -> Result<Library, SqlError> {
    let mut library = Library::default();
    for spec in specs {
        for query in Message(spec).messages(s::QUERY) {
            library.add(query)?;
        }
    }
    Ok(library)
}

/// Returns a script that prints the rows of the structured query with this id.
///
/// # Errors
///
/// Fails if the query does not exist or lacks something.
pub fn structured_query(specs: &[Vec<u8>], id: &str) -> Result<String, SqlError> {
    let library = library(specs)?;
    let mut generator = Generator::inline(&library);
    let sql = generator.select(Message(library.get(id)?))?;
    Ok(generator.finish().text(&sql))
}

/// Computes a summary of the trace of a session: an encoded message `TraceSummary`.
///
/// # Errors
///
/// Fails if a specification is wrong, or a query of it fails.
pub fn summarize(engine: &mut Engine, request: &SummaryRequest) -> Result<Vec<u8>, SqlError> {
    let library = library(&request.specs)?;
    let mut metrics = metrics::expanded(&request.specs)?;
    if let Metrics::Named(ids) = &request.metrics {
        metrics = ids
            .iter()
            .map(|id| metrics::named(&metrics, id))
            .collect::<Result<_, _>>()?;
    }
    metrics::check_ids(&metrics)?;
    let mut generator = Generator::new(&library, SHARED);
    for metric in &mut metrics {
        metric.generate(&mut generator)?;
    }
    let metadata = match &request.metadata {
        Some(id) => Some(generator.select(Message(library.get(id)?))?),
        None => None,
    };
    let script = generator.finish();
    script.begin(engine)?;
    let result = script
        .create_tables(engine)
        .and_then(|()| write(engine, &metrics, metadata.as_deref()));
    for shared in &script.shared {
        // A table that was not created is none to drop.
        let _ = each_row(
            engine,
            &format!("DROP TABLE IF EXISTS {}", shared.table),
            |_, _| Ok(()),
        );
    }
    result
}

fn write(
    engine: &mut Engine,
    metrics: &[Metric],
    metadata: Option<&str>,
) -> Result<Vec<u8>, SqlError> {
    let mut summary = Vec::new();
    for bundle in bundles::of(metrics)? {
        let bytes = bundle.compute(engine)?;
        ferretto_wire::Encoder::new(&mut summary).bytes(t::METRIC_BUNDLES, &bytes);
        if summary.len() > MAX_SUMMARY {
            return Err(too_large());
        }
    }
    if let Some(sql) = metadata {
        write_metadata(engine, sql, &mut summary)?;
    }
    Ok(summary)
}

fn too_large() -> SqlError {
    SqlError::new(format!(
        "The summary is larger than {} MiB. Metrics with fewer dimensions have fewer rows.",
        MAX_SUMMARY >> 20
    ))
}

fn write_metadata(engine: &mut Engine, sql: &str, summary: &mut Vec<u8>) -> Result<(), SqlError> {
    let wrong = |what| SqlError::new(format!("The metadata query {what}."));
    let names = each_row(engine, sql, |names, row| {
        let ([key, value], [_, _]) = (row, names) else {
            return Err(wrong("has other columns than 'key' and 'value'"));
        };
        let (key, value) = match (key, value) {
            (_, ValueRef::Null) => return Ok(()),
            (ValueRef::Text(key), ValueRef::Text(value)) => (key, value),
            _ => return Err(wrong("has a key or value that is not a text")),
        };
        let entry = encode(|entry| {
            entry.bytes(t::metadata::KEY, key);
            entry.bytes(t::metadata::VALUE, value);
        });
        ferretto_wire::Encoder::new(summary).bytes(t::METADATA, &entry);
        if summary.len() > MAX_SUMMARY {
            return Err(too_large());
        }
        Ok(())
    })?;
    if names.is_empty() || names == ["key", "value"] {
        return Ok(());
    }
    Err(wrong("has other columns than 'key' and 'value'"))
}

impl Script {
    /// Includes the modules, and runs the preambles.
    fn begin(&self, engine: &mut Engine) -> Result<(), SqlError> {
        for module in &self.modules {
            let sql = format!("INCLUDE PERFETTO MODULE {module}");
            each_row(engine, &sql, |_, _| Ok(()))?;
        }
        for preamble in &self.preambles {
            each_row(engine, preamble, |_, _| {
                Err(SqlError::new(
                    "A statement before the last one of a 'sql' source has rows. Only the last \
                     one may have some.",
                ))
            })?;
        }
        Ok(())
    }

    /// Creates the tables of shared queries.
    fn create_tables(&self, engine: &mut Engine) -> Result<(), SqlError> {
        for shared in &self.shared {
            let sql = format!(
                "CREATE OR REPLACE PERFETTO TABLE {} AS {}",
                shared.table, shared.sql
            );
            each_row(engine, &sql, |_, _| Ok(())).map_err(|error| {
                SqlError::new(format!("In the query '{}': {}", shared.id, error.message))
            })?;
        }
        Ok(())
    }

    /// Returns a text of all statements, with this one at the end.
    fn text(&self, last: &str) -> String {
        let mut text = String::new();
        for module in &self.modules {
            text += &format!("INCLUDE PERFETTO MODULE {module};\n");
        }
        for preamble in &self.preambles {
            let preamble = preamble.trim_end().trim_end_matches(';');
            text += &format!("{preamble};\n");
        }
        text + last
    }
}
