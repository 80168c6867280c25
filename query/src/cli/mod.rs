//! The command line.

mod args;
mod background;
mod classic;
mod convert;
mod fleet;
mod shell;
mod summarize;

use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferretto_output::{Printable, printable};
use ferretto_query::Engine;
use ferretto_query::export::{ExportFormat, export};
use ferretto_query::output::{Csv, Format, Output, output};
use ferretto_query::rpc::{Processor, Server, ServerOptions, SocketServer, serve_stream};
use ferretto_query::summary::Metrics;
use ferretto_tables::{Continue, Trace};
use ferretto_text::amount::human_bytes;

use self::args::{Args, Task};

/// Runs the program.
pub(crate) fn main() -> ExitCode {
    let name = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&name)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let is_converter = name == "traceconv" || name.starts_with("traceconv-");
    let result = if is_converter || name == "trace_processor_shell" {
        classic::run(is_converter)
    } else {
        args::parse().map_err(Failure::Usage).and_then(|task| {
            let done = match task {
                Task::Convert(mut parser) => {
                    return convert::run(&mut parser).map(|()| ExitCode::SUCCESS);
                }
                Task::Run(args) if args.serve => serve(&args).map(|()| ExitCode::SUCCESS),
                Task::Run(args) => match (&args.start, &args.stop, &args.remote) {
                    (Some(name), ..) => {
                        background::start(name, &args.traces[0], &args).map(|()| ExitCode::SUCCESS)
                    }
                    (_, Some(name), _) => background::stop(name).map(|()| ExitCode::SUCCESS),
                    (.., Some(name)) => run_remote(name, &args).map(|()| ExitCode::SUCCESS),
                    _ => run(&args),
                },
                Task::Fleet(reason) => Err(fleet::run(reason)),
                Task::Done => Ok(ExitCode::SUCCESS),
            };
            done.map_err(Failure::Run)
        })
    };
    let (code, message) = match result {
        Ok(code) => return code,
        Err(Failure::Usage(message)) => (ExitCode::from(USAGE), message),
        Err(Failure::Run(message)) => (ExitCode::FAILURE, message),
    };
    remark(format_args!("ferretto-query: {message}"));
    code
}

/// An error of the program.
enum Failure {
    /// The command line is wrong.
    Usage(String),
    /// The task failed.
    Run(String),
}

/// The exit code if the command line is wrong, as of `ferretto`.
const USAGE: u8 = 2;

/// The exit code if a trace has data that cannot be read or shown, as of `ferretto`.
const INCOMPLETE: u8 = 3;

/// Imports a trace, and prints its remarks.
fn open(path: &Path, options: &ferretto_tables::Options) -> Result<Arc<Trace>, String> {
    let mut keep_on = |_| Continue::Yes;
    let trace = Trace::open(path, options, &mut keep_on)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    print_losses(path, &trace);
    Ok(Arc::new(trace))
}

/// Refuses an ordinary file without a byte, as of a recording that failed. `/dev/null` is a trace
/// without contents.
fn not_empty(path: &Path) -> Result<(), String> {
    let is_empty = std::fs::metadata(path).is_ok_and(|it| it.is_file() && it.len() == 0);
    if is_empty {
        return Err(format!("cannot read {}: the file is empty", path.display()));
    }
    Ok(())
}

/// Prints the remarks of an imported trace.
fn print_losses(path: &Path, trace: &Trace) {
    for text in trace.remarks() {
        remark(format_args!("{}: {text}", path.display()));
    }
}

/// Fails if the tables of the trace take more than the arguments allow.
fn check_size(args: &Args, trace: &Trace) -> Result<(), String> {
    if !args.refuses_large || !trace.exceeds_memory() {
        return Ok(());
    }
    Err(format!(
        "{}: the tables take more than the {} of --trace-memory",
        args.traces[0].display(),
        human_bytes(args.import.memory as u64)
    ))
}

