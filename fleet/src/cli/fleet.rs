//! Queries over many traces, and their export, from the command line.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ferretto_fleet::cluster::{self, Access};
use ferretto_fleet::engine::Engine;
use ferretto_fleet::fleet::{self, Fleet, Importer, TraceFile};

use super::{Args, INCOMPLETE};

/// Runs SQL over many traces, or exports them.
pub(super) async fn run(
    args: &Args,
    names: &[String],
    sql: Option<String>,
) -> Result<ExitCode, String> {
    let Some(address) = &args.cluster else {
        return run_on(None, args, names, sql).await;
    };
    let access = Access::of(args.secret_file.as_deref()).map_err(|e| e.to_string())?;
    run_on(Some((address, &access)), args, names, sql)
        .await
        .map_err(|error| access.explain(error))
}

/// Runs SQL on a cluster, or in this process.
async fn run_on(
    cluster: Option<(&String, &Access)>,
    args: &Args,
    names: &[String],
    sql: Option<String>,
) -> Result<ExitCode, String> {
    let started = Instant::now();
    let text = |e: ferretto_fleet::error::SqlError| e.to_string();
    let files = fleet::find(names).await.map_err(text)?;
    let limits = args.limits();
    let importer = Arc::new(Importer::new(args.memory_limit));
    let progress = Progress::start(importer.clone(), &files);
    let fleet = match cluster {
        Some((address, access)) => {
            cluster::connect(address, access, &limits, files, importer.clone())
        }
        None => Fleet::new(&limits, files, importer.clone()),
    };
    let fleet = fleet.map_err(text)?;
    let mut engine = Engine::over_fleet(&limits, fleet).map_err(text)?;
    engine.query_each_trace(args.per_trace);
    if let Some(export) = &args.export {
        let target = Path::new(&export[1]);
        tokio::select! {
            done = write_parquet(args, &mut engine, sql, target) => done?,
            _ = tokio::signal::ctrl_c() => return Err("interrupted: no file was exported".into()),
        }
    } else {
        let Some(sql) = sql else {
            progress.end();
            return super::shell::run(&mut engine)
                .await
                .map(|()| ExitCode::SUCCESS);
        };
        if args.report.is_some() {
            println!("{sql};\n");
        }
        super::print_query(args, &mut engine, &sql).await?;
    }
    progress.end();
    if args.timing {
        eprintln!("queried in {:.3} s", started.elapsed().as_secs_f64());
    }
    let failures = match cluster {
        Some(_) => engine.unreadable().await.map_err(text)?,
        None => importer.failures(),
    };
    if failures.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let all = engine.fleet().map_or(0, |fleet| fleet.files().len());
    eprintln!(
        "{} of {all} traces could not be read, and are not in the result:",
        failures.len()
    );
    for failure in failures {
        super::remark(format_args!("  {}: {}", failure.path, failure.reason));
    }
    Ok(ExitCode::from(INCOMPLETE))
}

async fn write_parquet(
    args: &Args,
    engine: &mut Engine,
    sql: Option<String>,
    target: &Path,
) -> Result<(), String> {
    let text = |e: ferretto_fleet::error::SqlError| e.to_string();
    if let Some(sql) = sql
        && engine
            .query(&sql)
            .await
            .map_err(|e| e.render(&sql))?
            .is_some()
    {
        return Err(
            "SQL before an export may only define views and include modules: name the tables to \
             export with --tables"
                .into(),
        );
    }
    let threads = match args.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let tables: Vec<String> = if args.tables.is_empty() {
        fleet::RELATIONS.iter().map(|r| (*r).to_owned()).collect()
    } else {
        args.tables.clone()
    };
    let exported = engine
        .export(&tables, target, threads)
        .await
        .map_err(text)?;
    eprintln!(
        "{} rows of {} traces in {} files below {}",
        exported.rows,
        exported.traces,
        exported.files,
        target.display()
    );
    Ok(())
}

/// Shows the progress of the import on a terminal.
struct Progress {
    end: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    fn start(importer: Arc<Importer>, files: &[TraceFile]) -> Self {
        if !io::stderr().is_terminal() {
            return Self { end: None };
        }
        let (count, size) = (files.len(), files.iter().map(|f| f.size).sum::<u64>());
        let (end, ended) = channel();
        let thread = std::thread::Builder::new().name("ferretto-progress".to_owned());
        let started = thread.spawn(move || {
            let mut shown = false;
            while let Err(RecvTimeoutError::Timeout) =
                ended.recv_timeout(Duration::from_millis(200))
            {
                let (done, bytes) = importer.progress();
                if done > 0 {
                    let mb = |bytes: u64| bytes as f64 / 1e6;
                    let line = format!(
                        "{done} of {count} traces, {:.0} of {:.0} MB",
                        mb(bytes),
                        mb(size)
                    );
                    eprint!("\r{line}\x1b[K");
                    let _ = io::stderr().flush();
                    shown = true;
                }
            }
            if shown {
                eprint!("\r\x1b[K");
            }
        });
        // Without a thread, no progress is shown.
        Self {
            end: started.ok().map(|thread| (end, thread)),
        }
    }

    fn end(mut self) {
        self.finish();
    }

    fn finish(&mut self) {
        if let Some((end, thread)) = self.end.take() {
            drop(end);
            // The thread only prints, so a panic there is ignored.
            let _ = thread.join();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}
