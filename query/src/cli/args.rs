//! The arguments of the program.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ferretto_query::Options;
use ferretto_query::export::ExportFormat;
use ferretto_query::output::Format;
use ferretto_query::reports::Report;
use lexopt::prelude::*;

use super::summarize::SummaryArgs;

const HELP: &str = "\
Query a trace with SQL

The tables are those of Perfetto's trace processor: slice, thread, process, sched, counter and
others. Without SQL, a shell starts.

Usage: ferretto-query [OPTIONS] TRACE... [SQL]
       ferretto-query convert systrace|ctrace|firefox|speedscope TRACE [FILE]
       ferretto-query scheduler|executor [OPTIONS]

Arguments:
  TRACE  The trace. Several traces, patterns such as 'traces/**/*.pftrace', folders and addresses of
         object stores are queried together by the program ferretto-fleet: tables then have the
         columns trace_id and path
  SQL    Statements, separated by semicolons

Options:
  -f, --file FILE          Read the SQL from a file; '-' for standard input
      --format FORMAT      The format of results: table, csv, json or ndjson. The default is a
                           table on a terminal, and csv otherwise
      --memory-limit SIZE  The memory of queries, such as 2G [default: 4G]
      --trace-memory SIZE  The memory of the tables of the trace. One that needs more is refused
                           [default: half of the machine's, or of its control group's; the rest of
                           the trace is left out and reported]
      --max-unpacked SIZE  Limit of decompressed data, for example 8G; the rest is left out and
                           reported [default: 64M, or 128 times the compressed data if that is more]
      --timeout MS         The time that a text of statements may take; 0 for any [default: 0]
      --threads N          The number of threads of the import. The default is one for each
                           processor
      --report REPORT      Print a report, and the SQL that computes it: latency, cpu, threads,
                           slices, counters, io or memory
      --summarize SPEC     Print the summary of the trace that this file defines, a TraceSummarySpec
                           as text or encoded. May be repeated
      --metrics-v2 IDS     The metrics of the summary, separated by commas [default: all]
      --metadata-query ID  The query for the metadata of the summary
      --summary-format FORMAT
                           text or binary [default: text]
      --structured-query ID
                           Print the rows of this query of the files of --summarize instead
      --export FORMAT FILE Write all tables: sqlite is a database, also with the views; arrow is a tar
                           archive with a file for each table. '-' for standard output
      --serve              Serve queries over HTTP, for the Python package 'perfetto' and the
                           Perfetto UI
      --port PORT          The port to listen on [default: 9001]
      --socket PATH        Listen on a Unix socket at this path instead. Only this user may connect
      --stdio              Serve on standard input and output instead, until the input is closed
      --idle-timeout TIME  End the server of a socket after this time without requests, such as 30m
                           [default: never; 30m with --start]
      --start NAME         Start a server in the background, for --remote
      --remote NAME        Query the server with this name, or at this path of a socket, instead of a
                           trace. Tables that statements create stay there
      --stop NAME          End the server with this name
      --schema-docs        Print the tables with their columns as Markdown
      --modules            Print the names of the modules that SQL can include
      --timing             Print the durations of import and queries
  -h, --help               Print help
  -V, --version            Print the version

Options for which ferretto-fleet must be installed:
      --format FORMAT      arrow or parquet
      --per-trace          Query each trace alone, and print the results together, with trace_id and
                           path
      --export parquet DIR Write tables of the traces below a new folder, as
                           'table=slice/trace_id=…/data.parquet'
      --tables NAMES       The tables and views to export, separated by commas
      --cluster URL        Run queries on the executors of this scheduler, such as
                           df://localhost:50050
      --secret-file FILE   The file with the secret of the scheduler and its executors
      --max-spill SIZE     The temporary files of a query, beyond which it fails [default: 16G]";

/// The arguments of the program.
pub(super) struct Args {
    pub(super) traces: Vec<PathBuf>,
    pub(super) sql: Option<String>,
    pub(super) file: Option<PathBuf>,
    pub(super) format: Option<Format>,
    pub(super) report: Option<Report>,
    pub(super) limits: Options,
    pub(super) import: ferretto_tables::Options,
    /// Refuse a trace whose tables exceed the memory of the import.
    pub(super) refuses_large: bool,
    pub(super) serve: bool,
    pub(super) port: Option<u16>,
    pub(super) socket: Option<PathBuf>,
    /// Serve on standard input and output.
    pub(super) stdio: bool,
    pub(super) timing: bool,
    pub(super) summary: SummaryArgs,
    /// The time without requests after which a server ends; `None` if it is not given.
    pub(super) idle: Option<Option<Duration>>,
    /// The name of a server to start.
    pub(super) start: Option<String>,
    /// The name of a server to query.
    pub(super) remote: Option<String>,
    /// The name of a server to end.
    pub(super) stop: Option<String>,
    /// The arguments that a server in the background gets, too.
    pub(super) passed_on: Vec<OsString>,
    /// The format and the file of an export.
    pub(super) export: Option<(ExportFormat, PathBuf)>,
}

