//! `tracebox`: all programs in one, and `perfetto` with a service and data sources of its own.
//!
//! Upstream starts daemons for that and ends them with itself. Here they are threads, listening in
//! a folder that only this user can enter, so that none is ever left behind and recordings beside
//! each other share nothing.

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use crate::output::print;
use crate::perfetto::{self, Provider};

const USAGE: &str = "\
Usage: tracebox PROGRAM [ARGS]...
       tracebox [OPTIONS] -c CONFIG -o FILE
       tracebox [OPTIONS] -t TIME -o FILE [GROUP/EVENT | CATEGORY]...

Behaves as one of the programs traced, traced_probes, traced_perf, traced_relay,
perfetto and trigger_perfetto; or, without the name of one, records as perfetto does, with a tracing service and data sources
that live as long as the recording. `tracebox --help` shows its options.
";

/// Shown below the options of `perfetto`.
const OPTIONS: &str = "
Of tracebox only:
      --system-sockets     let the service listen where the system's would, so that
                           programs which use the Perfetto SDK find it
";

/// Programs of upstream's tracebox that are not in this one.
const MISSING: [&str; 1] = ["websocket_bridge"];

pub(crate) fn main(mut args: Vec<OsString>) -> ExitCode {
    let Some(first) = args.first() else {
        // The exit code is that of a failure, whether or not this can be written.
        let _ = print(USAGE);
        return ExitCode::FAILURE;
    };
    if let Some(program) = crate::program(first) {
        return program(args.split_off(1));
    }
    if let Some(missing) = MISSING.iter().find(|name| *first == **name) {
        eprintln!("{missing} is not supported by this version of Ferretto");
        return ExitCode::FAILURE;
    }
    let count = args.len();
    args.retain(|arg| arg != OsStr::new("--system-sockets"));
    let removed = count - args.len();
    if removed > 1 {
        eprintln!("Cannot specify --system-sockets multiple times");
        return ExitCode::FAILURE;
    }
    let provider = Provider::Own {
        system_sockets: removed == 1,
    };
    perfetto::main_with(args, provider, OPTIONS)
}
