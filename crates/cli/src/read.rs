//! Reading of traces by commands: the file, the memory limit, and messages about damage.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Cursor, Read, Seek as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use clap::Args;
use ferretto_foreign::{Format, Report};
use ferretto_tables::{Continue, Health, ImportError, Options, TableSet, Trace};
use ferretto_trace::{Damage, Limits, Unpacking};

use crate::conversion::tell_losses;
use crate::errors::DAMAGED;
use crate::output::is_standard;
use ferretto_text::amount::counted;
use ferretto_text::terminal::shown;

/// The trace when none is named: the default of `record`.
pub(crate) const DEFAULT_TRACE: &str = "trace.pftrace";

/// The limits of reading.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct LimitArgs {
    /// Memory limit for reading, for example 512M or 2G; parts that do not fit are left out and
    /// reported [default: 256M]
    #[arg(long, value_name = "SIZE", value_parser = parse_limits)]
    max_memory: Option<Limits>,
    #[command(flatten)]
    unpacked: UnpackedArgs,
}

/// The limit of decompressed data.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct UnpackedArgs {
    /// Limit of decompressed data, for example 8G; the rest is left out and reported [default: 64M,
    /// or 128 times the compressed data if that is more]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    max_unpacked: Option<u64>,
}

/// The trace argument of a command.
#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// The trace, which may be compressed by gzip or zstd; - is standard input
    #[arg(value_name = "FILE", default_value = DEFAULT_TRACE)]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

impl LimitArgs {
    pub(crate) fn limits(self) -> Limits {
        self.unpacked.within(self.max_memory.unwrap_or_default())
    }
}

impl UnpackedArgs {
    /// Returns these limits with that of decompressed data.
    pub(crate) fn within(self, limits: Limits) -> Limits {
        limits.with_decompressed(self.max_unpacked)
    }
}

/// A reader whose bytes are counted, and that can be told to end.
pub(crate) struct Watched<R, F> {
    inner: R,
    bytes: u64,
    watch: F,
}

impl<R, F: FnMut(u64) -> bool> Watched<R, F> {
    /// Creates a reader that calls `watch` with the number of bytes, and fails if it returns false.
    pub(crate) fn new(inner: R, watch: F) -> Self {
        Self {
            inner,
            bytes: 0,
            watch,
        }
    }
}

impl<R: Read, F: FnMut(u64) -> bool> Read for Watched<R, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !(self.watch)(self.bytes) {
            return Err(io::Error::other("it was cancelled"));
        }
        let read = self.inner.read(buffer)?;
        self.bytes += read as u64;
        Ok(read)
    }
}

/// The names to show of files whose paths mean nothing to people.
static NAMES: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());

/// A name that is shown in place of a path, such as that of a descriptor, until this is dropped.
pub(crate) struct ShownAs(PathBuf);

impl ShownAs {
    /// Shows a name in place of a path.
    pub(crate) fn new(path: PathBuf, name: &str) -> Self {
        let shown = Self(path);
        shown.rename(name);
        shown
    }

    /// Shows another name.
    pub(crate) fn rename(&self, name: &str) {
        names().insert(self.0.clone(), name.to_owned());
    }
}

impl Drop for ShownAs {
    fn drop(&mut self) {
        names().remove(&self.0);
    }
}

fn names() -> MutexGuard<'static, BTreeMap<PathBuf, String>> {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the name to show of a path.
fn name_of(path: &Path) -> String {
    let name = names().get(path).cloned();
    name.unwrap_or_else(|| path.display().to_string())
}

/// Opens a trace, and returns its name to show; `-` is standard input.
pub(crate) fn open(path: &Path) -> Result<(String, Box<dyn Read>)> {
    if path.as_os_str() == "-" {
        let name = "standard input".to_owned();
        let input = not_empty(io::stdin().lock(), &name)?;
        return Ok((name, Box::new(input)));
    }
    let name = name_of(path);
    let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
    check(path, &file)?;
    let input = not_empty(file, &name)?;
    Ok((name, Box::new(input)))
}

/// A trace to read.
pub(crate) struct Input {
    /// Its name to show.
    pub(crate) name: String,
    /// Its packets.
    pub(crate) packets: Box<dyn Read>,
    /// Its completeness: parts of a converted file may be left out, which was reported.
    pub(crate) extent: Extent,
}

