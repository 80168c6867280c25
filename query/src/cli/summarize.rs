//! Summaries of traces on the command line.

use std::io::{self, Write};
use std::path::PathBuf;

use ferretto_query::Engine;
use ferretto_query::summary::{
    Metrics, SummaryRequest, read_spec, structured_query, summarize, summary_text,
};

/// The options of a summary.
#[derive(Debug, Default)]
pub(super) struct SummaryArgs {
    /// The files of specifications.
    pub(super) specs: Vec<PathBuf>,
    /// The ids of metrics, or 'all'.
    pub(super) metrics: Option<String>,
    /// The id of the query for metadata.
    pub(super) metadata: Option<String>,
    /// True if the summary is written encoded.
    pub(super) is_binary: bool,
    /// The id of a structured query to run instead.
    pub(super) query: Option<String>,
}

impl SummaryArgs {
    /// Sets the format.
    pub(super) fn set_format(&mut self, name: &str) -> Result<(), String> {
        self.is_binary = match name {
            "text" => false,
            "binary" => true,
            _ => {
                return Err(format!(
                    "'{name}' is not a format of summaries: use text or binary"
                ));
            }
        };
        Ok(())
    }

    fn read(&self) -> Result<Vec<Vec<u8>>, String> {
        let read = |path: &PathBuf| -> Result<Vec<u8>, String> {
            let bytes = std::fs::read(path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            read_spec(&path.display().to_string(), &bytes).map_err(|error| error.message)
        };
        self.specs.iter().map(read).collect()
    }

    /// Returns the SQL of the structured query, if one is to be run.
    pub(super) fn sql(&self) -> Result<Option<String>, String> {
        let Some(id) = &self.query else {
            return Ok(None);
        };
        let sql = structured_query(&self.read()?, id);
        sql.map(Some).map_err(|error| error.message)
    }

    /// Computes the summary and prints it. Without the ids of metrics, it has those of `default`.
    pub(super) fn print(&self, engine: &mut Engine, default: &Metrics) -> Result<(), String> {
        let metrics = match self.metrics.as_deref() {
            None => default.clone(),
            Some(all) if all.eq_ignore_ascii_case("all") => Metrics::All,
            Some(ids) => Metrics::Named(ids.split(',').map(str::to_owned).collect()),
        };
        let request = SummaryRequest {
            specs: self.read()?,
            metrics,
            metadata: self.metadata.clone(),
        };
        let summary = summarize(engine, &request).map_err(|error| error.message)?;
        let mut out = io::stdout().lock();
        let written = if self.is_binary {
            out.write_all(&summary)
        } else {
            out.write_all(summary_text(&summary).as_bytes())
        };
        match written.and_then(|()| out.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(format!("cannot write the summary: {error}"))
            }
            _ => Ok(()),
        }
    }
}
