//! The program under upstream's name, `trace_processor_shell`, with its classic flags.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use ferretto_query::export::ExportFormat;
use ferretto_query::rpc::{API_VERSION, Processor, ServerOptions, UPSTREAM_VERSION, serve_stream};
use ferretto_query::summary::Metrics;
use ferretto_query::{Engine, Options};
use lexopt::prelude::*;

use super::summarize::SummaryArgs;
use super::{
    Failure, listen, open, print_csv, print_health, read_standard_input, shell, write_export,
};

const HELP: &str = "\
Query a trace with SQL, with the flags of upstream's program of this name

Usage: trace_processor_shell [OPTIONS] [TRACE]

Options:
  -v, --version                      Print the versions of the program and of its protocol
  -q, --query-file FILE              Run the SQL of a file; '-' for standard input
  -Q, --query-string SQL             Run this SQL
  -i, --interactive                  Start a shell after the queries
  -D, --httpd                        Serve queries over HTTP
      --stdiod                       Serve queries on standard input and output
      --http-port PORT               The port to listen on [default: 9001]
      --http-ip-address ADDRESS      The address to listen on [default: localhost]
      --http-additional-cors-origins ORIGINS
                                     Further web origins that may send queries, with commas
  -e, --export FILE                  Write all tables and views as a database of SQLite
  -p, --perf-file FILE               Write the durations of import and queries, in nanoseconds
      --summary                      Print the summary of the trace
      --summary-spec FILE            The definitions of the summary; may be repeated
      --summary-metrics-v2 IDS       The metrics of the summary, with commas, or 'all'
      --summary-metadata-query ID    The query for the metadata of the summary
      --summary-format FORMAT        text or binary [default: text]
      --structured-query-spec FILE   Definitions of structured queries; may be repeated
      --structured-query-id ID       Print the rows of this structured query
      --full-sort                    Sort all events of the trace together
      --no-ftrace-raw                Leave 'ftrace_event' empty
      --crop-track-events            Leave out track events before the range of interest
      --add-sql-package DIR          Add the modules of a folder, DIR or DIR@NAME
      --override-sql-package DIR     Add them instead of existing ones with the same names
  -h, --help                         Print help

--extra-checks, --analyze-trace-proto-content and --register-files-dir have no effect.";

/// The arguments of the program.
struct Classic {
    trace: Option<PathBuf>,
    query_file: Option<PathBuf>,
    query_string: Option<String>,
    interactive: bool,
    httpd: bool,
    stdiod: bool,
    server: ServerOptions,
    export: Option<PathBuf>,
    perf_file: Option<PathBuf>,
    import: ferretto_tables::Options,
    modules: Vec<(String, String)>,
    is_summary: bool,
    summary: SummaryArgs,
}

fn parse() -> Result<Option<Classic>, String> {
    let mut args = Classic {
        trace: None,
        query_file: None,
        query_string: None,
        interactive: false,
        httpd: false,
        stdiod: false,
        server: ServerOptions {
            address: "localhost".to_owned(),
            port: 9001,
            origins: Vec::new(),
        },
        export: None,
        perf_file: None,
        import: ferretto_tables::Options::default(),
        modules: Vec::new(),
        is_summary: false,
        summary: SummaryArgs::default(),
    };
    let mut parser = lexopt::Parser::from_env();
    let failed = |error: lexopt::Error| format!("{error}; --help lists the options");
    while let Some(argument) = parser.next().map_err(failed)? {
        match argument {
            Short('h') | Long("help") => {
                println!("{HELP}");
                return Ok(None);
            }
            Short('v') | Long("version") => {
                let version = env!("CARGO_PKG_VERSION");
                println!("Ferretto {version} (as {UPSTREAM_VERSION})");
                println!("Trace Processor RPC API version: {API_VERSION}");
                return Ok(None);
            }
            Short('q') | Long("query-file") => {
                args.query_file = Some(parser.value().map_err(failed)?.into())
            }
            Short('Q') | Long("query-string") => {
                let sql = parser.value().and_then(|v| v.string()).map_err(failed)?;
                args.query_string = Some(sql);
            }
            Short('i') | Long("interactive") => args.interactive = true,
            Short('D') | Long("httpd") => args.httpd = true,
            Long("stdiod") => args.stdiod = true,
            Long("http-port") => {
                args.server.port = parser.value().and_then(|v| v.parse()).map_err(failed)?;
            }
            Long("http-ip-address") => {
                args.server.address = parser.value().and_then(|v| v.string()).map_err(failed)?;
            }
            Long("http-additional-cors-origins") => {
                let origins = parser.value().and_then(|v| v.string()).map_err(failed)?;
                args.server.origins = origins.split(',').map(str::to_owned).collect();
            }
            Short('e') | Long("export") => {
                args.export = Some(parser.value().map_err(failed)?.into());
            }
            Short('p') | Long("perf-file") => {
                args.perf_file = Some(parser.value().map_err(failed)?.into())
            }
            Long("summary") => args.is_summary = true,
            Long("summary-spec" | "structured-query-spec") => {
                args.summary
                    .specs
                    .push(parser.value().map_err(failed)?.into());
            }
            Long("summary-metrics-v2") => {
                let ids = parser.value().and_then(|v| v.string()).map_err(failed)?;
                args.summary.metrics = Some(ids);
            }
            Long("summary-metadata-query") => {
                let id = parser.value().and_then(|v| v.string()).map_err(failed)?;
                args.summary.metadata = Some(id);
            }
            Long("summary-format") => {
                let name = parser.value().and_then(|v| v.string()).map_err(failed)?;
                args.summary.set_format(&name)?;
            }
            Long("structured-query-id") => {
                let id = parser.value().and_then(|v| v.string()).map_err(failed)?;
                args.summary.query = Some(id);
            }
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
                let folder = parser.value().and_then(|v| v.string()).map_err(failed)?;
                args.modules.extend(package(&folder)?);
            }
            Long("extra-checks") => {
                eprintln!("--extra-checks has no effect: there are no optional checks");
            }
            Long("analyze-trace-proto-content") => eprintln!(
                "--analyze-trace-proto-content has no effect: there is no table of the content of \
                 packets"
            ),
            Long("register-files-dir") => {
                parser.value().map_err(failed)?;
                eprintln!(
                    "--register-files-dir has no effect: no files are registered with a trace"
                );
            }
            Value(word) if args.trace.is_none() => args.trace = Some(word.into()),
            other => return Err(failed(other.unexpected())),
        }
    }
    if args.query_file.is_some() && args.query_string.is_some() {
        return Err("SQL is given as an argument and in a file".into());
    }
    if args.httpd && args.stdiod {
        return Err("--httpd and --stdiod exclude each other".into());
    }
    Ok(Some(args))
}

