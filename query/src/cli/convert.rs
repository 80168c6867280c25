//! The command `convert`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ferretto_query::convert::convert;
use ferretto_query::{Engine, Options};
use lexopt::prelude::*;

pub(super) use ferretto_query::convert::Conversion;

use super::{open, print_health};

const HELP: &str = "\
Write a trace in a format of another program

Usage: ferretto-query convert FORMAT TRACE [FILE]

Formats:
  systrace    Kernel events as lines of text
  ctrace      The same, compressed
  firefox     Sampled callstacks, for the profiler of Firefox
  speedscope  Sampled callstacks, and slices of threads

Without FILE, or with '-', the output goes to standard output.";

/// Reads the arguments after `convert`, and writes the trace.
pub(super) fn run(parser: &mut lexopt::Parser) -> Result<(), super::Failure> {
    let usage = super::Failure::Usage;
    let failed = |error: lexopt::Error| usage(format!("{error}; --help lists the options"));
    let mut words: Vec<OsString> = Vec::new();
    while let Some(argument) = parser.next().map_err(failed)? {
        match argument {
            Short('h') | Long("help") => {
                println!("{HELP}");
                return Ok(());
            }
            Value(word) if words.len() < 3 => words.push(word),
            other => return Err(failed(other.unexpected())),
        }
    }
    let mut words = words.into_iter();
    let format = words.next().unwrap_or_default();
    let conversion = Conversion::named(&format.to_string_lossy()).map_err(usage)?;
    let Some(trace) = words.next().map(PathBuf::from) else {
        return Err(usage("the trace file is missing".into()));
    };
    let output = words.next().map(PathBuf::from);
    let run = || {
        let opened = open(&trace, &ferretto_tables::Options::default())?;
        let mut engine = Engine::new(&opened, &Options::default()).map_err(|e| e.to_string())?;
        print_health(&mut engine);
        write(&mut engine, conversion, &trace, output.as_deref())
    };
    run().map_err(super::Failure::Run)
}

/// Writes a trace to a file, or to standard output.
pub(super) fn write(
    engine: &mut Engine,
    conversion: Conversion,
    trace: &Path,
    output: Option<&Path>,
) -> Result<(), String> {
    let output = output.unwrap_or(Path::new("-"));
    ferretto_output::write(output, &[trace], |out| {
        Ok(convert(engine, conversion, out)?)
    })
    .map_err(|error| format!("{error:#}"))
}