fn run(args: &Args) -> Result<ExitCode, String> {
    let is_summary = !args.summary.specs.is_empty() && args.summary.query.is_none();
    let sql = match (args.report, args.summary.sql()?) {
        (_, Some(sql)) => Some(sql),
        (Some(report), _) => Some(report.sql().to_owned()),
        (None, _) if is_summary || args.export.is_some() => None,
        (None, _) => read_sql(args)?,
    };
    let started = Instant::now();
    not_empty(&args.traces[0])?;
    let trace = open(&args.traces[0], &args.import)?;
    check_size(args, &trace)?;
    if args.timing {
        eprintln!("imported in {:.3} s", started.elapsed().as_secs_f64());
    }
    let mut engine = Engine::new(&trace, &args.limits).map_err(|error| error.to_string())?;
    print_health(&mut engine);
    let is_whole = trace.health().is_empty() && trace.remarks().is_empty();
    let done = || {
        if is_whole {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(INCOMPLETE)
        }
    };
    if is_summary {
        args.summary.print(&mut engine, &Metrics::All)?;
        return Ok(done());
    }
    if let Some((format, path)) = &args.export {
        write_export(&mut engine, &trace, *format, path, &args.traces[0])?;
        return Ok(done());
    }
    let Some(sql) = sql else {
        return shell::run(&mut engine).map(|()| ExitCode::SUCCESS);
    };
    if args.report.is_some() {
        println!("{sql};\n");
    }
    let started = Instant::now();
    let terminal = io::stdout().is_terminal();
    let default = if terminal { Format::Table } else { Format::Csv };
    let width = terminal.then(terminal_width).flatten();
    print_results(&mut engine, &sql, args.format.unwrap_or(default), width)?;
    if args.timing {
        eprintln!("queried in {:.3} s", started.elapsed().as_secs_f64());
    }
    Ok(done())
}

/// Runs statements on a server in the background.
fn run_remote(name: &str, args: &Args) -> Result<(), String> {
    let sql = match args.report {
        Some(report) => Some(report.sql().to_owned()),
        None => read_sql(args)?,
    };
    let Some(sql) = sql else {
        return Err("--remote needs SQL: as an argument, from -f or standard input".into());
    };
    let mut client = background::connect(name)?;
    let started = Instant::now();
    let terminal = io::stdout().is_terminal();
    let default = if terminal { Format::Table } else { Format::Csv };
    let width = terminal.then(terminal_width).flatten();
    let format = args.format.unwrap_or(default);
    let mut rows = output(format, width, standard_output());
    let result = client.run(&sql, &mut *rows);
    if result.is_ok() {
        rows.succeeded();
    }
    finish(&mut *rows)?;
    if args.timing {
        eprintln!("queried in {:.3} s", started.elapsed().as_secs_f64());
    }
    result.map_err(|error| error.message)
}