/// Reads the modules of a folder: `DIR/a/b.sql` is `NAME.a.b`.
fn package(argument: &str) -> Result<Vec<(String, String)>, String> {
    let (folder, name) = match argument.rsplit_once('@') {
        Some((folder, name)) => (Path::new(folder), name.to_owned()),
        None => {
            let folder = Path::new(argument);
            let name = folder.file_name().map(|n| n.to_string_lossy().into_owned());
            (folder, name.unwrap_or_default())
        }
    };
    let mut modules = Vec::new();
    let mut folders = vec![(folder.to_owned(), name)];
    while let Some((folder, name)) = folders.pop() {
        let failed = |e: io::Error| format!("cannot read {}: {e}", folder.display());
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned());
            let module = format!("{name}.{}", stem.unwrap_or_default());
            // Links are not followed: they can form cycles.
            if path.is_dir() && !path.is_symlink() {
                folders.push((path, module));
            } else if path.extension().is_some_and(|e| e == "sql") {
                let sql = std::fs::read_to_string(&path)
                    .map_err(|e| format!("cannot read {}: {e}", path.display()))?;
                modules.push((module, sql));
            }
        }
    }
    Ok(modules)
}

/// Runs the program.
pub(super) fn run() -> Result<ExitCode, Failure> {
    let Some(args) = parse().map_err(Failure::Usage)? else {
        return Ok(ExitCode::SUCCESS);
    };
    query(args)
        .map(|()| ExitCode::SUCCESS)
        .map_err(Failure::Run)
}

fn query(args: Classic) -> Result<(), String> {
    if args.httpd || args.stdiod {
        return serve(args);
    }
    let Some(path) = &args.trace else {
        return Err("the trace file is missing: name one".into());
    };
    let started = Instant::now();
    let trace = open(path, &args.import)?;
    let loaded = started.elapsed();
    let size = std::fs::metadata(path).map_or(0, |data| data.len()) as f64 / 1e6;
    let seconds = loaded.as_secs_f64();
    eprintln!(
        "Trace loaded: {size:.2} MB in {seconds:.2}s ({:.1} MB/s)",
        size / seconds.max(1e-9)
    );
    let mut engine = Engine::new(&trace, &Options::default()).map_err(|error| error.to_string())?;
    for (name, sql) in &args.modules {
        engine
            .add_module(name, sql, true)
            .map_err(|error| error.to_string())?;
    }
    print_health(&mut engine);
    if args.is_summary {
        args.summary
            .print(&mut engine, &Metrics::Named(Vec::new()))?;
    }
    let structured = args.summary.sql()?;
    let sql = match (
        structured.as_ref().or(args.query_string.as_ref()),
        &args.query_file,
    ) {
        (Some(sql), _) => Some(sql.clone()),
        (None, Some(path)) if path.as_os_str() != "-" => Some(
            std::fs::read_to_string(path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?,
        ),
        (None, None) if args.is_summary || args.export.is_some() => Some(String::new()),
        (None, file) if file.is_some() || !(args.interactive || io::stdin().is_terminal()) => {
            Some(read_standard_input()?)
        }
        _ => None,
    };
    let started = Instant::now();
    if let Some(sql) = sql
        .as_ref()
        .filter(|sql| !sql.is_empty() || !args.is_summary && args.export.is_none())
    {
        print_csv(&mut engine, sql)?;
    }
    if let Some(output) = &args.export {
        write_export(&mut engine, &trace, ExportFormat::Sqlite, output, path)?;
    }
    if let Some(path) = &args.perf_file {
        let times = format!("{},{}\n", loaded.as_nanos(), started.elapsed().as_nanos());
        let inputs: Vec<&Path> = args.trace.as_deref().into_iter().collect();
        ferretto_output::write(path, &inputs, |out| Ok(out.write_all(times.as_bytes())?))
            .map_err(|error| format!("{error:#}"))?;
    }
    if sql.is_none() || args.interactive {
        return shell::run(&mut engine);
    }
    Ok(())
}

fn serve(args: Classic) -> Result<(), String> {
    let mut processor = Processor::new(Options::default(), args.import, args.modules)
        .map_err(|error| error.to_string())?;
    if let Some(path) = &args.trace {
        processor
            .open(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if args.stdiod {
        let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
        return serve_stream(&mut input, &mut output, processor).map_err(|error| error.to_string());
    }
    listen(&args.server, processor)
}
