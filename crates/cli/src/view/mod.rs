//! `ferretto view`: shows a trace in our own page, without a network.

mod live;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;
use ferretto_http::{Peer, Users, random_name};
use ferretto_tables::{Continue, Format, Options, Progress, Trace};
use ferretto_text::terminal::shown;
use ferretto_view::{Cache, Export, NewIndex, Server, View};

use crate::browser::browse;
use crate::output::{is_standard, print_line, write_private};
use crate::query;
use crate::read::{
    DEFAULT_TRACE, Extent, UnpackedArgs, check, converted, explained, parse_bytes, seekable_any,
};

/// Show a trace in a browser, without a network
///
/// Prints the address of a page and serves the trace to it over the loopback address, until the
/// page is closed or Ctrl-C is pressed. No data leaves the machine, and traces may be of any size.
/// On a desktop, the browser is started.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferretto view trace.pftrace               shows a trace
  ferretto view trace.pftrace -o trace.html writes it into one file for any browser
  ferretto view --live -- make              records make and shows the trace as it grows
  ferretto view --before old.pftrace new.pftrace
                                            compares its flamegraphs with another trace's")]
pub(crate) struct ViewArgs {
    /// The trace, in any supported format, possibly compressed; - is standard input
    #[arg(value_name = "FILE", default_value = DEFAULT_TRACE)]
    pub(crate) file: PathBuf,
    /// Only print the address
    #[arg(short, long)]
    pub(crate) no_browser: bool,
    /// Compare flamegraphs with this trace
    #[arg(long, value_name = "FILE")]
    pub(crate) before: Option<PathBuf>,
    /// Write page and trace into one HTML file for any browser, without a network
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["no_browser", "before"])]
    pub(crate) output: Option<PathBuf>,
    /// Largest size of that file, for example 10M; parts that do not fit are left out and reported
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, requires = "output")]
    #[arg(default_value = "256M")]
    pub(crate) max_size: u64,
    /// Record FILE and show it as it grows, until COMMAND ends or, without one, the page is closed
    #[arg(long, conflicts_with_all = ["output", "before"])]
    pub(crate) live: bool,
    /// Memory limit, for example 8G; the rest of the trace is left out and reported [default: half
    /// of the memory of this machine or of its control group]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    max_memory: Option<u64>,
    /// Do not keep an index of the trace in $XDG_CACHE_HOME/ferretto/view, and do not use one
    #[arg(long)]
    no_cache: bool,
    #[command(flatten)]
    unpacked: UnpackedArgs,
    /// The command to record
    #[arg(last = true, value_name = "COMMAND", requires = "live")]
    pub(crate) command: Vec<OsString>,
}

impl ViewArgs {
    /// Returns the cache of indexes: `$XDG_CACHE_HOME/ferretto/view`, or below `~/.cache`.
    fn cache(&self) -> Option<Cache> {
        if self.no_cache {
            return None;
        }
        let caches = user_folder("XDG_CACHE_HOME", ".cache")?;
        Some(Cache::new(caches.join("ferretto").join("view")))
    }

    /// Returns the options of imports.
    pub(crate) fn options(&self) -> Options {
        let options = Options::default();
        let max = self
            .max_memory
            .map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        Options {
            limits: self.unpacked.within(options.limits),
            // The import takes more than its tables, as do the levels of detail.
            memory: max.unwrap_or(options.memory) / TABLES_SHARE,
            ..options
        }
    }
}

/// The part of the memory that tables may take.
const TABLES_SHARE: usize = 3;

pub(crate) fn run(args: &ViewArgs) -> Result<ExitCode> {
    if args.live {
        return live::run(args);
    }
    let options = args.options();
    let cache = args.cache();
    let (view, extent, index) = open(&args.file, &options, cache.as_ref())?;
    if let Some(output) = &args.output {
        match view.intact(|| export(&view, args, output)) {
            Ok(exported) => exported?,
            Err(damaged) => {
                let view = damaged.import_again().map_err(explained)?;
                export(&view, args, output)?;
            }
        }
        return Ok(extent.exit_code());
    }
    let before = args.before.as_deref();
    let before = before.map(|path| open(path, &options, cache.as_ref()));
    let before = before.transpose()?.map(|(view, ..)| view);
    let server = bind(view, before, args.no_browser)?.with_index(index);
    serve(with_queries(server, &args.file), args.no_browser)?;
    Ok(extent.exit_code())
}

/// Opens a trace, from its index in the cache or by importing it, and reports the data that is
/// missing. Returns the index to write if it was imported.
fn open(
    path: &Path,
    options: &Options,
    cache: Option<&Cache>,
) -> Result<(View, Extent, Option<NewIndex>)> {
    if is_standard(path) {
        let is_profile = |format| PROFILES.contains(&format);
        let (name, packets, extent) = seekable_any(path, is_profile, options.limits)?;
        let trace = Trace::read(packets, options).map_err(explained);
        let trace = trace.context("cannot read standard input")?;
        let view = View::new(trace, &name, options.threads);
        let extent = report(&name, view.trace()).and(extent);
        return Ok((view, extent, None));
    }
    if let Some((view, extent)) = open_profile(path, options)? {
        return Ok((view, extent, None));
    }
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| format!("cannot open {}", shown(&name)))?;
    check(path, &file)?;
    let mut shown_progress = ShownProgress::default();
    let progress = |progress| {
        shown_progress.update(progress);
        Continue::Yes
    };
    let opened = match cache {
        Some(cache) => cache.open(path, options, progress),
        None => View::open(path, options, progress).map(|view| (view, None)),
    };
    shown_progress.end();
    let opened = opened.map_err(explained);
    let (view, index) = opened.with_context(|| format!("cannot read {}", shown(&name)))?;
    let extent = report(&name, view.trace());
    Ok((view, extent, index))
}

