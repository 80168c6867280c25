//! The command line.

mod cluster;
mod fleet;
mod shell;

use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use ferretto_fleet::engine::{Engine, Options, STACK};
use ferretto_fleet::error::SqlError;
use ferretto_fleet::fleet::{is_address, is_pattern};
use ferretto_fleet::output::{Format, write};
use ferretto_fleet::trace::LoadedTrace;
use ferretto_output::{Printable, printable};
use ferretto_query::reports::Report;

/// Query many traces with SQL.
///
/// The tables are those of Perfetto's trace processor: slice, thread, process, sched, counter and
/// others. Without SQL, a shell starts.
#[derive(Debug, Parser)]
#[command(name = "ferretto-fleet", version, max_term_width = 100)]
struct Args {
    /// The trace, then the SQL; several statements are separated by semicolons. Several traces,
    /// patterns such as 'traces/**/*.pftrace', folders and addresses of object stores are queried
    /// together: tables then have the columns trace_id and path.
    #[arg(value_name = "TRACE... [SQL]")]
    inputs: Vec<String>,

    /// Read the SQL from a file; `-` for standard input.
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// The format of results. The default is a table on a terminal, and CSV otherwise.
    #[arg(long, value_enum)]
    format: Option<Format>,

    /// The memory limit of a query, such as 2G. Beyond it, the query writes to disk or fails.
    #[arg(long, value_name = "SIZE", default_value = "4G", value_parser = parse_size)]
    memory_limit: u64,

    /// The bytes that queries may write to temporary files, such as 1T. Beyond it, a query fails.
    #[arg(long, value_name = "SIZE", default_value = "16G", value_parser = parse_size)]
    max_spill: u64,

    /// The number of threads of a query and of the import. The default is one for each processor.
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,

    /// Print a report, and the SQL that computes it.
    #[arg(long, value_name = "REPORT", conflicts_with = "file", value_parser = parse_report)]
    report: Option<Report>,

    /// Print the durations of import and queries.
    #[arg(long)]
    timing: bool,

    /// Query each trace alone, and print the results together, with trace_id and path.
    #[arg(long)]
    per_trace: bool,

    /// Write tables of the traces below a new folder, as 'table=slice/trace_id=…/data.parquet'. The
    /// format is parquet.
    #[arg(long, num_args = 2, value_names = ["FORMAT", "DIR"], conflicts_with_all = ["report", "format", "per_trace"])]
    export: Option<Vec<String>>,

    /// The tables and views to export, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "export")]
    tables: Vec<String>,

    /// Run queries on the executors of this scheduler, such as df://localhost:50050.
    #[arg(long, value_name = "URL", conflicts_with = "export")]
    cluster: Option<String>,

    /// The file with the secret of the scheduler and its executors.
    #[arg(long, value_name = "FILE", requires = "cluster")]
    secret_file: Option<PathBuf>,
}

impl Args {
    fn limits(&self) -> Options {
        Options {
            memory_limit: self.memory_limit,
            threads: self.threads,
            max_spill: Some(self.max_spill),
        }
    }

    /// Returns the traces, and the SQL after them.
    fn split(&self) -> (Vec<String>, Option<String>) {
        let mut traces = self.inputs.clone();
        let takes_sql = self.file.is_none() && self.report.is_none();
        let is_sql = |text: &String| {
            text.contains([' ', '\n', ';', '(']) && !std::path::Path::new(text).exists()
        };
        let sql = traces.pop_if(|last| takes_sql && is_sql(last));
        (traces, sql)
    }

    /// Returns true if the tables have the rows of several traces.
    fn has_many(&self, traces: &[String]) -> bool {
        let many = |name: &String| {
            is_pattern(name) || is_address(name) || std::path::Path::new(name).is_dir()
        };
        traces.len() > 1
            || self.per_trace
            || self.export.is_some()
            || self.cluster.is_some()
            || traces.iter().any(many)
    }
}

fn parse_report(name: &str) -> Result<Report, String> {
    let names = || Report::ALL.map(Report::name).join(", ");
    Report::named(name).ok_or_else(|| format!("'{name}' is not a report: use one of {}", names()))
}

fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" => 1,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        "T" | "TB" | "TIB" => 1 << 40,
        unit => return Err(format!("'{unit}' is not a unit: use K, M, G or T")),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| format!("'{digits}' is not a number"))?;
    number
        .checked_mul(factor)
        .ok_or_else(|| format!("{text} is too large"))
}

/// Runs the program.
pub fn main() -> ExitCode {
    if let Some(code) = cluster::main() {
        return code;
    }
    let args = Args::parse();
    if let Some([format, _]) = args.export.as_deref()
        && format != "parquet"
    {
        return report(Err(format!(
            "'{format}' is not an export format: use parquet"
        )));
    }
    match runtime().and_then(|runtime| runtime.block_on(run(args))) {
        Ok(code) => code,
        Err(message) => report(Err(message)),
    }
}

