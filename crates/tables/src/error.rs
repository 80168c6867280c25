//! The reasons why imports fail.

use std::io;
use std::path::PathBuf;

use ferretto_trace::ReadError;

/// The reason why an import failed.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be opened.
    #[error("cannot open {}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file cannot be read.
    #[error("cannot import the trace")]
    Read(#[from] ReadError),
    /// The format of the file is unknown.
    #[error("Unknown trace type provided (ERR:fmt){}", within(file))]
    UnknownFormat {
        /// The path of the file in an archive, if it is in one.
        file: Option<String>,
    },
    /// The file has tables, such as an export of them, and is no trace.
    #[error(
        "Unknown trace type provided (ERR:fmt){}: it has tables, which {reader} read, and no trace",
        within(file)
    )]
    Tables {
        /// The programs that read such files.
        reader: &'static str,
        /// The path of the file in an archive, if it is in one.
        file: Option<String>,
    },
    /// The file is malformed.
    #[error("Trace parse failure: {reason} (ERR:tp-parse){}", within(file))]
    Parse {
        /// The rule that the file breaks.
        reason: String,
        /// The path of the file in an archive, if it is in one.
        file: Option<String>,
    },
    /// The import was cancelled.
    #[error("the import was cancelled")]
    Cancelled,
}

fn within(file: &Option<String>) -> String {
    let file = file.as_ref();
    file.map_or(String::new(), |name| format!(" in {name}"))
}
