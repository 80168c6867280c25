//! The command line.

mod classic;
mod shell;

use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use ferretto_query::engine::{Engine, Options};
use ferretto_query::error::SqlError;
use ferretto_query::output::{Format, write};
use ferretto_query::reports::Report;
use ferretto_query::rpc::{Processor, Server, ServerOptions};
use ferretto_query::trace::LoadedTrace;

/// Ask a trace with SQL.
///
/// The tables are those of Perfetto's trace processor: slice, thread, process, sched, counter and
/// others. Without SQL, a shell begins.
#[derive(Debug, Parser)]
#[command(name = "ferretto-query", version, max_term_width = 100)]
struct Args {
    /// The trace file.
    trace: Option<PathBuf>,

    /// The SQL. Several statements are separated by semicolons.
    sql: Option<String>,

    /// Read the SQL from a file; `-` for standard input.
    #[arg(short, long, value_name = "FILE", conflicts_with = "sql")]
    file: Option<PathBuf>,

    /// The format of results. A terminal gets a table, everything else CSV.
    #[arg(long, value_enum)]
    format: Option<Format>,

    /// The memory that a query may use before it writes to disk or fails, such as 2G.
    #[arg(long, value_name = "SIZE", default_value = "4G", value_parser = parse_size)]
    memory_limit: u64,

    /// The threads of a query and of the import. Without it, one for each processor.
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,

    /// Print a ready answer, and the SQL that it is made with.
    #[arg(long, value_enum, conflicts_with_all = ["sql", "file"])]
    report: Option<Report>,

    /// Answer programs over HTTP: the Python package 'perfetto' and the Perfetto UI.
    #[arg(long, conflicts_with_all = ["sql", "file", "report", "format"])]
    serve: bool,

    /// The port to answer on.
    #[arg(long, value_name = "PORT", default_value_t = 9001, requires = "serve")]
    port: u16,

    /// Print the tables with their columns as Markdown.
    #[arg(long, conflicts_with_all = ["trace", "serve", "report"])]
    schema_docs: bool,

    /// Print how long import and queries took.
    #[arg(long)]
    timing: bool,
}

fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" => 1,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        unit => return Err(format!("there is no unit '{unit}': K, M and G are")),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| format!("'{digits}' is no number"))?;
    number
        .checked_mul(factor)
        .ok_or_else(|| format!("{text} is too large"))
}

/// Runs the program.
pub fn main() -> ExitCode {
    let name = std::env::args_os().next().unwrap_or_default();
    if std::path::Path::new(&name)
        .file_name()
        .is_some_and(|n| n == "trace_processor_shell")
    {
        return classic::main();
    }
    let args = Args::parse();
    if args.serve {
        return report(serve(&args));
    }
    if args.schema_docs {
        print!("{}", ferretto_query::trace::schema_docs());
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(8 << 20)
        .build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(run(args)),
        Err(error) => Err(format!("cannot start threads: {error}")),
    };
    report(result)
}

fn report(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("ferretto-query: {message}");
            ExitCode::FAILURE
        }
    }
}

fn import_options(threads: usize) -> ferretto_tables::Options {
    let mut options = ferretto_tables::Options::default();
    if threads > 0 {
        options.threads = threads;
    }
    options
}

fn serve(args: &Args) -> Result<(), String> {
    let limits = Options {
        memory_limit: args.memory_limit,
        threads: args.threads,
    };
    let import = import_options(args.threads);
    let mut processor = Processor::new(limits, import, Vec::new()).map_err(|e| e.to_string())?;
    if let Some(path) = &args.trace {
        processor
            .open(path)
            .map_err(|e| format!("{}: {e}", path.display()))?;
    }
    let options = ServerOptions {
        address: "localhost".to_owned(),
        port: args.port,
        origins: Vec::new(),
    };
    listen(&options, processor)
}

/// Serves until the process is ended.
fn listen(options: &ServerOptions, processor: Processor) -> Result<(), String> {
    let server = Server::bind(options, processor)
        .map_err(|e| format!("cannot listen on port {}: {e}", options.port))?;
    for address in server.addresses() {
        eprintln!("answering on http://{address}");
    }
    server.run().map_err(|e| e.to_string())
}