/// The exit code if the results lack traces that cannot be read, or data of a trace that cannot be
/// read or shown; the same as that of `ferretto`.
const INCOMPLETE: u8 = 3;

/// Creates the threads that run queries.
fn runtime() -> Result<tokio::runtime::Runtime, String> {
    check_threads().map_err(|e| format!("cannot start threads: {e}; see 'ulimit -u'"))?;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK)
        .build()
        .map_err(|e| format!("cannot start threads: {e}"))
}

/// Checks that the threads of the runtime can be started, which would panic otherwise: a worker for
/// each processor, and a few that read files.
fn check_threads() -> io::Result<()> {
    let count = std::thread::available_parallelism().map_or(1, usize::from) + 8;
    let (over, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    std::thread::scope(|scope| {
        // Dropped at a failure, too. All threads end then.
        let _over = over;
        for _ in 0..count {
            let wait = || {
                let wait = wait
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
                // Nothing is sent.
                let _ = wait.recv();
            };
            std::thread::Builder::new().spawn_scoped(scope, wait)?;
        }
        Ok(())
    })
}

fn report(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            remark(format_args!("ferretto-fleet: {message}"));
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

fn read_sql(args: &Args, sql: Option<String>) -> Result<Option<String>, String> {
    if sql.is_some() {
        return Ok(sql);
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
        None if args.export.is_some() || io::stdin().is_terminal() => Ok(None),
        None => standard(),
    }
}

async fn run(args: Args) -> Result<ExitCode, String> {
    let (traces, sql) = args.split();
    if traces.is_empty() {
        return Err("the trace file is missing: name one, as in 'ferretto-fleet trace.pftrace \"select …\"'".into());
    }
    let sql = match args.report {
        Some(report) => Some(report.sql().to_owned()),
        None => read_sql(&args, sql)?,
    };
    if args.has_many(&traces) {
        return fleet::run(&args, &traces, sql).await;
    }
    let path = PathBuf::from(&traces[0]);
    let started = Instant::now();
    let options = import_options(args.threads);
    let trace = LoadedTrace::open(&path, &options, |_| ferretto_tables::Continue::Yes)
        .map_err(|e| format!("{}: {e}", path.display()))?;
    for text in trace.tables().remarks() {
        remark(format_args!("{}: {text}", path.display()));
    }
    if args.timing {
        eprintln!("imported in {:.3} s", started.elapsed().as_secs_f64());
    }
    let limits = args.limits();
    let mut engine = Engine::new(&limits, Some(&trace)).map_err(|e| e.to_string())?;
    print_health(&trace);
    let Some(sql) = sql else {
        return shell::run(&mut engine).await.map(|()| ExitCode::SUCCESS);
    };
    if args.report.is_some() {
        println!("{sql};\n");
    }
    let started = Instant::now();
    print_query(&args, &mut engine, &sql).await?;
    if args.timing {
        eprintln!("queried in {:.3} s", started.elapsed().as_secs_f64());
    }
    let tables = trace.tables();
    let is_whole = tables.health().is_empty() && tables.remarks().is_empty();
    Ok(if is_whole {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(INCOMPLETE)
    })
}

/// Runs the SQL and prints the results.
async fn print_query(args: &Args, engine: &mut Engine, sql: &str) -> Result<(), String> {
    let terminal = io::stdout().is_terminal();
    let format = args
        .format
        .unwrap_or(if terminal { Format::Table } else { Format::Csv });
    let mut out = standard_output();
    let width = terminal.then(terminal_width).flatten();
    print_results(engine, sql, format, width, &mut out)
        .await
        .map_err(|e| e.render(sql))?;
    out.flush()
        .map_err(|e| format!("cannot write the result: {e}"))
}

/// Returns a writer of results. On a terminal, texts of a trace cannot control it.
fn standard_output() -> io::BufWriter<Box<dyn Write + Send>> {
    let out = io::stdout();
    io::BufWriter::new(if out.is_terminal() {
        Box::new(Printable::new(out))
    } else {
        Box::new(out)
    })
}

/// Prints a line on standard error, where texts of a trace cannot control the terminal.
fn remark(line: impl std::fmt::Display) {
    eprintln!("{}", printable(&line.to_string()));
}

/// Runs all statements and prints their results, separated by empty lines.
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

/// Prints losses and errors of the trace.
fn print_health(trace: &LoadedTrace) {
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
            remark(format_args!(
                "    {} = {}: {}",
                line.name, line.value, line.description
            ));
        }
    }
}

fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    size.map(|size| usize::from(size.ws_col))
        .filter(|width| *width > 0)
}
