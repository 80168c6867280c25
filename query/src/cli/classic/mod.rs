//! The program under upstream's name, `trace_processor_shell`, with its flags and commands.

mod args;
mod help;
mod packages;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use ferretto_query::output::Csv;
use ferretto_query::rpc::{Processor, serve_stream};
use ferretto_query::summary::Metrics;
use ferretto_query::{Engine, Options};

use self::args::{Classic, Command, parse};
use super::{
    Failure, background, convert, finish, listen, listen_on_socket, open, print_csv, print_health,
    read_standard_input, shell, standard_output, write_export,
};

/// Runs the program. Under the name `traceconv`, it converts.
pub(super) fn run(is_converter: bool) -> Result<ExitCode, Failure> {
    let convert = is_converter.then(|| OsString::from("convert"));
    let words = convert.into_iter().chain(std::env::args_os().skip(1));
    let Some(args) = parse(words).map_err(Failure::Usage)? else {
        return Ok(ExitCode::SUCCESS);
    };
    query(args)
        .map(|()| ExitCode::SUCCESS)
        .map_err(Failure::Run)
}

fn query(args: Classic) -> Result<(), String> {
    if args.httpd || args.stdiod || args.command == Command::Unix {
        return serve(args);
    }
    if let (Command::Kill, Some(name)) = (args.command, &args.socket) {
        return background::stop(name);
    }
    if let Some(server) = &args.remote {
        return query_remote(server, &args);
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
    if let Command::Convert(conversion) = args.command {
        return convert::write(&mut engine, conversion, path, args.output.as_deref());
    }
    if args.is_summary {
        args.summary
            .print(&mut engine, &Metrics::Named(Vec::new()))?;
    }
    let structured = args.summary.sql()?;
    let sql = match structured {
        Some(sql) => Some(sql),
        None => read_sql(&args)?,
    };
    let started = Instant::now();
    if let Some(sql) = sql
        .as_ref()
        .filter(|sql| !sql.is_empty() || !args.is_summary && args.export.is_none())
    {
        print_csv(&mut engine, sql)?;
    }
    if let Some((format, output)) = &args.export {
        write_export(&mut engine, &trace, *format, output, path)?;
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

/// Returns the SQL to run; `None` for a shell.
fn read_sql(args: &Classic) -> Result<Option<String>, String> {
    Ok(match (&args.query_string, &args.query_file) {
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
    })
}

/// Runs statements on a server.
fn query_remote(server: &str, args: &Classic) -> Result<(), String> {
    let Some(sql) = read_sql(args)? else {
        return Err("--remote needs SQL: as an argument, from a file or standard input".into());
    };
    let mut client = background::connect(server)?;
    let mut rows = Csv::new(standard_output());
    let result = client.run(&sql, &mut rows);
    finish(&mut rows)?;
    result.map_err(|error| error.message)
}

/// Runs this program again in the background, without `--daemonize`.
fn start_daemon(name: &str) -> Result<(), String> {
    let arguments = std::env::args_os().skip(1);
    let arguments = arguments.filter(|word| word != "--daemonize");
    background::start_program(name, |command| {
        command.args(arguments);
    })
}

/// Serves queries on a Unix socket.
fn serve_unix(name: &str, args: &Classic, processor: Processor) -> Result<(), String> {
    let idle = args.idle.unwrap_or(Some(background::IDLE));
    listen_on_socket(&background::socket(name)?, processor, idle)
}

fn serve(args: Classic) -> Result<(), String> {
    if let (Some(name), true) = (&args.socket, args.is_daemon) {
        return start_daemon(name);
    }
    let modules = args.modules.clone();
    let mut processor = Processor::new(Options::default(), args.import.clone(), modules)
        .map_err(|error| error.to_string())?;
    if let Some(path) = &args.trace {
        processor
            .open(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if let Some(name) = &args.socket {
        return serve_unix(name, &args, processor);
    }
    if args.stdiod {
        let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
        return serve_stream(&mut input, &mut output, processor).map_err(|error| error.to_string());
    }
    listen(&args.server, processor)
}
