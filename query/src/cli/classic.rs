//! The program under upstream's name, `trace_processor_shell`, with its classic flags.

use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use clap::Parser;
use ferretto_query::engine::{Engine, Options, STACK};
use ferretto_query::output::Format;
use ferretto_query::rpc::{API_VERSION, Processor, ServerOptions, UPSTREAM_VERSION};
use ferretto_query::trace::LoadedTrace;

use super::{listen, print_health, print_results, shell};

/// Query a trace with SQL, with the flags of upstream's program of this name.
#[derive(Debug, Parser)]
#[command(
    name = "trace_processor_shell",
    disable_version_flag = true,
    max_term_width = 100
)]
struct Classic {
    /// The trace file.
    trace: Option<PathBuf>,

    /// Print the versions of the program and of its protocol.
    #[arg(short = 'v', long)]
    version: bool,

    /// Run the SQL of a file.
    #[arg(short = 'q', long, value_name = "FILE")]
    query_file: Option<PathBuf>,

    /// Run this SQL.
    #[arg(short = 'Q', long, value_name = "SQL", conflicts_with = "query_file")]
    query_string: Option<String>,

    /// Start a shell after the queries.
    #[arg(short = 'i', long)]
    interactive: bool,

    /// Serve queries over HTTP.
    #[arg(short = 'D', long)]
    httpd: bool,

    /// Serve queries on standard input and output.
    #[arg(long, conflicts_with = "httpd")]
    stdiod: bool,

    /// The port to listen on.
    #[arg(long, value_name = "PORT", default_value_t = 9001)]
    http_port: u16,

    /// The address to listen on.
    #[arg(long, value_name = "ADDRESS", default_value = "localhost")]
    http_ip_address: String,

    /// Further web origins that may send queries, separated by commas.
    #[arg(long, value_name = "ORIGINS", value_delimiter = ',')]
    http_additional_cors_origins: Vec<String>,

    /// Write the durations of import and queries, in nanoseconds, to a file.
    #[arg(short = 'p', long, value_name = "FILE")]
    perf_file: Option<PathBuf>,

    /// Sort all events of the trace together.
    #[arg(long)]
    full_sort: bool,

    /// Leave `ftrace_event` empty.
    #[arg(long)]
    no_ftrace_raw: bool,

    /// Leave out track events before the range of interest that the trace declares.
    #[arg(long)]
    crop_track_events: bool,

    /// Add the modules of a folder, `DIR` or `DIR@NAME`.
    #[arg(long, value_name = "DIR")]
    add_sql_package: Vec<String>,

    /// Add the modules of a folder, instead of existing ones with the same names.
    #[arg(long, value_name = "DIR")]
    override_sql_package: Vec<String>,

    /// Has no effect: there are no optional checks.
    #[arg(long)]
    extra_checks: bool,

    /// Has no effect: there is no table of the content of packets.
    #[arg(long)]
    analyze_trace_proto_content: bool,

    /// Has no effect: no files are registered with a trace.
    #[arg(long, value_name = "DIR")]
    register_files_dir: Option<PathBuf>,
}