/// The formats of profiles that are converted.
const PROFILES: [Format; 3] = [Format::PerfText, Format::CollapsedStacks, Format::Pprof];

/// Opens a profile of another program as the trace to which it is converted, since the page shows
/// samples, not the tables of such files. Returns `None` for other files.
fn open_profile(path: &Path, options: &Options) -> Result<Option<(View, Extent)>> {
    let Some((name, packets, extent)) = converted(path, &PROFILES, options.limits)? else {
        return Ok(None);
    };
    let trace = Trace::read(packets, options).map_err(explained);
    let trace = trace.with_context(|| format!("cannot read {}", shown(&name)))?;
    let file = path.file_name().unwrap_or(path.as_os_str());
    let view = View::new(trace, &file.to_string_lossy(), options.threads);
    let extent = report(&name, view.trace()).and(extent);
    Ok(Some((view, extent)))
}

/// Reports the data of a trace that is missing in the page.
fn report(name: &str, trace: &Trace) -> Extent {
    for remark in trace.remarks() {
        eprintln!("ferretto: {}: {}", shown(name), shown(remark));
    }
    let extent = if trace.remarks().is_empty() {
        Extent::Whole
    } else {
        Extent::Partly
    };
    extent.and_health(name, &trace.health())
}

/// Exports page and trace into one file.
fn export(view: &View, args: &ViewArgs, output: &Path) -> Result<()> {
    let threads = Options::default().threads;
    let export = Export::new(view, args.max_size, threads)?;
    write_private(output, &[&args.file], |mut out| Ok(export.write(&mut out)?))?;
    if !is_standard(output) {
        let size = export.size() as f64 / 1e6;
        eprintln!("{}: {size:.1} MB", shown(&output.display().to_string()));
    }
    if let Some(left_out) = export.left_out() {
        eprintln!("ferretto: {left_out} --max-size allows more");
    }
    Ok(())
}

/// Shows the progress of an import on a terminal.
#[derive(Debug, Default)]
struct ShownProgress {
    percent: Option<u64>,
}

impl ShownProgress {
    fn update(&mut self, progress: Progress) {
        /// The smallest file whose progress is shown.
        const MIN_SIZE: u64 = 32 << 20;
        let Some(size) = progress.of.filter(|size| *size >= MIN_SIZE) else {
            return;
        };
        let percent = progress.bytes.saturating_mul(100) / size;
        if self.percent != Some(percent) && io::stderr().is_terminal() {
            self.percent = Some(percent);
            eprint!("\rReading: {percent} %");
        }
    }

    fn end(&self) {
        if self.percent.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}

/// Creates a server that listens for a page.
fn bind(view: View, before: Option<View>, no_browser: bool) -> Result<Server> {
    let users = Users::own();
    let is_root = rustix::process::geteuid().is_root();
    let permission = Box::new(move |peer| match peer {
        // Root may give an address that it only printed to any user.
        Peer::User(user) => users.contain(user) || (no_browser && is_root),
        Peer::Unknown => no_browser,
        Peer::Remote => false,
    });
    let token = random_name().context("cannot get random numbers")?;
    let server = Server::bind(view, before, &token, permission)
        .context("cannot listen on the loopback address")?;
    Ok(match state_folder() {
        Some(folder) => server.with_kept(folder),
        None => server,
    })
}

/// Returns the folder for the settings and queries of the page: `$XDG_STATE_HOME/ferretto/view`, or
/// below `~/.local/state`.
fn state_folder() -> Option<PathBuf> {
    let states = user_folder("XDG_STATE_HOME", ".local/state")?;
    Some(states.join("ferretto").join("view"))
}

/// Returns the folder that a variable names, or else this one below the home folder.
fn user_folder(variable: &str, below_home: &str) -> Option<PathBuf> {
    let folder = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    folder(variable).or_else(|| Some(folder("HOME")?.join(below_home)))
}

/// Lets the page run SQL if the program for it is installed. It reads the file again.
fn with_queries(server: Server, trace: &Path) -> Server {
    match query::installed() {
        Some(program) if !is_standard(trace) => server.with_queries(&program, trace),
        _ => server,
    }
}

/// Serves a trace until its page is closed.
fn serve(server: Server, no_browser: bool) -> Result<()> {
    let address = server.address();
    print_line(&address)?;
    if no_browser || !browse(&server.address_for_browser()) {
        eprintln!("Open this address in a browser on this machine.");
    }
    eprintln!("The trace is served until the page is closed; Ctrl-C ends it at once.");
    server.run().context("cannot serve the trace")
}
