//! Conversion of files of other programs to traces.
//!
//! [`import`] reads a file of another program and writes packets. It sorts events by time first, in
//! a temporary file if they take more than [`Options::memory`], so memory is bounded whatever the
//! size of the file. The [`Report`] counts the parts of the file that the trace format cannot
//! express.

mod chrome;
mod events;
mod perf;
mod profile;
mod report;
mod sorter;
mod strace;
mod systrace;
mod writer;

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};

use crate::perf_data::PerfError;
use crate::{Format, HEAD_BYTES};

pub use report::{Losses, Report};
use writer::Writer;

/// Settings of an import.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The number of bytes of events to sort in memory. More are sorted in a temporary file.
    pub memory: usize,
    /// The UUID of the trace.
    pub uuid: Option<[u8; 16]>,
    /// Reads the files that the recording names, to learn what the recording lacks: their load bias
    /// and their build ids. Set this only on the machine of the recording.
    pub reads_files: bool,
    /// The limit of decompressed data in bytes, unless it is the default of a
    /// [`DecompressionBudget`](ferretto_format::decompression::DecompressionBudget).
    pub decompressed: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory: 32 << 20,
            uuid: None,
            reads_files: true,
            decompressed: None,
        }
    }
}

/// The reason why a file cannot be converted to a trace.
#[derive(Debug)]
pub enum ImportError {
    /// The file cannot be read.
    Read(io::Error),
    /// The trace cannot be written.
    Write(io::Error),
    /// Files of this format cannot be converted; `None` if the format is unknown.
    Format(Option<Format>),
    /// The content does not match the format that the first bytes announce.
    Broken(String),
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::Write(error) => write!(f, "cannot write the trace: {error}"),
            Self::Format(Some(Format::Proto | Format::Symbols)) => {
                f.write_str("the file is a Perfetto trace already; it needs no import")
            }
            Self::Format(Some(Format::Tar | Format::Zip)) => {
                f.write_str("the file is an archive; unpack it and import its files one by one")
            }
            Self::Format(_) => f.write_str(
                "unknown format; import reads perf.data, the output of perf script and strace, \
                 systrace, Chrome's JSON, collapsed stacks and pprof profiles",
            ),
            Self::Broken(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for ImportError {}

impl From<PerfError> for ImportError {
    fn from(error: PerfError) -> Self {
        match error {
            PerfError::Read(error) => Self::Read(error),
            error => Self::Broken(error.to_string()),
        }
    }
}

/// Returns true if [`import`] converts files of this format.
pub fn is_imported(format: Format) -> bool {
    matches!(
        format,
        Format::PerfData
            | Format::Json
            | Format::PerfText
            | Format::CollapsedStacks
            | Format::Pprof
            | Format::Strace
            | Format::Systrace
    )
}

/// Converts a file to a trace.
///
/// # Errors
///
/// Fails if the format is not supported, the file is damaged, or the trace cannot be written.
pub fn import<R: Read + Seek>(
    mut input: R,
    options: &Options,
    out: &mut dyn Write,
) -> Result<Report, ImportError> {
    let head = head(&mut input).map_err(ImportError::Read)?;
    let mut writer = Writer::new(out, options.uuid);
    let format = Format::detect(&head);
    let report = match format {
        Some(Format::PerfData) => perf::data(input, options, &mut writer)?,
        Some(Format::Json) => chrome::import(input, options, &mut writer)?,
        Some(Format::PerfText) => perf::text(input, options, &mut writer)?,
        Some(Format::CollapsedStacks) => profile::collapsed(input, &mut writer)?,
        Some(Format::Pprof) => profile::pprof(input, &mut writer)?,
        Some(Format::Systrace) => systrace::import(input, options, &mut writer)?,
        Some(Format::Strace) => strace::import(input, options, &mut writer)?,
        format => return Err(ImportError::Format(format)),
    };
    writer.finish().map_err(ImportError::Write)?;
    Ok(report)
}

/// Returns the first bytes of a file, and rewinds it.
fn head<R: Read + Seek>(input: &mut R) -> io::Result<Vec<u8>> {
    input.rewind()?;
    let mut head = Vec::new();
    input.take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    input.rewind()?;
    Ok(head)
}

/// Reads a file piece by piece.
fn pieces<R: Read>(
    input: R,
    mut each: impl FnMut(&[u8]) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    const PIECE: usize = 256 << 10;
    let mut input = BufReader::with_capacity(PIECE, input);
    loop {
        let bytes = match input.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(ImportError::Read(error)),
        };
        if bytes.is_empty() {
            return Ok(());
        }
        each(bytes)?;
        let count = bytes.len();
        input.consume(count);
    }
}