pub(super) fn main() -> ExitCode {
    super::report(run(Classic::parse()))
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

fn run(args: Classic) -> Result<(), String> {
    if args.version {
        println!(
            "Ferretto {} (as {UPSTREAM_VERSION})",
            env!("CARGO_PKG_VERSION")
        );
        println!("Trace Processor RPC API version: {API_VERSION}");
        return Ok(());
    }
    for (is_given, flag, why) in [
        (
            args.extra_checks,
            "--extra-checks",
            "there are no optional checks",
        ),
        (
            args.analyze_trace_proto_content,
            "--analyze-trace-proto-content",
            "there is no table of the content of packets",
        ),
        (
            args.register_files_dir.is_some(),
            "--register-files-dir",
            "no files are registered with a trace",
        ),
    ] {
        if is_given {
            eprintln!("{flag} has no effect: {why}");
        }
    }
    let mut import = super::import_options(0);
    import.full_sort = args.full_sort;
    import.crop_track_events = args.crop_track_events;
    if args.no_ftrace_raw {
        let tables: Vec<_> = ferretto_tables::TableId::ALL
            .iter()
            .copied()
            .filter(|id| id.spec().name != "ftrace_event")
            .collect();
        import.tables = ferretto_tables::TableSet::of(&tables);
    }
    let mut modules = Vec::new();
    for argument in args
        .add_sql_package
        .iter()
        .chain(&args.override_sql_package)
    {
        modules.extend(package(argument)?);
    }
    if args.httpd || args.stdiod {
        let mut processor =
            Processor::new(Options::default(), import, modules).map_err(|e| e.to_string())?;
        if let Some(path) = &args.trace {
            processor
                .open(path)
                .map_err(|e| format!("{}: {e}", path.display()))?;
            print_health(processor.trace());
        }
        if args.stdiod {
            let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
            return ferretto_query::rpc::serve_stream(
                &mut input,
                &mut output,
                &Mutex::new(processor),
            )
            .map_err(|e| e.to_string());
        }
        let options = ServerOptions {
            address: args.http_ip_address,
            port: args.http_port,
            origins: args.http_additional_cors_origins,
        };
        return listen(&options, processor);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK)
        .build()
        .map_err(|e| format!("cannot start threads: {e}"))?;
    runtime.block_on(run_queries(args, &import, &modules))
}

async fn run_queries(
    args: Classic,
    import: &ferretto_tables::Options,
    modules: &[(String, String)],
) -> Result<(), String> {
    let Some(path) = &args.trace else {
        return Err("the trace file is missing: name one".into());
    };
    let started = Instant::now();
    let trace = LoadedTrace::open(path, import, |_| ferretto_tables::Continue::Yes)
        .map_err(|e| format!("{}: {e}", path.display()))?;
    let loaded = started.elapsed();
    let size = std::fs::metadata(path).map_or(0, |data| data.len()) as f64 / 1e6;
    let seconds = loaded.as_secs_f64();
    eprintln!(
        "Trace loaded: {size:.2} MB in {seconds:.2}s ({:.1} MB/s)",
        size / seconds.max(1e-9)
    );
    for remark in trace.tables().remarks() {
        eprintln!("{}: {remark}", path.display());
    }
    print_health(&trace);
    let mut engine = Engine::new(&Options::default(), Some(&trace)).map_err(|e| e.to_string())?;
    for (name, sql) in modules {
        engine
            .add_module(name, sql, true)
            .map_err(|e| e.to_string())?;
    }
    let sql = match (&args.query_string, &args.query_file) {
        (Some(sql), _) => Some(sql.clone()),
        (None, Some(path)) if path.as_os_str() != "-" => Some(
            std::fs::read_to_string(path)
                .map_err(|e| format!("cannot read {}: {e}", path.display()))?,
        ),
        (None, file) if file.is_some() || !(args.interactive || io::stdin().is_terminal()) => {
            let mut sql = String::new();
            io::stdin()
                .read_to_string(&mut sql)
                .map_err(|e| format!("cannot read standard input: {e}"))?;
            Some(sql)
        }
        _ => None,
    };
    let started = Instant::now();
    if let Some(sql) = &sql {
        let mut out = io::BufWriter::new(io::stdout());
        print_results(&mut engine, sql, Format::Csv, None, &mut out)
            .await
            .map_err(|e| e.render(sql))?;
        out.flush()
            .map_err(|e| format!("cannot write the result: {e}"))?;
    }
    if let Some(path) = &args.perf_file {
        let times = format!("{},{}\n", loaded.as_nanos(), started.elapsed().as_nanos());
        std::fs::write(path, times).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    }
    if sql.is_none() || args.interactive {
        return shell::run(&mut engine).await;
    }
    Ok(())
}