impl Default for Args {
    fn default() -> Self {
        Self {
            traces: Vec::new(),
            sql: None,
            file: None,
            format: None,
            report: None,
            limits: Options {
                memory_limit: 4 << 30,
                timeout_ms: 0,
            },
            import: ferretto_tables::Options::default(),
            refuses_large: false,
            serve: false,
            port: None,
            socket: None,
            stdio: false,
            timing: false,
            summary: SummaryArgs::default(),
            idle: None,
            start: None,
            remote: None,
            stop: None,
            passed_on: Vec::new(),
            export: None,
        }
    }
}

impl Args {
    /// Keeps an option for a server in the background.
    fn pass_on(&mut self, option: &str, value: &str) {
        self.passed_on.extend([option.into(), value.into()]);
    }

    /// Fails if options exclude each other that concern servers in the background.
    fn check_servers(&self) -> Result<(), String> {
        let servers = [&self.start, &self.remote, &self.stop];
        let count = servers.into_iter().flatten().count() + usize::from(self.serve);
        if count > 1 {
            return Err("--serve, --start, --remote and --stop exclude each other".into());
        }
        let is_query = self.sql.is_some() || self.file.is_some() || self.report.is_some();
        let is_output = self.export.is_some() || !self.summary.specs.is_empty();
        if self.start.is_some() && (is_query || is_output || self.traces.len() != 1) {
            return Err("--start takes one trace, and no SQL".into());
        }
        if self.remote.is_some() && (!self.traces.is_empty() || is_output) {
            return Err("--remote takes SQL, and no trace, summary or export".into());
        }
        if self.stop.is_some() && (is_query || is_output || !self.traces.is_empty()) {
            return Err("--stop takes no trace and no SQL".into());
        }
        let can_idle = self.start.is_some() || self.socket.is_some();
        if self.idle.is_some() && !can_idle {
            return Err("--idle-timeout belongs to --start and --socket".into());
        }
        Ok(())
    }
}

/// The task of the program.
pub(super) enum Task {
    /// Query or serve one trace.
    Run(Box<Args>),
    /// Run the program for many traces with the same arguments. The text says why.
    Fleet(&'static str),
    /// Convert a trace, with the rest of the arguments.
    Convert(lexopt::Parser),
    /// The program has printed what was asked for.
    Done,
}

fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" => 1,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        unit => return Err(format!("'{unit}' is not a unit: use K, M or G")),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| format!("'{digits}' is not a number"))?;
    number
        .checked_mul(factor)
        .ok_or_else(|| format!("{text} is too large"))
}

/// Returns an argument, with a space before SQL that begins with a comment: it is no option.
fn with_comment(word: OsString) -> OsString {
    let is_comment = word.to_str().is_some_and(|text| {
        let name = text.strip_prefix("--").and_then(|rest| {
            let end = rest.find(char::is_whitespace)?;
            Some(&rest[..end])
        });
        name.is_some_and(|name| !name.contains('='))
    });
    if !is_comment {
        return word;
    }
    let mut sql = OsString::from(" ");
    sql.push(word);
    sql
}

/// Returns true if an argument is SQL and not the name of a trace.
fn is_sql(word: &OsString) -> bool {
    let text = word.to_string_lossy();
    (text.is_empty() || text.contains([' ', '\n', ';', '('])) && !Path::new(word).exists()
}

/// Returns true if a name stands for several traces.
fn has_many(name: &Path) -> bool {
    let text = name.to_string_lossy();
    let is_pattern = text.contains(['*', '?', '[']) && !name.exists();
    let is_address = text
        .split_once("://")
        .is_some_and(|(scheme, _)| scheme.chars().all(|c| c.is_ascii_alphanumeric()));
    is_pattern || is_address || name.is_dir()
}