/// Opens a trace, or a file of another program, which is converted; `-` is standard input.
pub(crate) fn open_any(path: &Path, limits: Limits) -> Result<Input> {
    let (name, mut input) = open(path)?;
    let (format, head) = format_of(&mut input, &name)?;
    let input = Cursor::new(head).chain(input);
    if !format.is_some_and(ferretto_foreign::is_imported) {
        return Ok(Input {
            name,
            packets: Box::new(input),
            extent: Extent::Whole,
        });
    }
    let (packets, extent) = convert(input, &name, limits)?;
    Ok(Input {
        name,
        packets: Box::new(packets),
        extent,
    })
}

/// Opens a trace that is read several times. Standard input is copied into an unnamed file.
pub(crate) fn seekable(path: &Path) -> Result<(String, File)> {
    let (name, mut input) = open(path)?;
    if !is_standard(path)
        && let Ok(file) = File::open(path)
        && file.metadata().is_ok_and(|metadata| metadata.is_file())
    {
        return Ok((name, file));
    }
    let mut copy = tempfile::tempfile().context("cannot create a temporary file")?;
    io::copy(&mut input, &mut copy).with_context(|| format!("cannot copy {name}"))?;
    copy.rewind()?;
    Ok((name, copy))
}

/// Opens a trace, or a file of another program, which is converted if its format is one of these,
/// as a file. Returns its name to show and its completeness.
pub(crate) fn seekable_any(
    path: &Path,
    is_converted: impl Fn(Format) -> bool,
    limits: Limits,
) -> Result<(String, File, Extent)> {
    let (name, mut file) = seekable(path)?;
    let (format, _) = format_of(&mut file, &name)?;
    file.rewind()?;
    if !format.is_some_and(is_converted) {
        return Ok((name, file, Extent::Whole));
    }
    let (packets, extent) = convert(file, &name, limits)?;
    Ok((name, packets, extent))
}

/// Converts a file of another program if its format is one of these. Returns its name to show, its
/// packets and its completeness.
pub(crate) fn converted(
    path: &Path,
    formats: &[Format],
    limits: Limits,
) -> Result<Option<(String, File, Extent)>> {
    let (name, mut input) = open(path)?;
    let (format, head) = format_of(&mut input, &name)?;
    if !format.is_some_and(|format| formats.contains(&format)) {
        return Ok(None);
    }
    let (packets, extent) = convert(Cursor::new(head).chain(input), &name, limits)?;
    Ok(Some((name, packets, extent)))
}

/// Converts a file of another program to packets, and reports the parts that are left out.
fn convert(input: impl Read, name: &str, limits: Limits) -> Result<(File, Extent)> {
    let cannot_read = || format!("cannot read {name}");
    let temporary = || tempfile::tempfile().context("cannot create a temporary file");
    let mut copy = temporary()?;
    io::copy(&mut Unpacking::new(input, limits), &mut copy).with_context(cannot_read)?;
    let mut packets = BufWriter::new(temporary()?);
    let options = ferretto_foreign::Options {
        decompressed: limits.decompressed_bytes(),
        ..ferretto_foreign::Options::default()
    };
    let report = ferretto_foreign::import(&mut copy, &options, &mut packets);
    let report = report
        .map_err(crate::conversion::explained)
        .with_context(cannot_read)?;
    let mut packets = packets.into_inner().map_err(io::Error::from)?;
    packets.rewind()?;
    Ok((packets, Extent::of_conversion(name, &report)))
}

/// The number of bytes at the start of a file that decide its format, also if it is compressed.
/// A block of Zstandard may take 128 KiB.
const COMPRESSED_HEAD: u64 = 256 << 10;

/// Returns the format of a file, or of its content if it is compressed, and the bytes that were
/// read for it.
fn format_of(input: &mut impl Read, name: &str) -> Result<(Option<Format>, Vec<u8>)> {
    let mut head = Vec::new();
    let read = input.take(COMPRESSED_HEAD).read_to_end(&mut head);
    read.with_context(|| format!("cannot read {name}"))?;
    let format = Format::detect(&head);
    if !matches!(format, Some(Format::Gzip | Format::Zstd)) {
        return Ok((format, head));
    }
    let mut content = vec![0; ferretto_foreign::HEAD_BYTES];
    let mut unpacking = Unpacking::new(&head[..], Limits::default());
    let mut length = 0;
    // The head ends before the content does.
    while length < content.len()
        && let Ok(count @ 1..) = unpacking.read(&mut content[length..])
    {
        length += count;
    }
    Ok((Format::detect(&content[..length]), head))
}

