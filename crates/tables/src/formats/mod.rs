//! Formats of files other than packets.
//!
//! A [`FileReader`] takes the bytes of a file as they come, and hands what has a time to the
//! importer as [`Line`](crate::import::Line)s, which are read again when their time has come
//! ([`Lines`]).

mod archive;
mod collapsed;
mod json;
mod lines;
mod perf_text;
mod pprof;
mod strace;
mod systrace;

use std::io::{self, Read};

use ferretto_format::clock::{MONOTONIC, REALTIME};
use ferretto_formats::LineBuffer;

pub(crate) use self::archive::Member;
pub(crate) use self::lines::Lines;
pub use ferretto_formats::Format;
pub(crate) use ferretto_formats::HEAD_BYTES;

use crate::import::Importer;
use crate::trackers::clock::TRACE_FILE;

/// The reason why a file cannot be read any further.
#[derive(Debug)]
pub(crate) struct FileError(pub(crate) String);

/// Reads files of one format.
pub(crate) trait FileReader: std::fmt::Debug {
    /// Takes the next bytes of the file.
    fn push(&mut self, importer: &mut Importer, bytes: &[u8]) -> Result<(), FileError>;

    /// Takes the end of the file.
    fn finish(&mut self, importer: &mut Importer) -> Result<(), FileError>;
}

/// Returns the reader of a format; `None` if it is packets, or contains files.
pub(crate) fn reader(format: Format) -> Option<Box<dyn FileReader>> {
    Some(match format {
        Format::Json => Box::<json::JsonFile>::default(),
        Format::CollapsedStacks => Box::<collapsed::CollapsedFile>::default(),
        Format::PerfText => Box::<perf_text::PerfTextFile>::default(),
        Format::Systrace => Box::<systrace::SystraceFile>::default(),
        Format::Pprof => Box::<pprof::PprofFile>::default(),
        Format::Strace => Box::<strace::StraceFile>::default(),
        // Others are refused before they are read.
        _ => return None,
    })
}

/// Returns the clock of the times in files of a format, if it has one. Packets tell theirs
/// themselves.
pub(crate) fn clock(format: Format) -> Option<u32> {
    match format {
        Format::Json => Some(TRACE_FILE),
        Format::Systrace | Format::PerfText => Some(MONOTONIC),
        Format::Strace => Some(REALTIME),
        _ => None,
    }
}

/// Returns the files in an archive with their ranks: those of lower ranks are to be read first. A
/// manifest is first, then packets, other archives, other formats, and names of functions last.
/// They take as many bytes as are allowed at most.
///
/// # Errors
///
/// If the archive is damaged, or too large.
pub(crate) fn members(
    format: Format,
    input: &mut dyn Read,
    allowed: u64,
) -> io::Result<Vec<(u8, Member)>> {
    let mut members = match format {
        Format::Zip => archive::zip_members(input, allowed)?,
        _ => archive::tar_members(input, allowed)?,
    };
    members.retain(|member| !member.is_hidden());
    let mut ranked = Vec::with_capacity(members.len());
    for member in members {
        let mut head = Vec::new();
        member
            .open()
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
