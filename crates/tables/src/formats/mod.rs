//! Formats of files other than packets.
//!
//! A [`FileReader`] takes the bytes of a file as they come, and hands what has a time to the
//! importer as [`Line`](crate::import::Line)s, which are read again when their time has come
//! ([`Lines`]).

mod archive;
mod collapsed;
mod detect;
mod json;
mod lines;
mod perf_text;
mod pprof;
mod strace;
mod systrace;

use std::io::{self, Read};

pub(crate) use self::archive::Member;
pub use self::detect::Format;
pub(crate) use self::detect::HEAD_BYTES;
pub(crate) use self::lines::Lines;

use crate::import::Importer;

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
        Format::Tar | Format::Zip | Format::Gzip | Format::Zstd => return None,
        Format::Symbols | Format::Proto | Format::Manifest => return None,
    })
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

/// Bytes of lines beyond this number are cut off.
const MAX_LINE: usize = 1 << 20;

/// Takes bytes apart into lines.
#[derive(Debug, Default)]
struct LineBuffer {
    bytes: Vec<u8>,
}

impl LineBuffer {
    /// Hands out the lines that end in these bytes.
    fn push(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(&str) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.append(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.bytes);
            each(&String::from_utf8_lossy(&line))?;
        }
        self.append(bytes);
        Ok(())
    }

    /// Hands out the last line, which may have no end.
    fn finish(
        &mut self,
        mut each: impl FnMut(&str) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        let line = std::mem::take(&mut self.bytes);
        if line.is_empty() {
            return Ok(());
        }
        each(&String::from_utf8_lossy(&line))
    }

    fn append(&mut self, bytes: &[u8]) {
        let room = MAX_LINE.saturating_sub(self.bytes.len());
        self.bytes
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}