/// The format of a file's content.
pub(crate) struct Content {
    /// `None` if it is unknown.
    pub(crate) format: Option<Format>,
    /// True if the file is compressed.
    pub(crate) is_compressed: bool,
}

/// Returns the format of a file's content, of which only the beginning is decompressed, and rewinds
/// the file.
pub(crate) fn content_format(file: &mut File, limits: Limits) -> io::Result<Content> {
    let mut head = Vec::new();
    let mut unpacking = Unpacking::new(&mut *file, limits);
    let read = (&mut unpacking)
        .take(ferretto_foreign::HEAD_BYTES as u64)
        .read_to_end(&mut head);
    let is_compressed = unpacking.compression().is_some();
    // A damaged end of a small file is reported when it is read.
    if !is_compressed {
        read?;
    }
    file.rewind()?;
    Ok(Content {
        format: Format::detect(&head),
        is_compressed,
    })
}

/// Refuses input without a byte, such as that of /dev/null.
fn not_empty<R: Read>(mut input: R, name: &str) -> Result<io::Chain<Cursor<Vec<u8>>, R>> {
    let mut first = Vec::new();
    let read = (&mut input).take(1).read_to_end(&mut first);
    read.with_context(|| format!("cannot read {name}"))?;
    if first.is_empty() {
        anyhow::bail!("cannot read {name}: it is empty");
    }
    Ok(Cursor::new(first).chain(input))
}

/// Refuses files that nothing can be read of.
///
/// # Errors
///
/// Fails if it is a folder, or an ordinary file without a byte.
pub(crate) fn check(path: &Path, file: &File) -> Result<()> {
    let name = path.display();
    let metadata = file
        .metadata()
        .with_context(|| format!("cannot open {name}"))?;
    if metadata.is_dir() {
        anyhow::bail!("cannot open {name}: it is a directory");
    }
    if metadata.is_file() && metadata.len() == 0 {
        anyhow::bail!("cannot read {name}: the file is empty");
    }
    Ok(())
}

/// Imports a trace into tables, and reports the data that could not be read. Returns its name to
/// show, and its completeness.
pub(crate) fn tables(path: &Path, tables: TableSet) -> Result<(String, Trace, Extent)> {
    let options = Options {
        tables,
        ..Options::default()
    };
    tables_with(path, &options)
}

/// Imports a trace into tables with these options, as [`tables`] does.
pub(crate) fn tables_with(path: &Path, options: &Options) -> Result<(String, Trace, Extent)> {
    let (name, trace) = if is_standard(path) {
        let name = "standard input".to_owned();
        let input = not_empty(io::stdin(), &name)?;
        let trace = Trace::read(input, options).map_err(explained);
        (name, trace.context("cannot read standard input")?)
    } else {
        let name = shown(&name_of(path)).into_owned();
        let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
        check(path, &file)?;
        let trace = if file.metadata().is_ok_and(|it| it.is_file()) {
            Trace::open(path, options, |_| Continue::Yes)
        } else {
            Trace::read(not_empty(file, &name)?, options)
        };
        let trace = trace.map_err(explained);
        let trace = trace.with_context(|| format!("cannot read {name}"))?;
        (name, trace)
    };
    for remark in trace.remarks() {
        eprintln!("ferretto: {}: {}", shown(&name), shown(remark));
    }
    let extent = if trace.remarks().is_empty() {
        Extent::Whole
    } else {
        Extent::Partly
    };
    let extent = extent.and_health(&name, &trace.health());
    Ok((name, trace, extent))
}

