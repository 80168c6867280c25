//! `ferretto symbolize FILE`: adds names of functions to a trace.

use std::fs::File;
use std::io::{self, Read as _, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use ferretto_symbols::{Module, Options, Outcome, ServerUrl, Symbolizer, module_symbols};
use ferretto_trace::profile::ProfileReader;
use ferretto_trace::{Compression, Damage, Limits, ReadError, TraceReader, Unpacking};

use crate::read::{DEFAULT_TRACE, Extent, LimitArgs, check};
use ferretto_text::amount::hex;
use ferretto_text::terminal::shown;

/// The largest number of unused files to list for each file of a recording.
const MAX_LISTED: usize = 6;

/// Add the names of functions to a trace
///
/// The callstacks of a trace are addresses in files. This looks up functions, inlined ones too,
/// source files and lines in those files or their debug files, which must have the recorded build
/// id. It appends the names to the trace, where all viewers find them. Addresses with names are
/// left alone.
///
/// Searches the folders of --symbols and $PERFETTO_BINARY_PATH, the recorded path, /usr/lib/debug,
/// and servers of --debuginfod.
#[derive(Debug, Args)]
pub(crate) struct SymbolizeArgs {
    /// The trace
    #[arg(value_name = "FILE", default_value = DEFAULT_TRACE)]
    file: PathBuf,
    /// Write the trace with the names to this file and leave the original unchanged; - is standard
    /// output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write only the names, to append to the trace
    #[arg(long, requires = "output")]
    only_names: bool,
    /// Folder with programs, libraries and debug files, or one such file
    #[arg(short, long, value_name = "PATH")]
    symbols: Vec<PathBuf>,
    /// Do not search this machine's own files, only those of --symbols and $PERFETTO_BINARY_PATH
    #[arg(long)]
    no_system: bool,
    /// Ask this server of debuginfod for debug files that are not on this machine, such as
    /// https://debuginfod.debian.net; it learns the build ids
    ///
    /// Its files are kept in $XDG_CACHE_HOME/ferretto/debuginfod. https needs the program curl.
    #[arg(long, value_name = "URL")]
    debuginfod: Vec<ServerUrl>,
    /// Use the file at the recorded path even if neither has a build id; valid only if it has not
    /// changed since the recording
    #[arg(long)]
    trust_paths: bool,
    /// Do not use the cache of names in $XDG_CACHE_HOME/ferretto
    #[arg(long)]
    no_cache: bool,
    #[command(flatten)]
    limits: LimitArgs,
}

pub(crate) fn run(args: &SymbolizeArgs) -> Result<Extent> {
    let mut options = Options::from_environment().map_err(anyhow::Error::msg)?;
    options.roots.splice(0..0, args.symbols.iter().cloned());
    options.system = !args.no_system;
    options.trust_paths = args.trust_paths;
    options.servers.clone_from(&args.debuginfod);
    options.cache = options.cache.filter(|_| !args.no_cache);
    for root in &args.symbols {
        if !root.exists() {
            bail!("cannot open {}: no such file or folder", root.display());
        }
    }
    let name = args.file.display();
    let mut file = File::open(&args.file).with_context(|| format!("cannot open {name}"))?;
    check(&args.file, &file)?;
    let limits = args.limits.limits();
    let read = Read::of(&file, limits).with_context(|| format!("cannot read {name}"))?;
    let name = name.to_string();
    let extent = Extent::report(&name, &read.damage).and_left_out(&name, read.left_out);
    if args.output.is_none() {
        read.check_appendable(&args.file)?;
    }
    let names = Names::find(options, read.modules);
    match &args.output {
        None => append(&args.file, &file, &names.packets)?,
        Some(output) => {
            let whole = (!args.only_names).then_some((&mut file, read.end, limits));
            crate::output::write(output, &[&args.file], |out| {
                Ok(write(out, whole, &names.packets)?)
            })?;
        }
    }
    names.report(&mut io::stderr().lock())?;
    Ok(extent)
}

/// The names for the files of a trace.
pub(crate) struct Names {
    found: Vec<(Module, Outcome)>,
    /// The packets to append to the trace.
    pub(crate) packets: Vec<u8>,
}

impl Names {
    /// Looks up the addresses of `modules`.
    pub(crate) fn find(options: Options, modules: Vec<Module>) -> Self {
        let outcomes = Symbolizer::new(options).symbolize(&modules);
        let mut packets = Vec::new();
        for (module, outcome) in modules.iter().zip(&outcomes) {
            packets.extend(module_symbols(module, &outcome.names));
            packets.extend(module_symbols(module, &outcome.starts));
        }
        let found = modules.into_iter().zip(outcomes).collect();
        Self { found, packets }
    }

    /// Returns the number of named addresses, and of all addresses.
    pub(crate) fn count(&self) -> (usize, usize) {
        let named = self.found.iter().map(|(_, outcome)| outcome.names.len());
        let all = self.found.iter().map(|(module, _)| module.rel_pcs.len());
        (named.sum(), all.sum())
    }

    /// Reports found and missing names by file.
    fn report(&self, out: &mut impl Write) -> io::Result<()> {
        if self.found.is_empty() {
            return writeln!(out, "ferretto: no address in the trace needs a name");
        }
        let (named, all) = self.count();
        writeln!(out, "ferretto: {named} of {all} addresses have names now")?;
        let mut found: Vec<_> = self.found.iter().collect();
        found.sort_by_key(|(module, _)| std::cmp::Reverse(module.rel_pcs.len()));
        for (module, outcome) in found {
            let (named, all) = (outcome.names.len(), module.rel_pcs.len());
            write!(out, "{named:>7} of {all:<7} {}", shown(&module.path))?;
            for used in &outcome.used {
                if Path::new(&module.path) != used {
                    write!(out, ", from {}", shown(&used.to_string_lossy()))?;
                }
            }
            writeln!(out)?;
            for remark in &outcome.remarks {
                writeln!(out, "{:18}{}", "", shown(remark))?;
            }
            if named < all && outcome.used.is_empty() {
                report_missing(out, module, outcome)?;
            }
        }
        Ok(())
    }
}

/// Explains why no names were found for a file.
fn report_missing(out: &mut impl Write, module: &Module, outcome: &Outcome) -> io::Result<()> {
    if !module.build_id.is_empty() {
        let id = hex(&module.build_id);
        writeln!(
            out,
            "{:18}no file with symbols and the build id {id} found",
            ""
        )?;
    }
    for (path, reason) in outcome.skipped.iter().take(MAX_LISTED) {
        let path = path.to_string_lossy();
        writeln!(
            out,
            "{:18}{}: {}",
            "",
            shown(&path),
            shown(&reason.to_string())
        )?;
    }
    Ok(())
}

/// The facts about a trace for adding names.
struct Read {
    /// The files with unnamed addresses.
    modules: Vec<Module>,
    /// The end of the last complete packet in the decompressed file.
    end: u64,
    compression: Option<Compression>,
    damage: Damage,
    left_out: u64,
}

impl Read {
    fn of(trace: &File, limits: Limits) -> Result<Self, ReadError> {
        let mut packets = TraceReader::with_limits(trace, limits);
        let mut profile = ProfileReader::with_limits(limits);
        let damage = packets.read_all(|packet| {
            profile.add(packet.bytes);
        })?;
        let profile = profile.finish();
        let modules = profile.modules().into_iter().map(|module| Module {
            path: module.path.to_string(),
            build_id: module.build_id.to_vec(),
            load_bias: module.load_bias,
            offset: Some(module.offset),
            rel_pcs: module.rel_pcs,
        });
        Ok(Self {
            modules: modules.collect(),
            end: damage.end().unwrap_or(packets.bytes_read()),
            compression: packets.compression().map(|(compression, _)| compression),
            damage,
            left_out: profile.left_out(),
        })
    }

    /// Fails if readers would not read names appended to the file.
    fn check_appendable(&self, trace: &Path) -> Result<()> {
        let name = trace.display();
        if let Some(compression) = self.compression {
            bail!(
                "cannot append names to {name}, which is compressed by {}; write the decompressed trace with the names to \
             another file with --output",
                compression.as_str()
            );
        }
        if let Some(end) = self.damage.end() {
            bail!(
                "cannot append names to {name}, which is damaged from byte {end} on; write the readable part with the \
             names to another file with --output"
            );
        }
        Ok(())
    }
}

/// Appends names to a trace that was read.
fn append(trace: &Path, read: &File, packets: &[u8]) -> Result<()> {
    let name = trace.display();
    let open = crate::output::append_to(trace, read);
    let mut file =
        open.with_context(|| format!("cannot write {name}; --output writes another file"))?;
    file.write_all(packets)
        .with_context(|| format!("cannot write {name}"))
}

/// Writes the start of a trace, if wanted, and the names.
fn write(
    out: &mut dyn Write,
    trace: Option<(&mut File, u64, Limits)>,
    packets: &[u8],
) -> io::Result<()> {
    if let Some((trace, end, limits)) = trace {
        trace.rewind()?;
        io::copy(&mut Unpacking::new(trace, limits).take(end), out)?;
    }
    out.write_all(packets)
}
