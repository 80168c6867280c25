//! Requests about summaries and summarizers.

use ferretto_wire::{Fields, encode};

use super::fields::{
    computation, create_summarizer_result, destroy_summarizer_result, query_state,
    query_summarizer_result as result, summarizer_arguments, summary_arguments, summary_format,
    summary_result, update_summarizer_result,
};
use super::state::{Processor, text};
use crate::error::SqlError;
use crate::summary::{Metrics, Summarizer, SummaryRequest, parse_spec, summarize, summary_text};

/// The largest number of summarizers.
const MAX_SUMMARIZERS: usize = 256;

/// Returns the bytes of all fields with this number.
fn all(message: &[u8], number: u32) -> impl Iterator<Item = &[u8]> {
    let fields = Fields::new(message).flatten();
    fields
        .filter(move |field| field.number == number)
        .filter_map(|field| field.as_bytes())
}

fn bytes(message: &[u8], number: u32) -> &[u8] {
    all(message, number).last().unwrap_or_default()
}

fn texts(message: &[u8], number: u32) -> Vec<String> {
    let all = all(message, number);
    all.map(|text| String::from_utf8_lossy(text).into_owned())
        .collect()
}

impl Processor {
    /// Computes the summary of a message `TraceSummaryArgs`, and returns the message
    /// `TraceSummaryResult`.
    pub(super) fn trace_summary(&mut self, arguments: &[u8]) -> Vec<u8> {
        let started = self.metatrace.now();
        let result = self.try_trace_summary(arguments);
        self.metatrace.add("trace summary", "", started);
        encode(|out| match &result {
            Ok((summary, false)) => out.bytes(summary_result::BINARY, summary),
            Ok((summary, true)) => out.string(summary_result::TEXT, &summary_text(summary)),
            Err(error) => out.string(summary_result::ERROR, &error.message),
        })
    }

    /// Returns the summary, and true if it is wanted as text.
    fn try_trace_summary(&mut self, arguments: &[u8]) -> Result<(Vec<u8>, bool), SqlError> {
        let mut specs: Vec<Vec<u8>> = all(arguments, summary_arguments::PROTO_SPECS)
            .map(<[u8]>::to_vec)
            .collect();
        for text in all(arguments, summary_arguments::TEXTPROTO_SPECS) {
            specs.push(parse_spec("the specification", text)?);
        }
        if specs.is_empty() {
            return Err(SqlError::new("The request has no specification."));
        }
        let spec = bytes(arguments, summary_arguments::COMPUTATION);
        let wants_all = Fields::find(computation::RUN_ALL_METRICS, spec);
        let wants_all = wants_all.and_then(|field| field.as_bool());
        let format = Fields::find(summary_arguments::OUTPUT_FORMAT, arguments);
        let is_text = match format.and_then(|field| field.as_u64()) {
            Some(summary_format::BINARY) => false,
            Some(summary_format::TEXT) => true,
            Some(_) => return Err(SqlError::new("The format of the summary is unknown.")),
            None => return Err(SqlError::new("The request has no format of the summary.")),
        };
        let request = SummaryRequest {
            specs,
            metrics: match wants_all {
                Some(true) => Metrics::All,
                _ => Metrics::Named(texts(spec, computation::METRIC_IDS)),
            },
            metadata: texts(spec, computation::METADATA_QUERY_ID).pop(),
        };
        Ok((summarize(&mut self.engine, &request)?, is_text))
    }

    /// Creates a summarizer, and returns the message `CreateSummarizerResult`.
    pub(super) fn create_summarizer(&mut self, arguments: &[u8]) -> Vec<u8> {
        let id = text(arguments, summarizer_arguments::ID);
        let count = self.summarizers.len();
        encode(|out| {
            if self.summarizers.contains_key(&id) {
                out.string(
                    create_summarizer_result::ERROR,
                    &format!("The summarizer '{id}' exists already."),
                );
            } else if count >= MAX_SUMMARIZERS {
                out.string(
                    create_summarizer_result::ERROR,
                    &format!("There are {count} summarizers already."),
                );
            } else {
                self.created_summarizers += 1;
                let summarizer = Summarizer::new(self.created_summarizers);
                out.string(create_summarizer_result::ID, &id);
                self.summarizers.insert(id, summarizer);
            }
        })
    }

    /// Replaces the queries of a summarizer, and returns the message `UpdateSummarizerSpecResult`.
    pub(super) fn update_summarizer(&mut self, arguments: &[u8]) -> Vec<u8> {
        let id = text(arguments, summarizer_arguments::ID);
        let states = match self.summarizers.get_mut(&id) {
            Some(summarizer) => {
                let spec = bytes(arguments, summarizer_arguments::SPEC_OR_QUERY);
                summarizer.update(&mut self.engine, spec)
            }
            None => Err(missing(&id)),
        };
        encode(|out| match &states {
            Ok(states) => {
                for state in states {
                    out.nested(update_summarizer_result::QUERIES, |query| {
                        query.string(query_state::QUERY_ID, &state.id);
                        query.bool(query_state::WAS_UPDATED, state.is_updated);
                        query.bool(query_state::WAS_DROPPED, state.is_dropped);
                    });
                }
            }
            Err(error) => out.string(update_summarizer_result::ERROR, &error.message),
        })
    }

    /// Computes a query of a summarizer, and returns the message `QuerySummarizerResult`.
    pub(super) fn query_summarizer(&mut self, arguments: &[u8]) -> Vec<u8> {
        let id = text(arguments, summarizer_arguments::ID);
        let query = text(arguments, summarizer_arguments::SPEC_OR_QUERY);
        let Some(summarizer) = self.summarizers.get_mut(&id) else {
            return encode(|out| out.string(result::ERROR, &missing(&id).message));
        };
        let started = self.metatrace.now();
        let table = summarizer.query(&mut self.engine, &query);
        self.metatrace.add("summarizer", &query, started);
        encode(|out| match &table {
            Ok(Some(table)) => {
                out.bool(result::EXISTS, true);
                out.string(result::TABLE_NAME, &table.name);
                out.int(result::ROW_COUNT, table.rows);
                for column in &table.columns {
                    out.string(result::COLUMNS, column);
                }
                out.double(result::DURATION_MS, table.duration_ms);
                out.string(result::SQL, &table.sql);
                out.string(result::TEXTPROTO, &table.text);
                out.string(result::STANDALONE_SQL, &table.standalone_sql);
            }
            Ok(None) => out.bool(result::EXISTS, false),
            Err(error) => {
                out.bool(result::EXISTS, true);
                out.string(result::ERROR, &error.message);
            }
        })
    }

    /// Drops a summarizer, and returns the message `DestroySummarizerResult`.
    pub(super) fn destroy_summarizer(&mut self, arguments: &[u8]) -> Vec<u8> {
        let id = text(arguments, summarizer_arguments::ID);
        match self.summarizers.remove(&id) {
            Some(summarizer) => {
                summarizer.destroy(&mut self.engine);
                Vec::new()
            }
            None => encode(|out| {
                out.string(destroy_summarizer_result::ERROR, &missing(&id).message);
            }),
        }
    }
}

fn missing(id: &str) -> SqlError {
    SqlError::new(format!("There is no summarizer '{id}'."))
}