/// Writes the tables of a trace to a file.
fn write_export(
    engine: &mut Engine,
    trace: &Trace,
    format: ExportFormat,
    path: &Path,
    input: &Path,
) -> Result<(), String> {
    let written = ferretto_output::write(path, &[input], |out| {
        Ok(export(engine, trace, format, out)?)
    });
    written.map_err(|error| format!("{error:#}"))
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

/// Returns a writer of results. On a terminal, texts of a trace cannot control it.
fn standard_output() -> io::BufWriter<Box<dyn Write>> {
    let out = io::stdout().lock();
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
fn print_results(
    engine: &mut Engine,
    sql: &str,
    format: Format,
    width: Option<usize>,
) -> Result<(), String> {
    let mut rows = output(format, width, standard_output());
    let result = engine.run(sql, &mut *rows);
    if result.is_ok() {
        rows.succeeded();
    }
    finish(&mut *rows)?;
    print_remarks(engine);
    result.map_err(|error| error.render(sql))
}

/// Prints remarks on the results of the last statements.
fn print_remarks(engine: &Engine) {
    for text in engine.remarks() {
        remark(format_args!("warning: {text}"));
    }
}

/// Writes the rest of the results.
fn finish(rows: &mut dyn Output) -> Result<(), String> {
    match rows.finish() {
        // A reader of the results that has enough closes the pipe.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write the result: {error}"))
        }
        _ => Ok(()),
    }
}

const HEALTH: &str = "SELECT name || ifnull('[' || idx || ']', '') || ' = ' || value || ': '
  || ifnull(description, ''), severity, source FROM stats
WHERE value > 0 AND severity IN ('error', 'data_loss')";

/// Prints losses and errors of the trace.
fn print_health(engine: &mut Engine) {
    let mut lines: [Vec<String>; 3] = Default::default();
    let mut take = |values: &[ferretto_query::ValueRef<'_>]| {
        let text = |index: usize| values[index].as_str().unwrap_or_default().to_owned();
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
            remark(format_args!("    {line}"));
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
    if let Some(path) = args.traces.first() {
        not_empty(path)?;
        processor
            .open(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        check_size(args, processor.trace())?;
        print_losses(path, processor.trace());
    }
    if let Some(path) = &args.socket {
        return listen_on_socket(path, processor, args.idle.flatten());
    }
    if args.stdio {
        return serve_on_pipes(processor);
    }
    let options = ServerOptions {
        address: "localhost".to_owned(),
        port: args.port.unwrap_or(9001),
        origins: Vec::new(),
    };
    listen(&options, processor)
}

/// Starts a thread that ends with the process.
fn start(work: impl FnOnce() + Send + 'static) -> Result<(), String> {
    let thread = std::thread::Builder::new().spawn(work);
    thread.map_err(|error| format!("cannot start a thread: {error}"))?;
    Ok(())
}

/// Serves on standard input and output until the input is closed, which ends running queries.
fn serve_on_pipes(processor: Processor) -> Result<(), String> {
    use rustix::event::{PollFd, PollFlags, poll};

    let watch = || {
        let input = io::stdin();
        let mut input = [PollFd::new(&input, PollFlags::empty())];
        // Returns when the other end of a pipe is closed. Files have no other end.
        while let Ok(0) | Err(rustix::io::Errno::INTR) = poll(&mut input, None) {}
        if input[0].revents().contains(PollFlags::HUP) {
            std::process::exit(0);
        }
    };
    start(watch)?;
    let (mut input, mut output) = (io::stdin(), io::stdout().lock());
    serve_stream(&mut input, &mut output, processor).map_err(|error| error.to_string())
}

/// Serves until the process is ended by a signal, or nothing was asked for this time, and removes
/// the socket.
fn listen_on_socket(
    path: &Path,
    processor: Processor,
    idle: Option<Duration>,
) -> Result<(), String> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;

    let started = |error| format!("cannot listen on {}: {error}", path.display());
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).map_err(started)?;
    let server = SocketServer::bind(path).map_err(started)?;
    let running = server.run(processor);
    let running = running.map_err(|error| format!("cannot start threads: {error}"))?;
    eprintln!("listening on {}", path.display());
    let running = Arc::new(running);
    if let Some(idle) = idle {
        let (running, handle) = (running.clone(), signals.handle());
        let watch = move || {
            loop {
                let left = idle.saturating_sub(running.idle());
                if left.is_zero() {
                    return handle.close();
                }
                std::thread::sleep(left.max(Duration::from_millis(1)));
            }
        };
        start(watch)?;
    }
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
    server
        .run()
        .map_err(|error| format!("cannot start threads: {error}"))
}

/// Returns the result of a query as lines.
fn lines(engine: &mut Engine, sql: &str) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    let mut take = |values: &[ferretto_query::ValueRef<'_>]| {
        let text = values.first().and_then(|value| value.as_str().ok());
        lines.push(text.unwrap_or_default().to_owned());
    };
    let result = engine.each_row(sql, &mut take);
    result.map_err(|error| error.message)?;
    Ok(lines)
}

/// Prints results as the classic program does.
fn print_csv(engine: &mut Engine, sql: &str) -> Result<(), String> {
    let mut rows = Csv::new(standard_output());
    let result = engine.run(sql, &mut rows);
    rows.finish()
        .and_then(|mut out| out.flush())
        .map_err(|error| format!("cannot write the result: {error}"))?;
    print_remarks(engine);
    result.map_err(|error| error.render(sql))
}
