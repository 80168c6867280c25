//! `ferretto symbolize FILE`: names of functions for the addresses in a trace.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use ferretto_symbols::{Module, Options, Outcome, Symbolizer, module_symbols};
use ferretto_trace::profile::ProfileReader;
use ferretto_trace::{Compression, Damage, Limits, ReadError, TraceReader, Unpacking};

use crate::read::{DEFAULT_TRACE, Extent, MemoryArgs, check};
use ferretto_text::terminal::shown;

/// Files that are listed of those that were looked at for one of a recording.
const MAX_LISTED: usize = 6;

/// Put the names of functions into a trace
///
/// The callstacks of a trace are addresses in files. This looks up the functions there, inlined
/// ones too, source files and lines, in those files or in their debug files, which must have the
/// build id that was recorded. The names go to the end of the trace, where all viewers find them.
/// Addresses that have names already are left alone.
///
/// Files are looked for in the folders of --symbols and of $PERFETTO_BINARY_PATH, at the recorded
/// path, and below
/// /usr/lib/debug.
#[derive(Debug, Args)]
pub(crate) struct SymbolizeArgs {
    /// The trace
    #[arg(value_name = "FILE", default_value = DEFAULT_TRACE)]
    file: PathBuf,
    /// Write the trace with the names into this file, and leave the other as it is; - is standard
    /// output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write only the names: appended to the trace they complete it
    #[arg(long, requires = "output")]
    only_names: bool,
    /// Folder of programs, libraries and debug files, or one such file
    #[arg(short, long, value_name = "PATH")]
    symbols: Vec<PathBuf>,
    /// Do not look at this machine's own files, only at those of --symbols and
    /// $PERFETTO_BINARY_PATH
    #[arg(long)]
    no_system: bool,
    /// Use the file at the recorded path if neither has a build id; right if it has not changed
    /// since the recording
    #[arg(long)]
    trust_paths: bool,
    /// Neither use names that were found before nor keep those found now; they are kept in
    /// $XDG_CACHE_HOME/ferretto
    #[arg(long)]
    no_cache: bool,
    #[command(flatten)]
    memory: MemoryArgs,
}

pub(crate) fn run(args: &SymbolizeArgs) -> Result<Extent> {
    let mut options = Options::from_environment().map_err(anyhow::Error::msg)?;
    options.roots.splice(0..0, args.symbols.iter().cloned());
    options.system = !args.no_system;
    options.trust_paths = args.trust_paths;
    options.cache = options.cache.filter(|_| !args.no_cache);
    for root in &args.symbols {
        if !root.exists() {
            bail!(
                "cannot open {}: there is no such file or folder",
                root.display()
            );
        }
    }
    let name = args.file.display();
    let mut file = File::open(&args.file).with_context(|| format!("cannot open {name}"))?;
    check(&args.file, &file)?;
    let limits = args.memory.limits();
    let read = Read::of(&file, limits).with_context(|| format!("cannot read {name}"))?;
    let name = name.to_string();
    let extent = Extent::report(&name, &read.damage).and_left_out(&name, read.left_out);
    if args.output.is_none() {
        read.check_appendable(&args.file)?;
    }
    let names = Names::find(options, read.modules);
    match &args.output {
        None => append(&args.file, &names.packets)?,
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

/// The names found for the files of a trace.
pub(crate) struct Names {
    found: Vec<(Module, Outcome)>,
    /// To be appended to the trace.
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

    /// The number of addresses that have names now, and of all.
    pub(crate) fn count(&self) -> (usize, usize) {
        let named = self.found.iter().map(|(_, outcome)| outcome.names.len());
        let all = self.found.iter().map(|(module, _)| module.rel_pcs.len());
        (named.sum(), all.sum())
    }

    /// Says what was found and what is missing, file by file.
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

/// Why nothing was found for a file.
fn report_missing(out: &mut impl Write, module: &Module, outcome: &Outcome) -> io::Result<()> {
    if !module.build_id.is_empty() {
        let id: String = module
            .build_id
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        writeln!(
            out,
            "{:18}no file with symbols and the build id {id} was found",
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

/// The facts about a trace that are needed to put names into it.
struct Read {
    /// The files that it has addresses without names in.
    modules: Vec<Module>,
    /// The end of the last whole packet, in the unpacked file.
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

    /// Fails if names that follow the file as it is would not be read.
    fn check_appendable(&self, trace: &Path) -> Result<()> {
        let name = trace.display();
        if let Some(compression) = self.compression {
            bail!(
                "{name} is compressed by {}, so names cannot be appended to it; --output writes the trace unpacked, with \
                 the names, into another file",
                compression.as_str()
            );
        }
        if let Some(end) = self.damage.end() {
            bail!(
                "{name} is damaged from byte {end} on, and what follows there would not be read; --output writes the \
                 good part and the names into another file"
            );
        }
        Ok(())
    }
}

/// Appends names to a trace.
fn append(trace: &Path, packets: &[u8]) -> Result<()> {
    let name = trace.display();
    let open = OpenOptions::new().append(true).open(trace);
    let mut file =
        open.with_context(|| format!("cannot write {name}; --output writes another file"))?;
    file.write_all(packets)
        .with_context(|| format!("cannot write {name}"))
}

/// Writes the beginning of a trace, if wanted, and names.
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
