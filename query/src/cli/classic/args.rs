//! The arguments of upstream's program: flags without a command, and its commands.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ferretto_query::export::ExportFormat;
use ferretto_query::rpc::{API_VERSION, ServerOptions, UPSTREAM_VERSION};
use lexopt::prelude::*;

use super::help::{COMMANDS, HELP};
use super::packages;
use crate::cli::args::parse_idle;
use crate::cli::convert::Conversion;
use crate::cli::summarize::SummaryArgs;

/// The command of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    /// No command: the flags say what to do.
    Flags,
    Query,
    Interactive,
    Http,
    Stdio,
    Unix,
    Kill,
    Export(ExportFormat),
    Summarize,
    Convert(Conversion),
}

/// The arguments of the program.
pub(super) struct Classic {
    pub(super) command: Command,
    pub(super) trace: Option<PathBuf>,
    pub(super) query_file: Option<PathBuf>,
    pub(super) query_string: Option<String>,
    pub(super) interactive: bool,
    pub(super) httpd: bool,
    pub(super) stdiod: bool,
    pub(super) server: ServerOptions,
    /// The name or path of the socket of a server.
    pub(super) socket: Option<String>,
    pub(super) is_daemon: bool,
    pub(super) idle: Option<Option<Duration>>,
    /// The server to query instead of a trace.
    pub(super) remote: Option<String>,
    /// The format and file of an export.
    pub(super) export: Option<(ExportFormat, PathBuf)>,
    /// The output of a conversion.
    pub(super) output: Option<PathBuf>,
    pub(super) perf_file: Option<PathBuf>,
    pub(super) import: ferretto_tables::Options,
    pub(super) modules: Vec<(String, String)>,
    pub(super) is_summary: bool,
    pub(super) summary: SummaryArgs,
    /// The SQL that runs after a summary.
    pub(super) post_query: Option<PathBuf>,
}

impl Classic {
    fn new(command: Command) -> Self {
        Self {
            command,
            trace: None,
            query_file: None,
            query_string: None,
            interactive: command == Command::Interactive,
            httpd: command == Command::Http,
            stdiod: command == Command::Stdio,
            server: ServerOptions {
                address: "localhost".to_owned(),
                port: 9001,
                origins: Vec::new(),
            },
            socket: None,
            is_daemon: false,
            idle: None,
            remote: None,
            export: None,
            output: None,
            perf_file: None,
            import: ferretto_tables::Options::default(),
            modules: Vec::new(),
            is_summary: command == Command::Summarize,
            summary: SummaryArgs::default(),
            post_query: None,
        }
    }
}

/// Flags that may stand before the command, and take a value.
const WITH_VALUE: &[&str] = &[
    "--add-sql-package",
    "--override-sql-package",
    "--override-stdlib",
    "--remote",
    "--dev-flag",
    "--register-files-dir",
    "--metric-extension",
    "--metatrace",
    "-m",
];

/// Takes the command out of the arguments, and the words that belong to it.
fn take_command(words: &mut VecDeque<OsString>) -> Result<Command, String> {
    let mut at = 0;
    while let Some(word) = words.get(at).and_then(|word| word.to_str()) {
        if !word.starts_with('-') {
            break;
        }
        at += 1 + usize::from(WITH_VALUE.contains(&word));
    }
    let take = |words: &mut VecDeque<OsString>, what: &str, of: &str| {
        let word = words.remove(at).and_then(|word| word.into_string().ok());
        word.ok_or_else(|| format!("{what} is missing: use one of {of}"))
    };
    let name = words.get(at).and_then(|word| word.to_str());
    let Some(name) = name
        .filter(|name| COMMANDS.contains(name))
        .map(str::to_owned)
    else {
        return Ok(Command::Flags);
    };
    words.remove(at);
    Ok(match name.as_str() {
        "query" => Command::Query,
        "interactive" => Command::Interactive,
        "server" => {
            const KINDS: &str = "http, stdio, unix and kill";
            match take(words, "the kind of server", KINDS)?.as_str() {
                "http" => Command::Http,
                "stdio" => Command::Stdio,
                "unix" => Command::Unix,
                "kill" => Command::Kill,
                other => return Err(format!("'{other}' is not a kind of server: use {KINDS}")),
            }
        }
        "export" => {
            const FORMATS: &str = "sqlite and arrow_tar";
            let name = take(words, "the format of the export", FORMATS)?;
            Command::Export(ExportFormat::named(&name).ok_or_else(|| {
                let reason = match name.as_str() {
                    "perfetto" => ", because only the version that wrote such a file reads it",
                    _ => "",
                };
                format!("the export format '{name}' is not offered{reason}: use {FORMATS}")
            })?)
        }
        "summarize" => Command::Summarize,
        "convert" => {
            let name = take(words, "the format", Conversion::NAMES)?;
            Command::Convert(Conversion::named(&name)?)
        }
        "metrics" => return Err(NO_METRICS.into()),
        "bundle" => {
            return Err(
                "'bundle' is not offered: 'ferretto symbolize' adds symbols to a trace".into(),
            );
        }
        _ => {
            return Err(format!(
                "'{name}' is not offered: 'ferretto symbolize', 'ferretto edit' and \
                 'ferretto print' do such tasks"
            ));
        }
    })
}

