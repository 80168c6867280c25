//! Generates large traces.
//!
//! `generate KIND MB FILE`: about this many MB, the same bytes each time. Kinds are `sched`,
//! `waits`, `track-events` and `callstacks`. `generate fleet COUNT FOLDER`: this many different
//! traces of 1 to 10 MB, of all kinds but `waits`.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use ferretto_bench::traces::Kind;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, number, path] = &arguments[..] else {
        return usage();
    };
    let Ok(number) = number.parse::<u64>() else {
        return usage();
    };
    let kind = Kind::ALL.into_iter().find(|known| known.name() == what);
    let written = match kind {
        Some(kind) => write(kind, number * 1_000_000, 0, Path::new(path)),
        None if what == "fleet" => fleet(number, Path::new(path)),
        None => return usage(),
    };
    if let Err(error) = written {
        eprintln!("{path} cannot be written: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    let kinds = Kind::ALL.map(Kind::name).join("|");
    eprintln!("usage: generate {kinds} MB FILE, or generate fleet COUNT FOLDER");
    ExitCode::from(2)
}

fn write(kind: Kind, bytes: u64, seed: u64, path: &Path) -> io::Result<()> {
    kind.write(bytes, seed, &mut File::create(path)?)
}

fn fleet(count: u64, folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let kinds = [Kind::Sched, Kind::TrackEvents, Kind::Callstacks];
    for (number, kind) in (0..count).zip(kinds.into_iter().cycle()) {
        let bytes = 1_000_000 + number * 9_000_000 / count;
        write(
            kind,
            bytes,
            number,
            &folder.join(format!("{number:06}.pftrace")),
        )?;
    }
    Ok(())
}
