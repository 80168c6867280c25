//! The command line.

mod classic;
mod shell;

use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use ferretto_sql::output::{Csv, Format, output};
use ferretto_sql::rpc::{Processor, Server, ServerOptions, SocketServer};
use ferretto_sql::{Engine, Options};
use ferretto_tables::{Continue, Trace};
use lexopt::prelude::*;

const HELP: &str = "\
Query a trace with SQL

The tables are those of Perfetto's trace processor: slice, thread, process, sched, counter and
others. Without SQL, a shell starts.

Usage: ferretto-sql [OPTIONS] TRACE [SQL]

Arguments:
  TRACE  The trace
  SQL    Statements, separated by semicolons

Options:
  -f, --file FILE          Read the SQL from a file; '-' for standard input
      --format FORMAT      The format of results: table, csv, json or ndjson. The default is a
                           table on a terminal, and csv otherwise
      --memory-limit SIZE  The memory of queries, such as 2G [default: 4G]
      --max-unpacked SIZE  Limit of decompressed data, for example 8G; the rest is left out and
                           reported [default: 64M, or 128 times the compressed data if that is more]
      --timeout MS         The time that a text of statements may take; 0 for any [default: 0]
      --threads N          The number of threads of the import. The default is one for each
                           processor
      --serve              Serve queries over HTTP, for the Python package 'perfetto' and the
                           Perfetto UI
      --port PORT          The port to listen on [default: 9001]
      --socket PATH        Listen on a Unix socket at this path instead. Only this user may connect
      --schema-docs        Print the tables with their columns as Markdown
      --timing             Print the durations of import and queries
  -h, --help               Print help
  -V, --version            Print the version";

/// The arguments of the program.
struct Args {
    trace: Option<PathBuf>,
    sql: Option<String>,
    file: Option<PathBuf>,
    format: Option<Format>,
    limits: Options,
    import: ferretto_tables::Options,
    serve: bool,
    port: Option<u16>,
    socket: Option<PathBuf>,
    timing: bool,
}

