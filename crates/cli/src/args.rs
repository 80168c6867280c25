//! The command line of `ferretto`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::links::InstallLinksArgs;
use crate::profile::{FlamegraphArgs, FoldedArgs, PprofArgs};
use crate::read::MemoryArgs;
use crate::record::DEFAULT_HZ;
use crate::summary::SummaryArgs;
use crate::symbolize::SymbolizeArgs;
use crate::text::TextArgs;

/// Samples a second. The kernel would take ten times as many, but beyond this it is busy copying stacks, and programs do not get
/// on any more.
const MAX_HZ: i64 = 10_000;

const EXIT_CODES: &str = "\
Exit codes:
  0        done
  1        failed; the reason is on standard error
  2        wrong command line
  3        done, but a part of the trace could not be read; which one is on standard error
  126, 127 record -- COMMAND: it cannot be run, it was not found
  128+N    record -- COMMAND: it was ended by signal N
  record -- COMMAND otherwise returns what the command returned.

Also in this binary, as a first argument or, after ferretto install-links, under their
own names, with upstream's options: traced, traced_probes, traced_perf, perfetto,
trigger_perfetto, tracebox.";

/// The trace when none is named: what `record` writes.
pub(crate) const DEFAULT_TRACE: &str = "trace.pftrace";

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
    Open(OpenArgs),
    Summary(SummaryArgs),
    Text(TextArgs),
    Flamegraph(FlamegraphArgs),
    Folded(FoldedArgs),
    Pprof(PprofArgs),
    Symbolize(SymbolizeArgs),
    InstallLinks(InstallLinksArgs),
}

/// Record this machine, or a command, into a trace file.
///
/// Without a config it records scheduling, processes and their memory, system counters, and the track events of
/// programs that use a Perfetto SDK. It needs no daemon: service and data sources run inside this process for as long
/// as it records. Ctrl-C ends the recording; the trace is complete then. A second Ctrl-C gives up waiting.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferretto record                     10 s of this machine into trace.pftrace
  ferretto record -d 1m -o boot.pftrace
  ferretto record -- make -j8         until make ends
  ferretto record --perf -- make      with the callstacks of make and what it starts
  ferretto record --perf=999 -p 4711  with the callstacks of process 4711
  ferretto record -c config.pbtxt     any Perfetto config, text or binary")]
pub(crate) struct RecordArgs {
    /// How long, for example 500ms, 10s, 1m30s, 2h, 1d; 0 is until Ctrl-C [default: 10s; with a COMMAND until it ends]
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// Where the trace goes; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_TRACE)]
    pub(crate) output: PathBuf,
    /// Record what this Perfetto config says, text or binary; - is standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Record callstacks, so many times a second on each CPU, at most 10000 [default: 99]
    ///
    /// Those of the COMMAND and of what it starts, for which no privileges are needed, or of processes given by -p, or
    /// else of the whole machine, as root. Look at them with ferretto flamegraph, or in the UI.
    #[arg(long, value_name = "HZ", num_args = 0..=1, require_equals = true, default_missing_value = DEFAULT_HZ,
          value_parser = clap::value_parser!(u32).range(1..=MAX_HZ))]
    pub(crate) perf: Option<u32>,
    /// Record where threads wait, and for how long, by callstack
    #[arg(long)]
    pub(crate) off_cpu: bool,
    /// Record callstacks of these processes, and of what they start
    #[arg(
        short,
        long = "pid",
        value_name = "PID",
        value_delimiter = ',',
        conflicts_with = "command"
    )]
    pub(crate) pids: Vec<i32>,
    /// Print the config in text form and end; a start for one of your own
    #[arg(long)]
    pub(crate) print_config: bool,
    /// Use the tracing service that runs on this machine (traced) and the data sources connected to it
    #[arg(long)]
    pub(crate) system: bool,
    /// Print only errors and losses
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Record until this command ends, its own track events included
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