const NO_METRICS: &str = "metrics of version 1 are not offered: use 'summarize' with a \
                          TraceSummarySpec, or SQL";

fn no_effect(option: &str, reason: &str) {
    eprintln!("{option} has no effect: {reason}");
}

/// Reads the arguments; `None` if the program has printed what was asked for.
pub(super) fn parse(words: impl Iterator<Item = OsString>) -> Result<Option<Classic>, String> {
    let mut words: VecDeque<OsString> = words.collect();
    let command = take_command(&mut words)?;
    let mut args = Classic::new(command);
    let is_flags = command == Command::Flags;
    let is_server = matches!(command, Command::Http | Command::Unix | Command::Stdio);
    let is_summarize = command == Command::Summarize;
    let is_export = matches!(command, Command::Export(_));
    let mut parser = lexopt::Parser::from_args(words);
    let failed = |error: lexopt::Error| format!("{error}; --help lists the options");
    while let Some(argument) = parser.next().map_err(failed)? {
        let text =
            |parser: &mut lexopt::Parser| parser.value().and_then(|v| v.string()).map_err(failed);
        match argument {
            Short('h') | Long("help" | "help-classic") => {
                println!("{HELP}");
                return Ok(None);
            }
            Short('v') | Long("version") => {
                let version = env!("CARGO_PKG_VERSION");
                println!("Ferretto {version} (as {UPSTREAM_VERSION})");
                println!("Trace Processor RPC API version: {API_VERSION}");
                return Ok(None);
            }
            Short('q') | Long("query-file") if is_flags => {
                args.query_file = Some(parser.value().map_err(failed)?.into());
            }
            Short('f') | Long("file") if command == Command::Query => {
                args.query_file = Some(parser.value().map_err(failed)?.into());
            }
            Short('Q') | Long("query-string") if is_flags => {
                args.query_string = Some(text(&mut parser)?);
            }
            Short('i') | Long("interactive") => args.interactive = true,
            Short('D') | Long("httpd") if is_flags => args.httpd = true,
            Long("stdiod") if is_flags => args.stdiod = true,
            Long("http-port") => {
                args.server.port = parser.value().and_then(|v| v.parse()).map_err(failed)?;
            }
            Long("port") if command == Command::Http => {
                args.server.port = parser.value().and_then(|v| v.parse()).map_err(failed)?;
            }
            Long("http-ip-address") => args.server.address = text(&mut parser)?,
            Long("ip-address") if command == Command::Http => {
                args.server.address = text(&mut parser)?;
            }
            Long("http-additional-cors-origins" | "additional-cors-origins") => {
                let origins = text(&mut parser)?;
                args.server.origins = origins.split(',').map(str::to_owned).collect();
            }
            Long("name" | "path") if command == Command::Unix => {
                args.socket = Some(text(&mut parser)?);
            }
            Long("daemonize") if command == Command::Unix => args.is_daemon = true,
            Long("idle-timeout") if is_server => {
                let time = text(&mut parser)?;
                args.idle = (time != "auto").then(|| parse_idle(&time)).transpose()?;
            }
            Short('e') | Long("export") if is_flags => {
                let path = parser.value().map_err(failed)?.into();
                args.export = Some((ExportFormat::Sqlite, path));
            }
            Short('o') | Long("output") if is_export => {
                args.output = Some(parser.value().map_err(failed)?.into());
            }
            Short('p') | Long("perf-file") => {
                args.perf_file = Some(parser.value().map_err(failed)?.into());
            }
            Long("summary") if is_flags => args.is_summary = true,
            Long("summary-spec" | "structured-query-spec") => {
                args.summary
                    .specs
                    .push(parser.value().map_err(failed)?.into());
            }
            Long("summary-metrics-v2" | "metrics-v2") => {
                args.summary.metrics = Some(text(&mut parser)?);
            }
            Long("summary-metadata-query" | "metadata-query") => {
                args.summary.metadata = Some(text(&mut parser)?);
            }
            Long("summary-format") => args.summary.set_format(&text(&mut parser)?)?,
            Long("format") if is_summarize => args.summary.set_format(&text(&mut parser)?)?,
            Long("post-query") if is_summarize => {
                args.post_query = Some(parser.value().map_err(failed)?.into());
            }
            Long("structured-query-id") => args.summary.query = Some(text(&mut parser)?),
            Long("remote") => args.remote = Some(text(&mut parser)?),
            Long("full-sort") => args.import.full_sort = true,
            Long("crop-track-events") => args.import.crop_track_events = true,
            Long("no-ftrace-raw") => {
                let tables = ferretto_tables::TableId::ALL.iter().copied();
                let tables: Vec<_> = tables
                    .filter(|id| id.spec().name != "ftrace_event")
                    .collect();
                args.import.tables = ferretto_tables::TableSet::of(&tables);
            }
            Long("add-sql-package" | "override-sql-package") => {
                args.modules.extend(packages::read(&text(&mut parser)?)?);
            }
            Long("override-stdlib") => {
                let folder = parser.value().map_err(failed)?;
                args.modules.extend(packages::read_all(Path::new(&folder))?);
            }
            Long("extra-checks") => no_effect("--extra-checks", "there are no optional checks"),
            Long("analyze-trace-proto-content") => args.import.proto_content = true,
            Long("register-files-dir") => {
                parser.value().map_err(failed)?;
                no_effect(
                    "--register-files-dir",
                    "no files are registered with a trace",
                );
            }
            Long("dev") => no_effect("--dev", "there are no features in development"),
            Long("dev-flag") => {
                parser.value().map_err(failed)?;
                no_effect("--dev-flag", "there are no features in development");
            }
            Short('W') | Long("wide") => {
                no_effect("--wide", "columns are as wide as their values");
            }
            Long("run-metrics" | "pre-metrics" | "metrics-output" | "metric-extension") => {
                return Err(NO_METRICS.into());
            }
            Short('m') | Long("metatrace") => {
                return Err("--metatrace is not offered: clients of --httpd can record one".into());
            }
            Long("allow-sql-file-access") => {
                return Err(
                    "--allow-sql-file-access is not offered: statements reach no files".into(),
                );
            }
            Value(word) if command == Command::Kill && args.socket.is_none() => {
                args.socket = Some(word.string().map_err(failed)?);
            }
            Value(word) if args.trace.is_none() && args.remote.is_none() => {
                args.trace = Some(word.into());
            }
            Value(word) if command == Command::Query && args.query_string.is_none() => {
                args.query_string = Some(word.string().map_err(failed)?);
            }
            Value(word) if is_summarize => args.summary.specs.push(word.into()),
            Value(word) if matches!(command, Command::Convert(_)) && args.output.is_none() => {
                args.output = Some(word.into());
            }
            other => return Err(failed(other.unexpected())),
        }
    }
    args.check()?;
    Ok(Some(args))
}

