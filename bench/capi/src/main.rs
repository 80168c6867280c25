//! The cost of events in a C program with our C library and, with the feature `upstream`, with the
//! official one, in turns. The same program, compiled once with the official headers, loads either
//! as `libperfetto_c.so`.
//!
//! `ferretto-bench-capi [TURNS]`: 15 turns of each library by default, of three rounds each.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

/// The package with the official headers and source.
const PACKAGE: &str = "perfetto-sdk-sys";
/// The rounds of the program in each turn.
const ROUNDS: &str = "3";

/// A library in a separate directory, under the name that programs look for.
struct Library {
    name: &'static str,
    folder: PathBuf,
    /// The minimum of each figure, in nanoseconds.
    best: HashMap<String, f64>,
    /// The size without symbols, in bytes.
    size: u64,
}

fn main() -> Result<()> {
    let turns = match env::args().nth(1) {
        Some(number) => number
            .parse()
            .context("the argument is a number of turns")?,
        None => 15,
    };
    let scratch = tempfile::tempdir()?;
    let mut libraries = vec![Library::new("ours", &ours()?, scratch.path())?];
    if cfg!(feature = "upstream") {
        let official = official(scratch.path())?;
        libraries.push(Library::new("official", &official, scratch.path())?);
    }
    let program = compile(scratch.path(), &libraries[0].folder)?;
    let mut names = Vec::new();
    for _ in 0..turns {
        for library in &mut libraries {
            names = library.measure(&program)?;
        }
    }
    print(&names, &libraries);
    Ok(())
}

impl Library {
    fn new(name: &'static str, library: &Path, scratch: &Path) -> Result<Self> {
        let folder = scratch.join(name);
        fs::create_dir(&folder)?;
        let stripped = folder.join("libperfetto_c.so");
        run(Command::new("strip").arg(library).arg("-o").arg(&stripped))?;
        Ok(Self {
            name,
            size: fs::metadata(&stripped)?.len(),
            folder,
            best: HashMap::new(),
        })
    }

    /// Runs the program with this library. Returns the names of its measurements in order.
    fn measure(&mut self, program: &Path) -> Result<Vec<String>> {
        let mut names = Vec::new();
        self.run(program, &[], "", &mut names)?;
        // Faster than the service reads, as in upstream's benchmark: most packets are discarded.
        let default = ["packet", "0"];
        self.run(program, &default, ", default memory", &mut names)?;
        Ok(names)
    }

    /// Runs the program with these arguments. Adds the names of its measurements.
    fn run(
        &mut self,
        program: &Path,
        arguments: &[&str],
        suffix: &str,
        names: &mut Vec<String>,
    ) -> Result<()> {
        let mut command = Command::new(program);
        command.arg(ROUNDS).args(arguments);
        let output = run(command.env("LD_LIBRARY_PATH", &self.folder))?;
        for line in output.lines() {
            let (name, time) = line.split_once('\t').context("a name and a time")?;
            if !suffix.is_empty() && !name.starts_with("packet") {
                continue;
            }
            let time: f64 = time.parse()?;
            let name = format!("{name}{suffix}");
            let best = self.best.entry(name.clone()).or_insert(time);
            *best = best.min(time);
            names.push(name);
        }
        Ok(())
    }
}

/// Returns the path of our library, which was built together with this program.
fn ours() -> Result<PathBuf> {
    let library = folder()?.join("deps/libferretto_c.so");
    ensure!(library.exists(), "{} was not built", library.display());
    Ok(library)
}

/// Links the official library from the objects that its package was compiled to for this program.
fn official(scratch: &Path) -> Result<PathBuf> {
    let archives = fs::read_dir(folder()?.join("build"))?.filter_map(|entry| {
        let entry = entry.ok()?;
        let is_its = entry.file_name().to_str()?.starts_with(PACKAGE);
        let archive = entry.path().join("out/libperfetto_c.a");
        let time = fs::metadata(&archive).ok()?.modified().ok()?;
        is_its.then_some((time, archive))
    });
    let (_, archive) = archives
        .max()
        .context("the official source was not built")?;
    let library = scratch.join("official.so");
    run(Command::new("c++")
        .args([
            "-shared",
            "-Wl,-soname,libperfetto_c.so",
            "-Wl,--whole-archive",
        ])
        .arg(archive)
        .args(["-Wl,--no-whole-archive", "-pthread", "-o"])
        .arg(&library))?;
    Ok(library)
}

/// Returns the directory of this program.
fn folder() -> Result<PathBuf> {
    let program = env::current_exe()?;
    Ok(program.parent().context("programs are in folders")?.into())
}

fn compile(scratch: &Path, library: &Path) -> Result<PathBuf> {
    let program = scratch.join("caller");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/caller.c");
    run(Command::new("cc")
        .args(["-std=gnu11", "-O2", "-Wall", "-Wno-unused-function", "-I"])
        .arg(headers()?)
        .arg(source)
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(library)
        .args(["-lperfetto_c", "-pthread"]))?;
    Ok(program)
}

/// Returns the directory in which the package manager keeps the official headers of the locked
/// version.
fn headers() -> Result<PathBuf> {
    let lock = include_str!("../../../Cargo.lock");
    let (_, entry) = lock
        .split_once(&format!("name = \"{PACKAGE}\"\nversion = \""))
        .context("it is in the lock file")?;
    let (version, _) = entry.split_once('"').context("a version is quoted")?;
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(env::home_dir()?.join(".cargo")));
    let registries = home.context("there is a home")?.join("registry/src");
    for registry in fs::read_dir(registries)? {
        let package = registry?.path().join(format!("{PACKAGE}-{version}"));
        if package.is_dir() {
            return Ok(package.join("libperfetto_c"));
        }
    }
    bail!("{PACKAGE} {version} is not here: `cargo fetch` gets it")
}

/// Runs a command and returns its output.
fn run(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {errors}");
    Ok(String::from_utf8(output.stdout)?)
}

fn print(names: &[String], libraries: &[Library]) {
    let all: Vec<_> = libraries.iter().map(|library| library.name).collect();
    println!("| a C program | {} | official / ours |", all.join(" | "));
    println!("|---|{}--:|", "--:|".repeat(all.len()));
    let row = |name: &str, values: &[f64], show: &dyn Fn(f64) -> String| {
        let shown: Vec<_> = values.iter().map(|&value| show(value)).collect();
        let ratio = match values {
            [ours, official] => format!("{:.1}×", official / ours),
            _ => String::new(),
        };
        println!("| {name} | {} | {ratio} |", shown.join(" | "));
    };
    for name in names {
        let times: Vec<_> = libraries.iter().map(|library| library.best[name]).collect();
        row(name, &times, &|time| match time {
            ..10_000.0 => format!("{time:.1} ns"),
            _ => format!("{:.2} ms", time / 1e6),
        });
    }
    let sizes: Vec<_> = libraries
        .iter()
        .map(|library| library.size as f64)
        .collect();
    row("the shared library, stripped", &sizes, &|size| {
        format!("{:.1} MB", size / 1e6)
    });
}
