//! The command line of `ferretto`.

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use crate::assert::AssertArgs;
use crate::chrome::JsonArgs;
use crate::diff::DiffArgs;
use crate::doctor::DoctorArgs;
use crate::edit::{CutArgs, MergeArgs, SplitArgs};
use crate::import::ImportArgs;
use crate::links::InstallLinksArgs;
use crate::mcp::McpArgs;
use crate::open::OpenArgs;
use crate::profile::{FlamegraphArgs, FoldedArgs, PprofArgs};
use crate::query::QueryArgs;
use crate::record::RecordArgs;
use crate::status::StatusArgs;
use crate::summary::SummaryArgs;
use crate::symbolize::SymbolizeArgs;
use crate::text::TextArgs;
use crate::tls::RelayCertArgs;
use crate::view::ViewArgs;
use crate::why::WhyArgs;

const EXIT_CODES: &str = "\
Exit codes:
  0        done
  1        failed; the reason is on standard error
  2        wrong command line
  3        done, but a part of the trace could not be read or shown; which one is on standard error;
           doctor: something does not work here
  1, 2     assert: a rule is broken; a rule cannot be judged
  126, 127 record -- COMMAND: it cannot be run, it was not found
  128+N    record -- COMMAND: it was ended by signal N
  record -- COMMAND otherwise returns what the command returned.

Also in this binary, as a first argument or, after ferretto install-links, under their
own names, with upstream's options: traced, traced_probes, traced_perf,
traced_relay, heapprofd, perfetto, trigger_perfetto, tracebox.";

/// Records what a machine does, as a Perfetto trace.
#[derive(Debug, Parser)]
#[command(name = "ferretto", version, after_help = EXIT_CODES, max_term_width = 100)]
#[command(arg_required_else_help = true, subcommand_required = true)]
pub(crate) struct Ferretto {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Record(RecordArgs),
    View(ViewArgs),
    Open(OpenArgs),
    Summary(SummaryArgs),
    Text(TextArgs),
    Query(QueryArgs),
    Why(WhyArgs),
    Diff(DiffArgs),
    Assert(AssertArgs),
    Flamegraph(FlamegraphArgs),
    Folded(FoldedArgs),
    Pprof(PprofArgs),
    Symbolize(SymbolizeArgs),
    Cut(CutArgs),
    Split(SplitArgs),
    Merge(MergeArgs),
    Json(JsonArgs),
    Import(ImportArgs),
    Mcp(McpArgs),
    Doctor(DoctorArgs),
    Status(StatusArgs),
    RelayCert(RelayCertArgs),
    InstallLinks(InstallLinksArgs),
    /// Answer lines with the times of this machine's clocks: record --host runs this there
    #[command(hide = true)]
    MachineClock,
}

/// Returns true if a command line requests an answer for programs.
pub(crate) fn wants_json(args: &[OsString]) -> bool {
    let own = args.iter().skip(1).take_while(|arg| *arg != "--");
    own.into_iter().any(|arg| arg == "--json")
}

/// Suggests a correction for a misplaced word on the command line of `record`.
pub(crate) fn hint(args: &[OsString], error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};

    if error.kind() != ErrorKind::UnknownArgument || args.get(1)? != "record" {
        return None;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    if word.starts_with('-') {
        return None;
    }
    let at = args.iter().position(|arg| arg == word.as_str())?;
    if args[at - 1] == "--perf" && word.parse::<u32>().is_ok() {
        return Some(format!("give the rate after an equals sign: --perf={word}"));
    }
    let shown = |args: &[OsString]| -> String {
        let words = args.iter().map(|arg| arg.to_string_lossy().into_owned());
        words.collect::<Vec<_>>().join(" ")
    };
    let (before, command) = (shown(&args[1..at]), shown(&args[at..]));
    Some(format!(
        "give a command after --: ferretto {before} -- {command}"
    ))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Ferretto::command().debug_assert();
    }
}
