//! Makes a large trace up.
//!
//! `generate KIND MB FILE`: about so many MB, the same bytes each time. Kinds are `sched`,
//! `track-events` and `callstacks`.

use std::fs::File;
use std::process::ExitCode;

use ferretto_bench::traces::Kind;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((kind, bytes, path)) = parse(&arguments) else {
        let kinds = Kind::ALL.map(Kind::name).join("|");
        eprintln!("usage: generate {kinds} MB FILE");
        return ExitCode::from(2);
    };
    let written = File::create(path).and_then(|mut file| kind.write(bytes, &mut file));
    if let Err(error) = written {
        eprintln!("{path} cannot be written: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn parse(arguments: &[String]) -> Option<(Kind, u64, &str)> {
    let [kind, megabytes, path] = arguments else {
        return None;
    };
    let kind = Kind::ALL.into_iter().find(|known| known.name() == kind)?;
    Some((kind, megabytes.parse::<u64>().ok()? * 1_000_000, path))
}