/// The program has printed what was asked for.
enum Parsed {
    Run(Box<Args>),
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

fn parse() -> Result<Parsed, String> {
    let mut args = Args {
        trace: None,
        sql: None,
        file: None,
        format: None,
        limits: Options {
            memory_limit: 4 << 30,
            timeout_ms: 0,
        },
        import: ferretto_tables::Options::default(),
        serve: false,
        port: None,
        socket: None,
        timing: false,
    };
    let mut parser = lexopt::Parser::from_env();
    let failed = |error: lexopt::Error| format!("{error}; --help lists the options");
    while let Some(argument) = parser.next().map_err(failed)? {
        match argument {
            Short('h') | Long("help") => {
                println!("{HELP}");
                return Ok(Parsed::Done);
            }
            Short('V') | Long("version") => {
                println!("ferretto-sql {}", env!("CARGO_PKG_VERSION"));
                return Ok(Parsed::Done);
            }
            Long("schema-docs") => {
                print!("{}", ferretto_tables::schema::reference());
                return Ok(Parsed::Done);
            }
            Short('f') | Long("file") => args.file = Some(parser.value().map_err(failed)?.into()),
            Long("format") => {
                let name = parser.value().and_then(|v| v.string()).map_err(failed)?;
                let format = Format::named(&name).ok_or_else(|| {
                    format!("'{name}' is not a format: use table, csv, json or ndjson")
                })?;
                args.format = Some(format);
            }
            Long("memory-limit") => {
                let size = parser.value().and_then(|v| v.string()).map_err(failed)?;
                args.limits.memory_limit = parse_size(&size)?;
            }
            Long("timeout") => {
                args.limits.timeout_ms = parser.value().and_then(|v| v.parse()).map_err(failed)?;
            }
            Long("max-unpacked") => {
                let size = parser.value().and_then(|v| v.string()).map_err(failed)?;
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
            Long("socket") => args.socket = Some(parser.value().map_err(failed)?.into()),
            Long("timing") => args.timing = true,
            Value(word) if args.trace.is_none() => args.trace = Some(word.into()),
            Value(word) if args.sql.is_none() => {
                let word = word.into_string();
                args.sql = Some(word.map_err(|_| "the SQL is not UTF-8".to_owned())?);
            }
            Value(word) => {
                let word = word.to_string_lossy().into_owned();
                return Err(format!("'{word}' is one argument too many: quote the SQL"));
            }
            other => return Err(failed(other.unexpected())),
        }
    }
    let is_given = args.sql.is_some() || args.file.is_some() || args.format.is_some();
    if args.serve && is_given {
        return Err("--serve takes no SQL and no format".into());
    }
    if args.sql.is_some() && args.file.is_some() {
        return Err("SQL is given as an argument and in a file".into());
    }
    if !args.serve && (args.port.is_some() || args.socket.is_some()) {
        return Err("--port and --socket belong to --serve".into());
    }
    if args.port.is_some() && args.socket.is_some() {
        return Err("--port and --socket exclude each other".into());
    }
    Ok(Parsed::Run(Box::new(args)))
}

/// Runs the program.
pub(crate) fn main() -> ExitCode {
    let name = std::env::args_os().next().unwrap_or_default();
    let is_classic = Path::new(&name).file_name() == Some("trace_processor_shell".as_ref());
    let result = match is_classic {
        true => classic::run(),
        false => parse().and_then(|parsed| match parsed {
            Parsed::Run(args) if args.serve => serve(&args),
            Parsed::Run(args) => run(&args),
            Parsed::Done => Ok(()),
        }),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("ferretto-sql: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Imports a trace, and prints its remarks.
fn open(path: &Path, options: &ferretto_tables::Options) -> Result<Arc<Trace>, String> {
    let mut keep_on = |_| Continue::Yes;
    let trace = Trace::open(path, options, &mut keep_on)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    for remark in trace.remarks() {
        eprintln!("{}: {remark}", path.display());
    }
    Ok(Arc::new(trace))
}

fn run(args: &Args) -> Result<(), String> {
    let Some(path) = &args.trace else {
        return Err(
            "the trace file is missing: name one, as in 'ferretto-sql trace.pftrace \"select …\"'"
                .into(),
        );
    };
    let sql = read_sql(args)?;
    let started = Instant::now();
    let trace = open(path, &args.import)?;
    if args.timing {
        eprintln!("imported in {:.3} s", started.elapsed().as_secs_f64());
    }
    let mut engine = Engine::new(&trace, &args.limits).map_err(|error| error.to_string())?;
    print_health(&mut engine);
    let Some(sql) = sql else {
        return shell::run(&mut engine);
    };
    let started = Instant::now();
    let terminal = io::stdout().is_terminal();
    let default = if terminal { Format::Table } else { Format::Csv };
    let width = terminal.then(terminal_width).flatten();
    print_results(&mut engine, &sql, args.format.unwrap_or(default), width)?;
    if args.timing {
        eprintln!("queried in {:.3} s", started.elapsed().as_secs_f64());
    }
    Ok(())
}

fn read_sql(args: &Args) -> Result<Option<String>, String> {
    if args.sql.is_some() {
        return Ok(args.sql.clone());
    }
    match &args.file {
        Some(path) if path.as_os_str() != "-" => std::fs::read_to_string(path)
            .map(Some)
            .map_err(|error| format!("cannot read {}: {error}", path.display())),
        None if io::stdin().is_terminal() => Ok(None),
        _ => read_standard_input().map(Some),
    }
}

fn read_standard_input() -> Result<String, String> {
    let mut text = String::new();
    io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| format!("cannot read standard input: {error}"))?;
    Ok(text)
}

/// Runs all statements and prints their results, separated by empty lines.
fn print_results(
    engine: &mut Engine,
    sql: &str,
    format: Format,
    width: Option<usize>,
) -> Result<(), String> {
    let mut rows = output(format, width, io::BufWriter::new(io::stdout().lock()));
    let result = engine.run(sql, &mut *rows);
    // A reader of the results that has enough closes the pipe.
    match rows.finish() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            return Err(format!("cannot write the result: {error}"));
        }
        _ => {}
    }
    result.map_err(|error| error.render(sql))
}

const HEALTH: &str = "SELECT name || ifnull('[' || idx || ']', '') || ' = ' || value || ': '
  || ifnull(description, ''), severity, source FROM stats
WHERE value > 0 AND severity IN ('error', 'data_loss')";

/// Prints losses and errors of the trace.
fn print_health(engine: &mut Engine) {
    let mut lines: [Vec<String>; 3] = Default::default();
    let mut take = |values: &[ferretto_sql::ValueRef<'_>]| {
        let text = |place: usize| values[place].as_str().unwrap_or_default().to_owned();
        let kind = match (text(1).as_str(), text(2).as_str()) {
            ("error", "trace") => 0,
            ("error", "analysis") => 1,
            ("data_loss", _) => 2,
            _ => return,
        };
        lines[kind].push(text(0));
    };
    // A trace without the table has no issues to print.
    if engine.each_row(HEALTH, &mut take).is_err() || lines.iter().all(Vec::is_empty) {
        return;
    }
    eprintln!("Trace health issues:");
    let titles = ["Trace errors", "Import errors", "Data losses"];
    for (title, lines) in titles.iter().zip(&lines).filter(|(_, l)| !l.is_empty()) {
        eprintln!("  {title}:");
        for line in lines {
            eprintln!("    {line}");
        }
    }
}

fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    size.map(|size| usize::from(size.ws_col))
        .filter(|width| *width > 0)
}

fn serve(args: &Args) -> Result<(), String> {
    let mut processor = Processor::new(args.limits.clone(), args.import.clone(), Vec::new())
        .map_err(|error| error.to_string())?;
    if let Some(path) = &args.trace {
        processor
            .open(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if let Some(path) = &args.socket {
        return listen_on_socket(path, processor);
    }
    let options = ServerOptions {
        address: "localhost".to_owned(),
        port: args.port.unwrap_or(9001),
        origins: Vec::new(),
    };
    listen(&options, processor)
}

/// Serves until the process is ended by a signal, and removes the socket.
fn listen_on_socket(path: &Path, processor: Processor) -> Result<(), String> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;

    let started = |error| format!("cannot listen on {}: {error}", path.display());
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).map_err(started)?;
    let server = SocketServer::bind(path).map_err(started)?;
    server
        .run(processor)
        .map_err(|error| format!("cannot start threads: {error}"))?;
    eprintln!("listening on {}", path.display());
    signals.forever().next();
    Ok(())
}

/// Serves until the process is ended.
fn listen(options: &ServerOptions, processor: Processor) -> Result<(), String> {
    let server = Server::bind(options, processor)
        .map_err(|error| format!("cannot listen on port {}: {error}", options.port))?;
    for address in server.addresses() {
        eprintln!("listening on http://{address}");
    }
    server.run().map_err(|error| error.to_string())
}

/// Returns the result of a query as lines.
fn lines(engine: &mut Engine, sql: &str) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    let mut take = |values: &[ferretto_sql::ValueRef<'_>]| {
        let text = values.first().and_then(|value| value.as_str().ok());
        lines.push(text.unwrap_or_default().to_owned());
    };
    let result = engine.each_row(sql, &mut take);
    result.map_err(|error| error.message)?;
    Ok(lines)
}

/// Prints results as the classic program does.
fn print_csv(engine: &mut Engine, sql: &str) -> Result<(), String> {
    let mut rows = Csv::new(io::BufWriter::new(io::stdout().lock()));
    let result = engine.run(sql, &mut rows);
    rows.finish()
        .and_then(|mut out| out.flush())
        .map_err(|error| format!("cannot write the result: {error}"))?;
    result.map_err(|error| error.render(sql))
}