impl Classic {
    fn check(&mut self) -> Result<(), String> {
        if self.query_file.is_some() && self.query_string.is_some() {
            return Err("SQL is given as an argument and in a file".into());
        }
        if self.httpd && self.stdiod {
            return Err("--httpd and --stdiod exclude each other".into());
        }
        if let Command::Export(format) = self.command {
            let path = self.output.take();
            let path = path.ok_or("the output file is missing: name it with -o FILE")?;
            self.export = Some((format, path));
        }
        let is_query = matches!(self.command, Command::Flags | Command::Query);
        let is_plain = !self.httpd && !self.stdiod && !self.is_summary && self.export.is_none();
        if self.remote.is_some() && !(is_query && is_plain) {
            return Err("--remote takes SQL, and no trace, server, summary or export".into());
        }
        if self.remote.is_some() && !self.modules.is_empty() {
            return Err("--remote takes no modules: the server has its own".into());
        }
        if self.command == Command::Unix && self.socket.is_none() {
            return Err("the name of the server is missing: use --name or --path".into());
        }
        if self.command == Command::Kill && self.socket.is_none() {
            return Err("the name of the server is missing, as in 'server kill mine'".into());
        }
        if self.post_query.is_some() && self.query_file.is_none() {
            self.query_file = self.post_query.take();
        }
        Ok(())
    }
}