impl RecordArgs {
    /// Whether callstacks are to be recorded.
    pub(crate) fn profiles(&self) -> bool {
        self.perf.is_some() || self.off_cpu
    }
}

/// Show a trace in the Perfetto UI
///
/// Prints the address to open and hands the trace to the browser, once, over the loopback address; then it ends. The
/// trace does not leave the machine. With a desktop, the browser is started.
#[derive(Debug, Args)]
pub(crate) struct OpenArgs {
    /// The trace
    #[arg(value_name = "FILE", default_value = DEFAULT_TRACE)]
    pub(crate) file: PathBuf,
    /// Only print the address
    #[arg(short, long)]
    pub(crate) no_browser: bool,
    /// Where the UI is
    #[arg(long, value_name = "URL", default_value = "https://ui.perfetto.dev")]
    pub(crate) origin: String,
    /// Where to listen; the UI's security policy allows no other, 0 is any that is free
    #[arg(long, default_value_t = 9001)]
    pub(crate) port: u16,
}

#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// The trace, which may be compressed by gzip or zstd; - is standard input
    #[arg(value_name = "FILE", default_value = DEFAULT_TRACE)]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Numbers with units, `1m30s` being a sum; a bare 0 is zero.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut seconds = 0.0;
    let mut rest = text;
    loop {
        let (part, after) = parse_part(rest, text)?;
        seconds += part;
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    // The service's own limit; see TraceConfig.duration_ms.
    const LONGEST: f64 = 7.0 * 24.0 * 3600.0;
    if seconds > LONGEST {
        return Err("longer than seven days; use 0 and end it with Ctrl-C".to_owned());
    }
    if seconds > 0.0 && seconds < 0.001 {
        return Err("shorter than a millisecond".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// The seconds of the first number with a unit, and what follows it.
fn parse_part<'a>(rest: &'a str, whole: &str) -> Result<(f64, &'a str), String> {
    let is_digit = |c: char| c.is_ascii_digit() || c == '.';
    let (number, rest) = rest.split_at(rest.find(|c| !is_digit(c)).unwrap_or(rest.len()));
    let (unit, rest) = rest.split_at(rest.find(is_digit).unwrap_or(rest.len()));
    let number: f64 = number
        .parse()
        .map_err(|_| "expected numbers with units, as in 10s or 1m30s".to_owned())?;
    let seconds = match unit {
        "ms" => number / 1000.0,
        "s" | "sec" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        "d" => number * 24.0 * 3600.0,
        "" => {
            return Err(format!(
                "which unit? {whole}ms, {whole}s, {whole}m, {whole}h or {whole}d"
            ));
        }
        _ => {
            return Err(format!(
                "unknown unit \"{unit}\"; there are ms, s, m, h and d"
            ));
        }
    };
    Ok((seconds, rest))
}

/// Returns the command that was probably meant by a word out of place on the command line of `record`.
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
        return Some(format!(
            "the rate goes behind an equals sign: --perf={word}"
        ));
    }
    let shown = |args: &[OsString]| -> String {
        let words = args.iter().map(|arg| arg.to_string_lossy().into_owned());
        words.collect::<Vec<_>>().join(" ")
    };
    let (before, command) = (shown(&args[1..at]), shown(&args[at..]));
    Some(format!(
        "a command goes behind --: ferretto {before} -- {command}"
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

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("1h"), Ok(Duration::from_secs(3600)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        assert_eq!(parse_duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(
            parse_duration("1h2min3.5s"),
            Ok(Duration::from_millis(3_723_500))
        );
        assert_eq!(parse_duration("1d"), Ok(Duration::from_secs(86_400)));
        for wrong in [
            "10", "s", "", "-1s", "1x", "1.2.3s", "8000h", "0.1ms", "NaNs", "infs", "1m30",
            "1ms30x", "8d", "1m-30s",
        ] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
