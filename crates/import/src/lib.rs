//! Traces made of the files of other programs.
//!
//! [`import`] reads a file of another program and writes packets. Events are sorted by time first,
//! in a temporary file where it is more than some MiB ([`Options::memory`]), so that memory is
//! bounded whatever the size of the file. Parts that packets have no place for are counted
//! ([`Report`]).

#![forbid(unsafe_code)]

mod chrome;
mod perf;
mod profile;
mod report;
mod sorter;
mod writer;

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};

pub use ferretto_formats::Format;
use ferretto_formats::HEAD_BYTES;
use ferretto_formats::perf_data::PerfError;

pub use report::{Left, Report};
use writer::Writer;

/// The settings of an import.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The bytes of events that are kept in memory while they are sorted.
    pub memory: usize,
    /// The id of the trace.
    pub uuid: [u8; 16],
    /// The files that a recording names are looked at, for what it does not say about them: where
    /// their code lies, and their build ids. That is right on the machine of the recording.
    pub looks_at_files: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory: 32 << 20,
            uuid: [0; 16],
            looks_at_files: true,
        }
    }
}

/// Why no trace can be made of a file.
#[derive(Debug)]
pub enum ImportError {
    /// It cannot be read.
    Read(io::Error),
    /// The trace cannot be written.
    Write(io::Error),
    /// It is of a kind that none can be made of.
    Format(Option<Format>),
    /// It is not what its beginning says.
    Broken(String),
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::Write(error) => write!(f, "cannot write the trace: {error}"),
            Self::Format(Some(Format::Proto | Format::Symbols)) => {
                f.write_str("it is a trace already; nothing is to be imported")
            }
            Self::Format(Some(Format::Tar | Format::Zip)) => f.write_str(
                "it is an archive; unpack it and import the files in it one by one",
            ),
            Self::Format(Some(format @ (Format::Systrace | Format::Strace))) => write!(
                f,
                "files of {} are not made into traces; ferretto view, query and json read them as they are",
                format.as_str()
            ),
            Self::Format(_) => f.write_str(
                "it begins like no file that can be imported, which are: perf.data, the output of perf script, \
                 Chrome's JSON, collapsed stacks, and profiles of pprof",
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

/// Makes a trace of a file, which may be compressed by gzip or zstd if it is no `perf.data`.
///
/// # Errors
///
/// If the file is none that can be imported, is damaged, or the trace cannot be written.
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
        format => return Err(ImportError::Format(format)),
    };
    writer.finish().map_err(ImportError::Write)?;
    Ok(report)
}

/// Returns the first bytes of a file, which is as before then.
fn head<R: Read + Seek>(input: &mut R) -> io::Result<Vec<u8>> {
    input.rewind()?;
    let mut head = Vec::new();
    input.take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    input.rewind()?;
    Ok(head)
}

/// Hands out the bytes of a file piece by piece.
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