/// An error of an import into tables, without the codes that programs of upstream's look for.
pub(crate) fn explained(error: ImportError) -> anyhow::Error {
    match error {
        ImportError::UnknownFormat { file: None } => {
            anyhow::anyhow!(
                "it is neither a trace nor a file of another program that is known here"
            )
        }
        ImportError::Parse { reason, file } => {
            let reason = without_codes(&reason);
            match file {
                Some(file) => anyhow::anyhow!("{file} in it: {reason}"),
                None => anyhow::anyhow!("{reason}"),
            }
        }
        error => error.into(),
    }
}

/// Takes codes such as `(ERR:tp-corrupt)` out of a message.
fn without_codes(text: &str) -> String {
    let words = text.split(' ');
    let words: Vec<&str> = words.filter(|word| !word.starts_with("(ERR:")).collect();
    words.join(" ")
}

/// The completeness of a read trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The whole trace was read.
    Whole,
    /// Only a part was read, which was reported.
    Partly,
}

impl Extent {
    /// Reports the parts of a file that its conversion left out.
    pub(crate) fn of_conversion(name: &str, report: &Report) -> Self {
        if tell_losses(name, report) {
            Self::Whole
        } else {
            Self::Partly
        }
    }

    /// Reports on standard error which parts of a file were left out.
    pub(crate) fn report(name: &str, damage: &Damage) -> Self {
        for sentence in damage.sentences() {
            eprintln!("ferretto: {}: {sentence}", shown(name));
        }
        if damage.is_limit() {
            eprintln!("ferretto: allow more memory with --max-memory");
        }
        if damage.is_none() {
            Self::Whole
        } else {
            Self::Partly
        }
    }

    /// Also reports `left_out` parts that exceeded the memory limit.
    pub(crate) fn and_left_out(self, name: &str, left_out: u64) -> Self {
        if left_out == 0 {
            return self;
        }
        eprintln!(
            "ferretto: {}: {} left out because of the memory limit; raise it with --max-memory",
            shown(name),
            counted(left_out, "entry")
        );
        Self::Partly
    }

    /// Also reports the data that cannot be shown.
    pub(crate) fn and_health(self, name: &str, health: &Health) -> Self {
        for reason in health.iter() {
            eprintln!("ferretto: {}: {reason}", shown(name));
        }
        if health.is_empty() {
            self
        } else {
            Self::Partly
        }
    }

    /// Combines the completeness of two files.
    pub(crate) fn and(self, other: Self) -> Self {
        match other {
            Self::Whole => self,
            Self::Partly => other,
        }
    }

    pub(crate) fn exit_code(self) -> ExitCode {
        match self {
            Self::Whole => ExitCode::SUCCESS,
            Self::Partly => ExitCode::from(DAMAGED),
        }
    }
}

pub(crate) fn parse_limits(text: &str) -> Result<Limits, String> {
    match parse_bytes(text)? {
        ..Limits::MIN_MEMORY => Err(format!("at least {}M is needed", Limits::MIN_MEMORY >> 20)),
        bytes => Ok(Limits::memory(bytes)),
    }
}

const NO_SIZE: &str = "expected a number and a unit, such as 512M";

/// Parses a number of bytes with a unit.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let upper = text.to_ascii_uppercase();
    let upper = upper
        .strip_suffix("IB")
        .or(upper.strip_suffix('B'))
        .unwrap_or(&upper);
    let (number, shift) = match upper.strip_suffix(['K', 'M', 'G']) {
        Some(number) if upper.ends_with('K') => (number, 10),
        Some(number) if upper.ends_with('M') => (number, 20),
        Some(number) => (number, 30),
        None if upper.bytes().all(|byte| byte.is_ascii_digit()) => {
            return Err(format!("missing unit; use {upper}K, {upper}M or {upper}G"));
        }
        None => return Err(NO_SIZE.to_owned()),
    };
    let number: u64 = number.trim().parse().map_err(|_| NO_SIZE.to_owned())?;
    Ok(number.saturating_mul(1 << shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_need_a_unit() {
        assert_eq!(parse_limits("64M"), Ok(Limits::memory(64 << 20)));
        assert_eq!(parse_limits("2G"), Ok(Limits::memory(2 << 30)));
        assert_eq!(parse_limits("20480KiB"), Ok(Limits::memory(20 << 20)));
        for wrong in ["64", "", "M", "1M", "-1G", "1.5G", "64X"] {
            assert!(parse_limits(wrong).is_err(), "{wrong}");
        }
    }
}
