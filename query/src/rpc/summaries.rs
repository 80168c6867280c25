//! Requests about summaries and summarizers.

use ferretto_wire::{Fields, encode};

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
            Ok((summary, false)) => out.bytes(1, summary),
            Ok((summary, true)) => out.string(2, &summary_text(summary)),
            Err(error) => out.string(3, &error.message),
        })
    }

    /// Returns the summary, and true if it is wanted as text.
    fn try_trace_summary(&mut self, arguments: &[u8]) -> Result<(Vec<u8>, bool), SqlError> {
        let mut specs: Vec<Vec<u8>> = all(arguments, 1).map(<[u8]>::to_vec).collect();
        for text in all(arguments, 2) {
            specs.push(parse_spec("the specification", text)?);
        }
        if specs.is_empty() {
            return Err(SqlError::new("The request has no specification."));
        }
        let computation = bytes(arguments, 3);
        let wants_all = Fields::find(3, computation).and_then(|field| field.as_bool());
        let is_text = match Fields::find(4, arguments).and_then(|field| field.as_u64()) {
            Some(0) => false,
            Some(1) => true,
            Some(_) => return Err(SqlError::new("The format of the summary is unknown.")),
            None => return Err(SqlError::new("The request has no format of the summary.")),
        };
        let request = SummaryRequest {
            specs,
            metrics: match wants_all {
                Some(true) => Metrics::All,
                _ => Metrics::Named(texts(computation, 1)),
            },
            metadata: texts(computation, 2).pop(),
        };
        Ok((summarize(&mut self.engine, &request)?, is_text))
    }

    /// Creates a summarizer, and returns the message `CreateSummarizerResult`.
    pub(super) fn create_summarizer(&mut self, arguments: &[u8]) -> Vec<u8> {
        let id = text(arguments, 1);
        let count = self.summarizers.len();
        encode(|out| {
            if self.summarizers.contains_key(&id) {
                out.string(2, &format!("The summarizer '{id}' exists already."));
            } else if count >= MAX_SUMMARIZERS {
                out.string(2, &format!("There are {count} summarizers already."));
            } else {
                self.created_summarizers += 1;
                let summarizer = Summarizer::new(self.created_summarizers);
                out.string(1, &id);
                self.summarizers.insert(id, summarizer);
            }
        })
    }

    /// Replaces the queries of a summarizer, and returns the message `UpdateSummarizerSpecResult`.
    pub(super) fn update_summarizer(&mut self, arguments: &[u8]) -> Vec<u8> {
        let id = text(arguments, 1);
        let states = match self.summarizers.get_mut(&id) {
            Some(summarizer) => summarizer.update(&mut self.engine, bytes(arguments, 2)),
            None => Err(missing(&id)),
        };
        encode(|out| match &states {
            Ok(states) => {
                for state in states {
                    out.nested(1, |query| {
                        query.string(1, &state.id);
                        query.bool(3, state.is_updated);
                        query.bool(4, state.is_dropped);
                    });
                }
            }
            Err(error) => out.string(2, &error.message),
        })
    }

    /// Computes a query of a summarizer, and returns the message `QuerySummarizerResult`.
    pub(super) fn query_summarizer(&mut self, arguments: &[u8]) -> Vec<u8> {
        let (id, query) = (text(arguments, 1), text(arguments, 2));
        let Some(summarizer) = self.summarizers.get_mut(&id) else {
            return encode(|out| out.string(6, &missing(&id).message));
        };
        let started = self.metatrace.now();
        let table = summarizer.query(&mut self.engine, &query);
        self.metatrace.add("summarizer", &query, started);
        encode(|out| match &table {
            Ok(Some(table)) => {
                out.bool(1, true);
                out.string(2, &table.name);
                out.int(3, table.rows);
                for column in &table.columns {
                    out.string(4, column);
                }
                out.double(5, table.duration_ms);
                out.string(7, &table.sql);
                out.string(8, &table.text);
                out.string(9, &table.standalone_sql);
            }
            Ok(None) => out.bool(1, false),
            Err(error) => {
                out.bool(1, true);
                out.string(6, &error.message);
            }
        })
    }

    /// Drops a summarizer, and returns the message `DestroySummarizerResult`.
    pub(super) fn destroy_summarizer(&mut self, arguments: &[u8]) -> Vec<u8> {
        let id = text(arguments, 1);
        match self.summarizers.remove(&id) {
            Some(summarizer) => {
                summarizer.destroy(&mut self.engine);
                Vec::new()
            }
            None => encode(|out| out.string(1, &missing(&id).message)),
        }
    }
}

fn missing(id: &str) -> SqlError {
    SqlError::new(format!("There is no summarizer '{id}'."))
}
