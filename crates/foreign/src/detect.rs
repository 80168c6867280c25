//! Detection of the format of a file by its first bytes.

use ferretto_format::PACKET_TAG;
use ferretto_proto::fields::trace_packet;

use crate::{collapsed, perf_data, perf_text, pprof, simpleperf, strace};

/// The number of bytes at the start of a file that decide its format.
pub const HEAD_BYTES: usize = 4096;

/// The number of these bytes that decide between text formats.
const TEXT_BYTES: usize = 128;

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Format {
    /// An archive of `tar`.
    Tar,
    /// An archive of `zip`.
    Zip,
    /// A file compressed by `gzip`.
    Gzip,
    /// A file compressed by `zstd`.
    Zstd,
    /// Events in JSON, as Chrome writes them.
    Json,
    /// Kernel events in the text format of tracefs, or an HTML page that contains them.
    Systrace,
    /// Callstacks with counts as text, the input of flame graphs.
    CollapsedStacks,
    /// The output of `perf script`.
    PerfText,
    /// A file of `perf record`.
    PerfData,
    /// A protobuf report of simpleperf.
    Simpleperf,
    /// The output of `strace`.
    Strace,
    /// A pprof profile.
    Pprof,
    /// A description of the other files of an archive: their machines and clocks.
    Manifest,
    /// Packets with symbols for another trace.
    Symbols,
    /// A Perfetto trace.
    Proto,
}

impl Format {
    /// Returns the name of the format in the tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tar => "tar",
            Self::Zip => "zip",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Json => "json",
            Self::Systrace => "systrace",
            Self::CollapsedStacks => "collapsed_stack",
            Self::PerfText => "perf_text",
            Self::PerfData => "perf",
            Self::Simpleperf => "simpleperf_proto",
            Self::Strace => "strace",
            Self::Pprof => "pprof",
            Self::Manifest => "perfetto_manifest",
            Self::Symbols => "symbols",
            Self::Proto => "proto",
        }
    }

    /// Returns true if files of this format contain other files.
    pub fn is_container(self) -> bool {
        matches!(self, Self::Tar | Self::Zip | Self::Gzip | Self::Zstd)
    }

    /// Returns the format of a file that starts with `head`, or `None` if it is unknown.
    /// [`HEAD_BYTES`] bytes suffice.
    pub fn detect(head: &[u8]) -> Option<Self> {
        let text = &head[..head.len().min(TEXT_BYTES)];
        let is_tar = |magic: &[u8]| matches!(magic, b"ustar\0" | b"ustar ");
        Some(match head {
            _ if head.get(257..263).is_some_and(is_tar) => Self::Tar,
            [b'P', b'K', 3, 4, ..] => Self::Zip,
            [0x1f, 0x8b, ..] => Self::Gzip,
            // Some programs write a skippable frame first.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            _ if perf_data::is_perf_data(head) => Self::PerfData,
            _ if simpleperf::is_simpleperf(head) => Self::Simpleperf,
            _ if is_manifest(head) => Self::Manifest,
            _ if is_json(text) => Self::Json,
            _ if collapsed::is_collapsed(head) => Self::CollapsedStacks,
            _ if perf_text::is_perf_text(head) => Self::PerfText,
            _ if strace::is_strace(head) => Self::Strace,
            _ if is_systrace(text) || is_kernel_event(text) => Self::Systrace,
            _ if collapsed::is_flat(head) => Self::CollapsedStacks,
            _ if is_symbols(head) => Self::Symbols,
            _ if pprof::is_pprof(head) => Self::Pprof,
            [PACKET_TAG, ..] => Self::Proto,
            _ => return None,
        })
    }
}

fn is_manifest(head: &[u8]) -> bool {
    let bytes = head.iter().filter(|byte| !byte.is_ascii_whitespace());
    bytes.take(20).eq(br#"{"perfetto_manifest""#)
}

fn is_json(text: &[u8]) -> bool {
    // Some programs begin files with a byte order mark.
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut bytes = text.iter().filter(|byte| !byte.is_ascii_whitespace());
    match bytes.next() {
        Some(b'{') => bytes.next() == Some(&b'"'),
        Some(b'[') => bytes.next() == Some(&b'{') && bytes.next() == Some(&b'"'),
        _ => false,
    }
}

/// The line that `atrace` writes before the events.
pub const TRACE_LINE: &[u8] = b"TRACE:\n";

fn is_systrace(text: &[u8]) -> bool {
    let starts = |with: &str| {
        let start = text.get(..with.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(with.as_bytes()))
    };
    find(text, b"# tracer").is_some()
        || starts("<!doctype html>")
        || starts("<html>")
        || find(text, TRACE_LINE).is_some()
        || text.starts_with(b"cpus=")
        || text.starts_with(b" ")
}

/// Returns true if the first line is a kernel event: `bash-4711 [003] d..3 1234.567890: name: …`.
fn is_kernel_event(text: &[u8]) -> bool {
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let Some((before, behind)) = str::from_utf8(line).ok().and_then(|line| {
        let (before, behind) = line.split_once(" [")?;
        Some((before, behind.split_once(']')?))
    }) else {
        return false;
    };
    let (cpu, rest) = behind;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let id = before.split('(').next().unwrap_or_default().trim_end();
    let has_id = id.rsplit_once('-').is_some_and(|(_, id)| is_number(id));
    let is_time = |word: &str| {
        let time = word.strip_suffix(':').and_then(|time| time.split_once('.'));
        time.is_some_and(|(seconds, fraction)| is_number(seconds) && is_number(fraction))
    };
    is_number(cpu) && has_id && rest.split_whitespace().take(3).any(is_time)
}

/// Returns true if the first field of the first packet is `module_symbols`.
fn is_symbols(head: &[u8]) -> bool {
    let packet = head.strip_prefix(&[PACKET_TAG]);
    let packet = packet.and_then(|packet| {
        let length = packet.iter().position(|byte| *byte < 0x80)? + 1;
        packet.get(length..)
    });
    let tag = trace_packet::MODULE_SYMBOLS << 3 | 2;
    packet.is_some_and(|packet| packet.starts_with(&[tag as u8 & 0x7f | 0x80, (tag >> 7) as u8]))
}

/// Returns the offset of the first occurrence of `what` in `text`.
pub fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}