/// Reads the arguments of the process.
pub(super) fn parse() -> Result<Task, String> {
    let mut args = Args::default();
    let mut words: Vec<OsString> = Vec::new();
    let mut is_fleet = None;
    let words_of = std::env::args_os().skip(1).map(with_comment);
    let mut parser = lexopt::Parser::from_args(words_of);
    let failed = |error: lexopt::Error| format!("{error}; --help lists the options");
    while let Some(argument) = parser.next().map_err(failed)? {
        match argument {
            Short('h') | Long("help") => {
                println!("{HELP}");
                return Ok(Task::Done);
            }
            Short('V') | Long("version") => {
                println!("ferretto-query {}", env!("CARGO_PKG_VERSION"));
                return Ok(Task::Done);
            }
            Long("schema-docs") => {
                print!("{}", ferretto_tables::schema::reference());
                return Ok(Task::Done);
            }
            Long("modules") => {
                for name in ferretto_query::module_names() {
                    println!("{name}");
                }
                return Ok(Task::Done);
            }
            Short('f') | Long("file") => args.file = Some(parser.value().map_err(failed)?.into()),
            Long("format") => {
                let name = parser.value().and_then(|v| v.string()).map_err(failed)?;
                args.format = Format::named(&name);
                if matches!(name.as_str(), "arrow" | "parquet") {
                    is_fleet = Some("the formats arrow and parquet");
                } else if args.format.is_none() {
                    return Err(format!(
                        "'{name}' is not a format: use table, csv, json, ndjson, arrow or parquet"
                    ));
                }
            }
            Long("report") => {
                let name = parser.value().and_then(|v| v.string()).map_err(failed)?;
                let report = Report::named(&name).ok_or_else(|| {
                    let names: Vec<_> = Report::ALL.iter().map(|report| report.name()).collect();
                    format!("'{name}' is not a report: use one of {}", names.join(", "))
                })?;
                args.report = Some(report);
            }
            Long("memory-limit") => {
                let size = parser.value().and_then(|v| v.string()).map_err(failed)?;
                args.pass_on("--memory-limit", &size);
                args.limits.memory_limit = parse_size(&size)?;
            }
            Long("trace-memory") => {
                let size = parser.value().and_then(|v| v.string()).map_err(failed)?;
                args.pass_on("--trace-memory", &size);
                args.import.memory = usize::try_from(parse_size(&size)?).unwrap_or(usize::MAX);
                args.refuses_large = true;
            }
            Long("timeout") => {
                args.limits.timeout_ms = parser.value().and_then(|v| v.parse()).map_err(failed)?;
                let timeout = args.limits.timeout_ms.to_string();
                args.pass_on("--timeout", &timeout);
            }
            Long("max-unpacked") => {
                let size = parser.value().and_then(|v| v.string()).map_err(failed)?;
                args.pass_on("--max-unpacked", &size);
                let bytes = parse_size(&size)?;
                args.import.limits = args.import.limits.with_decompressed(Some(bytes));
            }
            Long("threads") => {
                let threads = parser.value().and_then(|v| v.parse()).map_err(failed)?;
                if threads > 0 {
                    args.import.threads = threads;
                }
            }
            Long("serve") => args.serve = true,
            Long("port") => {
                args.port = Some(parser.value().and_then(|v| v.parse()).map_err(failed)?);
            }
            Long("stdio") => args.stdio = true,
            Long("socket") => args.socket = Some(parser.value().map_err(failed)?.into()),
            Long("idle-timeout") => {
                let time = parser.value().and_then(|v| v.string()).map_err(failed)?;
                args.idle = Some(parse_idle(&time)?);
            }
            Long(name @ ("start" | "remote" | "stop")) => {
                let name = name.to_owned();
                let server = parser.value().and_then(|v| v.string()).map_err(failed)?;
                match name.as_str() {
                    "start" => args.start = Some(server),
                    "remote" => args.remote = Some(server),
                    _ => args.stop = Some(server),
                }
            }
            Long("timing") => args.timing = true,
            Long("summarize") => {
                let spec = parser.value().map_err(failed)?;
                args.summary.specs.push(spec.into());
            }
            Long("metrics-v2") => {
                let ids = parser.value().and_then(|v| v.string()).map_err(failed)?;
                args.summary.metrics = Some(ids);
            }
            Long("metadata-query") => {
                let id = parser.value().and_then(|v| v.string()).map_err(failed)?;
                args.summary.metadata = Some(id);
            }
            Long("summary-format") => {
                let name = parser.value().and_then(|v| v.string()).map_err(failed)?;
                args.summary.set_format(&name)?;
            }
            Long("structured-query") => {
                let id = parser.value().and_then(|v| v.string()).map_err(failed)?;
                args.summary.query = Some(id);
            }
            Long("per-trace") => is_fleet = Some("--per-trace"),
            Long("export") => {
                let format = parser.value().and_then(|v| v.string()).map_err(failed)?;
                let path = parser.value().map_err(failed)?;
                match (ExportFormat::named(&format), format.as_str()) {
                    (Some(format), _) => args.export = Some((format, path.into())),
                    (None, "parquet") => is_fleet = Some("--export parquet"),
                    (None, "perfetto") => {
                        return Err(
                            "the export format 'perfetto' is not offered, because only the version \
                             that wrote such a file reads it: keep the trace, or use sqlite or arrow"
                                .into(),
                        );
                    }
                    _ => {
                        return Err(format!(
                            "'{format}' is not an export format: use sqlite, arrow or parquet"
                        ));
                    }
                }
            }
            Long("tables") => {
                parser.value().map_err(failed)?;
                is_fleet = is_fleet.or(Some("--tables"));
            }
            Long("cluster") => {
                parser.value().map_err(failed)?;
                is_fleet = Some("--cluster");
            }
            Long(name @ ("secret-file" | "max-spill")) => {
                is_fleet = is_fleet.or(Some(if name == "max-spill" {
                    "--max-spill"
                } else {
                    "--secret-file"
                }));
                parser.value().map_err(failed)?;
            }
            Value(word) if words.is_empty() && (word == "scheduler" || word == "executor") => {
                return Ok(Task::Fleet("a cluster"));
            }
            Value(word) if words.is_empty() && word == "convert" => {
                return Ok(Task::Convert(parser));
            }
            Value(word) => words.push(word),
            other => return Err(failed(other.unexpected())),
        }
    }
    if args.remote.is_some() && args.sql.is_none() {
        let sql = words.pop().map(OsString::into_string).transpose();
        args.sql = sql.map_err(|_| "the SQL is not UTF-8".to_owned())?;
    }
    let is_summary = !args.summary.specs.is_empty();
    let is_summary_option =
        args.summary.metrics.is_some() || args.summary.metadata.is_some() || args.summary.is_binary;
    if !is_summary && (is_summary_option || args.summary.query.is_some()) {
        return Err("options of summaries need --summarize with a specification".into());
    }
    if args.summary.query.is_some() && is_summary_option {
        return Err("--structured-query prints rows, and takes no options of summaries".into());
    }
    let is_export = args.export.is_some();
    if is_export && (is_summary || args.file.is_some() || args.report.is_some() || args.serve) {
        return Err("--export takes no SQL, no report, no summary, and is not served".into());
    }
    let takes_sql =
        !is_summary && !is_export && args.file.is_none() && args.report.is_none() && !args.serve;
    if let Some(sql) = words.pop_if(|last| is_sql(last)) {
        let sql = sql.into_string();
        args.sql = Some(sql.map_err(|_| "the SQL is not UTF-8".to_owned())?);
    }
    if args.serve && (args.sql.is_some() || args.file.is_some() || args.format.is_some()) {
        return Err("--serve takes no SQL and no format".into());
    }
    if args.sql.is_some() && !takes_sql {
        return Err("SQL is given as an argument and by an option".into());
    }
    if is_summary && (args.file.is_some() || args.report.is_some() || args.serve) {
        return Err("--summarize takes no SQL, no report, and is not served".into());
    }
    if args.report.is_some() && (args.file.is_some() || args.serve) {
        return Err("--report takes no SQL, and is not served".into());
    }
    if let Some(word) = words.iter().find(|word| is_sql(word)) {
        let word = word.to_string_lossy();
        return Err(format!(
            "'{word}' is neither a file nor the last argument: quote the SQL as one argument"
        ));
    }
    let addresses = [args.port.is_some(), args.socket.is_some(), args.stdio];
    let addresses = addresses.into_iter().filter(|is_given| *is_given).count();
    if !args.serve && addresses > 0 {
        return Err("--port, --socket and --stdio belong to --serve".into());
    }
    if addresses > 1 {
        return Err("--port, --socket and --stdio exclude each other".into());
    }
    args.traces = words.into_iter().map(PathBuf::from).collect();
    if args.traces.len() > 1 || args.traces.iter().any(|name| has_many(name)) {
        is_fleet = is_fleet.or(Some("many traces"));
    }
    args.check_servers()?;
    let needs_trace = !args.serve && args.remote.is_none() && args.stop.is_none();
    match is_fleet {
        Some(_) if args.serve => Err("--serve takes one trace".into()),
        Some(_) if args.traces.is_empty() => Err(NO_TRACE.into()),
        Some(reason) => Ok(Task::Fleet(reason)),
        None if args.traces.is_empty() && needs_trace => Err(NO_TRACE.into()),
        None => Ok(Task::Run(Box::new(args))),
    }
}

const NO_TRACE: &str =
    "the trace file is missing: name one, as in 'ferretto-query trace.pftrace \"select …\"'";

/// Reads a time such as '90', '90s', '30m' or '2h'; `None` for 'never'.
pub(super) fn parse_idle(text: &str) -> Result<Option<Duration>, String> {
    if text == "never" {
        return Ok(None);
    }
    let number = text.trim_end_matches(['s', 'm', 'h']);
    let factor = match &text[number.len()..] {
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => f64::NAN,
    };
    let seconds = number
        .parse()
        .map_or(f64::NAN, |number: f64| number * factor);
    Duration::try_from_secs_f64(seconds).map(Some).map_err(|_| {
        format!("'{text}' is not a time: use a number with s, m or h, such as 30m, or 'never'")
    })
}
