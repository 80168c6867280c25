//! The `ferretto` command, which is also `traced`, `traced_probes`, `traced_perf`, `traced_relay`,
//! `heapprofd`, `perfetto`, `trigger_perfetto` and `tracebox`.
//!
//! Called by one of these names it behaves as that program; `ferretto traced …` does the same, for
//! machines without the links, which `ferretto install-links` makes. Everything else is a
//! subcommand ([`args`]), for example `record`, `summary` and `view`. Exit codes are listed in
//! [`errors`].
#![forbid(unsafe_code)]

// Its macros replace those of the standard library in all modules below.
#[macro_use]
mod messages;

mod args;
mod assert;
mod backend;
mod browser;
mod chrome;
mod config;
mod conversion;
mod daemon;
mod diff;
mod doctor;
mod duration;
mod edit;
mod errors;
mod heapprofd;
mod import;
mod json;
mod links;
mod machine_clock;
mod mcp;
mod moment;
mod namespaces;
mod open;
mod output;
mod parts;
mod perfetto;
mod preload;
mod print;
mod private_folder;
mod privileges;
mod profile;
mod query;
mod read;
mod record;
mod session;
mod snapshots;
mod status;
mod summary;
mod symbolize;
mod text;
mod tls;
mod tracebox;
mod traced;
mod traced_perf;
mod traced_probes;
mod traced_relay;
mod trigger_perfetto;
mod usage;
mod view;
mod why;
mod xml;

use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use crate::args::{Command, Ferretto};
use crate::daemon::background;
use crate::heapprofd::Heapprofd;
use crate::read::Extent;
use crate::traced::Traced;
use crate::traced_perf::TracedPerf;
use crate::traced_probes::TracedProbes;
use crate::traced_relay::TracedRelay;

/// A program in this binary, selected by name. It gets its arguments without the name.
type Program = fn(Vec<OsString>) -> ExitCode;

const PROGRAMS: [(&str, Program); 8] = [
    ("heapprofd", daemon::main::<Heapprofd>),
    ("perfetto", perfetto::main),
    ("tracebox", tracebox::main),
    ("traced", daemon::main::<Traced>),
    ("traced_perf", daemon::main::<TracedPerf>),
    ("traced_probes", daemon::main::<TracedProbes>),
    ("traced_relay", daemon::main::<TracedRelay>),
    ("trigger_perfetto", trigger_perfetto::main),
];

fn main() -> ExitCode {
    let mut args: Vec<OsString> = env::args_os().collect();
    if let Err(error) = tls::install() {
        return errors::report("ferretto", &error);
    }
    if let Some((program, args)) = background::parse(args.get(1..).unwrap_or_default()) {
        return go_on(program, args);
    }
    if let Some(command) = record::parse_launch(args.get(1..).unwrap_or_default()) {
        return record::launch(command);
    }
    let called = args.first().and_then(|name| Path::new(name).file_name());
    if let Some(program) = called.and_then(program) {
        return program(args.split_off(1));
    }
    if let Some(program) = args.get(1).map(OsString::as_os_str).and_then(program) {
        return program(args.split_off(2));
    }
    if let [_, help, name] = args.as_slice()
        && help == "help"
        && let Some(program) = program(name)
    {
        return program(vec!["--help".into()]);
    }
    if args::wants_json(&args) {
        messages::use_json();
    }
    let command = match Ferretto::try_parse_from(&args) {
        Ok(ferretto) => ferretto.command,
        Err(error) => {
            if error.use_stderr() && messages::is_json() {
                let text = error.render().to_string();
                let text = text.strip_prefix("error: ").unwrap_or(&text);
                messages::tell_error("ferretto", text);
                if let Some(hint) = args::hint(&args, &error) {
                    eprintln!("{hint}");
                }
                return ExitCode::from(errors::USAGE);
            }
            // Help and version are errors in clap, too. A closed reader is not a failure.
            let _ = error.print();
            if let Some(hint) = args::hint(&args, &error) {
                eprintln!("\nferretto: {}", ferretto_text::terminal::shown(&hint));
            }
            return ExitCode::from(if error.use_stderr() { errors::USAGE } else { 0 });
        }
    };
    let done = match command {
        Command::Record(args) => record::run(args),
        Command::Open(args) => open::run(&args),
        Command::View(args) => view::run(&args),
        Command::Summary(args) => summary::run(&args).map(Extent::exit_code),
        Command::Text(args) => text::run(&args).map(Extent::exit_code),
        Command::Query(args) => query::run(&args).map(|never| match never {}),
        Command::Why(args) => why::run(&args).map(Extent::exit_code),
        Command::Diff(args) => diff::run(&args).map(Extent::exit_code),
        Command::Assert(args) => Ok(assert::run(&args)),
        Command::Flamegraph(args) => profile::flamegraph(&args).map(Extent::exit_code),
        Command::Folded(args) => profile::folded(&args).map(Extent::exit_code),
        Command::Pprof(args) => profile::pprof(&args).map(Extent::exit_code),
        Command::Symbolize(args) => symbolize::run(&args).map(Extent::exit_code),
        Command::Cut(args) => edit::cut(&args).map(Extent::exit_code),
        Command::Split(args) => edit::split(&args).map(Extent::exit_code),
        Command::Merge(args) => edit::merge(&args).map(Extent::exit_code),
        Command::Json(args) => chrome::run(&args).map(Extent::exit_code),
        Command::Import(args) => import::run(&args).map(Extent::exit_code),
        Command::Mcp(args) => mcp::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Doctor(args) => doctor::run(&args),
        Command::Status(args) => status::run(&args).map(|()| ExitCode::SUCCESS),
        Command::RelayCert(args) => tls::run(&args),
        Command::MachineClock => machine_clock::run(),
        Command::InstallLinks(args) => links::run(&args).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|error| errors::report("ferretto", &error))
}

/// Runs the background process of one of the programs.
fn go_on(program: &OsStr, args: &[OsString]) -> ExitCode {
    // The name in process lists; otherwise it would be that of the link.
    if let Ok(name) = CString::new(program.as_encoded_bytes()) {
        let _ = rustix::thread::set_name(&name);
    }
    match program.to_str() {
        Some("perfetto") => perfetto::background(args),
        Some("heapprofd") => daemon::in_background::<Heapprofd>(args),
        Some("traced") => daemon::in_background::<Traced>(args),
        Some("traced_perf") => daemon::in_background::<TracedPerf>(args),
        Some("traced_probes") => daemon::in_background::<TracedProbes>(args),
        Some("traced_relay") => daemon::in_background::<TracedRelay>(args),
        _ => ExitCode::from(errors::USAGE),
    }
}

fn program(name: &OsStr) -> Option<Program> {
    PROGRAMS
        .iter()
        .find(|(known, _)| name == *known)
        .map(|(_, program)| *program)
}
