//! Formats of files other than packets.
//!
//! A [`FileReader`] receives the bytes of a file. It passes timed records to the importer as
//! [`Line`](crate::import::Line)s, which [`Lines`] parses in the order of time.

mod archive;
mod collapsed;
mod json;
mod lines;
mod perf_text;
mod pprof;
mod samples;
mod simpleperf;
mod strace;
mod systrace;

use std::io::{self, Read};

use ferretto_foreign::LineBuffer;
use ferretto_format::clock::{MONOTONIC, REALTIME};
use ferretto_format::decompression::DecompressionBudget;

pub(crate) use self::archive::Member;
pub(crate) use self::lines::Lines;
pub use ferretto_foreign::Format;
pub(crate) use ferretto_foreign::HEAD_BYTES;

use crate::import::Importer;
use crate::trackers::clock::TRACE_FILE;

/// The reason why the rest of a file cannot be read.
#[derive(Debug)]
pub(crate) struct FileError(pub(crate) String);

/// A reader of one format.
pub(crate) trait FileReader: std::fmt::Debug {
    /// Reads the next bytes of the file.
    fn push(&mut self, importer: &mut Importer, bytes: &[u8]) -> Result<(), FileError>;

    /// Handles the end of the file.
    fn finish(&mut self, importer: &mut Importer) -> Result<(), FileError>;
}

/// Returns the reader of a format; `None` for packets and containers.
pub(crate) fn reader(format: Format) -> Option<Box<dyn FileReader>> {
    Some(match format {
        Format::Json => Box::<json::JsonFile>::default(),
        Format::CollapsedStacks => Box::<collapsed::CollapsedFile>::default(),
        Format::PerfText => Box::<perf_text::PerfTextFile>::default(),
        Format::Systrace => Box::<systrace::SystraceFile>::default(),
        Format::Pprof => Box::<pprof::PprofFile>::default(),
        Format::Simpleperf => Box::<simpleperf::SimpleperfFile>::default(),
        Format::Strace => Box::<strace::StraceFile>::default(),
        // All others are refused earlier.
        _ => return None,
    })
}

/// Returns the clock of times in files of a format, if it has one. Packets name their clocks
/// themselves.
pub(crate) fn clock(format: Format) -> Option<u32> {
    match format {
        Format::Json => Some(TRACE_FILE),
        Format::Systrace | Format::PerfText | Format::Simpleperf => Some(MONOTONIC),
        Format::Strace => Some(REALTIME),
        _ => None,
    }
}

/// Returns the files in an archive with their ranks. Files of lower ranks are read first:
/// manifests, then packets, nested archives, other formats, and symbols last. `allowed` limits
/// their total size.
///
/// # Errors
///
/// Fails if the archive is damaged or too large.
pub(crate) fn members(
    format: Format,
    input: &mut dyn Read,
    allowed: u64,
    budget: &DecompressionBudget,
) -> io::Result<Vec<(u8, Member)>> {
    let mut members = match format {
        Format::Zip => archive::zip_members(input, allowed, budget)?,
        _ => archive::tar_members(input, allowed, budget)?,
    };
    members.retain(|member| !member.is_hidden());
    let mut ranked = Vec::with_capacity(members.len());
    for member in members {
        let mut head = Vec::new();
        member
            .open(budget)
            .take(HEAD_BYTES as u64)
            .read_to_end(&mut head)?;
        let rank = match Format::detect(&head) {
            Some(Format::Manifest) => 0,
            Some(Format::Proto) => 1,
            Some(format) if format.is_container() => 2,
            Some(Format::Symbols) => 4,
            _ => 3,
        };
        ranked.push((rank, member));
    }
    Ok(ranked)
}