fn read_sql(args: &Args) -> Result<Option<String>, String> {
    if let Some(sql) = &args.sql {
        return Ok(Some(sql.clone()));
    }
    let standard = || {
        let mut text = String::new();
        io::stdin()
            .read_to_string(&mut text)
            .map_err(|e| format!("cannot read standard input: {e}"))?;
        Ok(Some(text))
    };
    match &args.file {
        Some(path) if path.as_os_str() == "-" => standard(),
        Some(path) => std::fs::read_to_string(path)
            .map(Some)
            .map_err(|e| format!("cannot read {}: {e}", path.display())),
        None if io::stdin().is_terminal() => Ok(None),
        None => standard(),
    }
}

async fn run(args: Args) -> Result<(), String> {
    let Some(path) = args.trace.clone() else {
        return Err("name a trace file, as in 'ferretto-query trace.pftrace \"select …\"'".into());
    };
    let sql = match args.report {
        Some(report) => Some(report.sql().to_owned()),
        None => read_sql(&args)?,
    };
    let started = Instant::now();
    let options = import_options(args.threads);
    let trace = LoadedTrace::open(&path, &options, |_| ferretto_tables::Continue::Yes)
        .map_err(|e| format!("{}: {e}", path.display()))?;
    for remark in trace.tables().remarks() {
        eprintln!("{}: {remark}", path.display());
    }
    if args.timing {
        eprintln!("imported in {:.3} s", started.elapsed().as_secs_f64());
    }
    let limits = Options {
        memory_limit: args.memory_limit,
        threads: args.threads,
    };
    let mut engine = Engine::new(&limits, Some(&trace)).map_err(|e| e.to_string())?;
    health(&trace);
    let Some(sql) = sql else {
        return shell::run(&mut engine).await;
    };
    if args.report.is_some() {
        println!("{sql};\n");
    }
    let terminal = io::stdout().is_terminal();
    let format = args
        .format
        .unwrap_or(if terminal { Format::Table } else { Format::Csv });
    let mut out = io::BufWriter::new(io::stdout());
    let started = Instant::now();
    let width = terminal.then(terminal_width).flatten();
    print_results(&mut engine, &sql, format, width, &mut out)
        .await
        .map_err(|e| e.render(&sql))?;
    out.flush()
        .map_err(|e| format!("cannot write the result: {e}"))?;
    if args.timing {
        eprintln!("answered in {:.3} s", started.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Runs all statements and prints what they give, with an empty line between.
async fn print_results(
    engine: &mut Engine,
    sql: &str,
    format: Format,
    width: Option<usize>,
    out: &mut (dyn Write + Send),
) -> Result<(), SqlError> {
    let mut first = true;
    for statement in Engine::statements(sql)? {
        let Some(rows) = engine.run(statement).await? else {
            continue;
        };
        if !first && matches!(format, Format::Table | Format::Csv) {
            writeln!(out).map_err(|e| SqlError::new(format!("cannot write the result: {e}")))?;
        }
        first = false;
        write(rows, format, width, out).await?;
    }
    Ok(())
}

/// Tells what was lost or could not be read.
fn health(trace: &LoadedTrace) {
    let health = trace.health();
    if health.is_empty() {
        return;
    }
    eprintln!("Trace health issues:");
    for (title, severity, source) in [
        ("Trace errors", "error", "trace"),
        ("Import errors", "error", "analysis"),
        ("Data losses", "data_loss", ""),
    ] {
        let lines: Vec<_> = health
            .iter()
            .filter(|h| h.severity == severity && (source.is_empty() || h.source == source))
            .collect();
        if lines.is_empty() {
            continue;
        }
        eprintln!("  {title}:");
        for line in lines {
            eprintln!("    {} = {}: {}", line.name, line.value, line.description);
        }
    }
}

fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    size.map(|size| usize::from(size.ws_col))
        .filter(|width| *width > 0)
}
