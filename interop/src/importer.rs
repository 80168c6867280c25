//! Upstream's importer, a program built from upstream's source.

use std::path::PathBuf;
use std::process::Command;

/// The query for the errors and losses that the importer counts in a trace.
const COMPLAINTS: &str =
    "select name, idx, value from stats where severity != 'info' and value > 0";

/// `trace_processor_shell` in the folder `FERRETTO_UPSTREAM`.
#[derive(Debug)]
pub struct Importer(PathBuf);

impl Importer {
    /// Returns the importer, if there is one.
    #[must_use]
    pub fn from_environment() -> Option<Self> {
        let folder = PathBuf::from(std::env::var_os("FERRETTO_UPSTREAM")?);
        Some(Self(folder.join("trace_processor_shell"))).filter(|importer| importer.0.exists())
    }

    /// Returns the result of a query on a trace as rows of comma-separated values.
    ///
    /// # Panics
    ///
    /// If the importer cannot read the trace or the query.
    #[must_use]
    pub fn query(&self, trace: &[u8], query: &str) -> Vec<String> {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), trace).expect("the trace is written");
        let output = Command::new(&self.0)
            .args(["-Q", query])
            .arg(file.path())
            .output()
            .expect("the importer runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{query}: {errors}");
        let rows = String::from_utf8_lossy(&output.stdout);
        rows.lines().skip(1).map(str::to_owned).collect()
    }

    /// Returns the errors and losses that the importer counts in a trace.
    ///
    /// # Panics
    ///
    /// As [`Self::query`].
    #[must_use]
    pub fn complaints(&self, trace: &[u8]) -> Vec<String> {
        self.query(trace, COMPLAINTS)
    }
}
