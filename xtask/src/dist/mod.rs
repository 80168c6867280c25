//! `cargo xtask dist`: builds the archive and the Debian packages.

mod debian;
mod help;
mod machine;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use self::help::Help;
use self::machine::Machine;

/// The names of the programs in the binary.
const PROGRAMS: [&str; 8] = [
    "heapprofd",
    "perfetto",
    "traced",
    "traced_perf",
    "traced_probes",
    "traced_relay",
    "tracebox",
    "trigger_perfetto",
];

/// The program for SQL, which `ferretto query` runs.
const QUERY: &str = "ferretto-query";

/// Compiler flags: static linking, and no debug information.
const FLAGS: &str = "-C target-feature=+crt-static -C debuginfo=0 -C strip=symbols";

/// Builds the packages with a profile of cargo into a folder: those of this machine, and those of
/// others for which a compiler is installed.
pub(crate) fn run(profile: &str, into: &str) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let into = Path::new(into);
    fs::create_dir_all(into).with_context(|| format!("making {}", into.display()))?;
    let into = fs::canonicalize(into)?;
    let this = Machine::this().context("there are no packages for this kind of machine")?;
    let own = build(&root, profile, this)?;
    pack(&root, profile, &into, this, &own, &own)?;
    for other in Machine::others() {
        match other.missing() {
            None => {
                let built = build(&root, profile, other)?;
                pack(&root, profile, &into, other, &built, &own)?;
            }
            Some(missing) => println!("no packages for {}: {missing} is missing", other.debian),
        }
    }
    sums(&into)?;
    println!("packages are in {}", into.display());
    Ok(())
}

/// Builds the programs of this machine's packages with a profile of cargo. A later `run` finds them
/// built.
pub(crate) fn build_programs(profile: &str) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let this = Machine::this().context("there are no packages for this kind of machine")?;
    build(&root, profile, this)?;
    Ok(())
}

/// Creates the archive and the packages of a machine. The programs of this machine, in `own`,
/// print the help.
fn pack(
    root: &Path,
    profile: &str,
    into: &Path,
    machine: &Machine,
    built: &Path,
    own: &Path,
) -> Result<()> {
    let staged = into.join("root");
    let _ = fs::remove_dir_all(&staged);
    stage(root, machine, built, own, &staged)?;
    let version = env!("CARGO_PKG_VERSION");
    let name = format!("ferretto-{version}-{}", machine.name);
    let archive = into.join(format!("{name}.tar.gz"));
    let changed = format!("--transform=s,^\\./usr,{name},");
    let options = ["--owner=0", "--group=0", "--sort=name", "--mtime=@0"];
    call(
        Command::new("tar")
            .args(options)
            .args([&changed, "-C"])
            .arg(&staged)
            .arg("-czf")
            .arg(&archive)
            .arg("./usr"),
    )?;
    let development = into.join("root-dev");
    let _ = fs::remove_dir_all(&development);
    let library = if machine.is_this() {
        crate::install::build(profile)?
    } else {
        crate::install::build_for(profile, &machine.target(), &machine.linker())?
    };
    crate::install::copy_into(&library, &development.join("usr"))?;
    describe_for(&development)?;
    explain(root, &development)?;
    debian::package(into, &staged, machine.debian, &debian::FERRETTO)?;
    debian::package(into, &development, machine.debian, &debian::DEVELOPMENT)?;
    for folder in [staged, development] {
        fs::remove_dir_all(folder)?;
    }
    Ok(())
}

/// Builds the statically linked programs, and returns their folder.
fn build(root: &Path, profile: &str, machine: &Machine) -> Result<PathBuf> {
    let target = machine.target();
    let linker = (!machine.is_this()).then(|| machine.linker());
    let folder = root.join("target/static");
    for manifest in ["crates/cli/Cargo.toml", "query/Cargo.toml"] {
        // With `--target`, the flags do not apply to build scripts and procedural macros.
        let cargo = Command::new(env!("CARGO"))
            .args(["build", "--locked", "--manifest-path", manifest])
            .args(["--target", &target, "--profile", profile, "--target-dir"])
            .arg(&folder)
            .env("RUSTFLAGS", FLAGS)
            .envs(linker.clone())
            .current_dir(root)
            .status();
        ensure!(
            cargo.context("running cargo build")?.success(),
            "building {manifest} failed"
        );
    }
    let profile = if profile == "dev" { "debug" } else { profile };
    Ok(folder.join(target).join(profile))
}

/// Creates the file tree of an installed ferretto.
fn stage(root: &Path, machine: &Machine, built: &Path, own: &Path, staged: &Path) -> Result<()> {
    let folder = |name: &str| -> Result<PathBuf> {
        let folder = staged.join(name);
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        Ok(folder)
    };
    let binaries = folder("usr/bin")?;
    for name in ["ferretto", QUERY] {
        fs::copy(built.join(name), binaries.join(name))
            .with_context(|| format!("copying {name}"))?;
    }
    for name in PROGRAMS {
        symlink("ferretto", binaries.join(name))?;
    }
    let ferretto = own.join("ferretto");
    let libraries = folder("usr/lib/ferretto")?;
    let library = libraries.join("libferretto_heap.so");
    if machine.is_this() {
        call(
            Command::new(&ferretto)
                .args(["heapprofd", "--write-library"])
                .arg(library),
        )?;
    } else {
        fs::copy(preload_library(built)?, library)?;
    }
    let copies = [
        ("packaging/systemd", "usr/lib/systemd/system"),
        ("packaging/sysusers.d", "usr/lib/sysusers.d"),
        ("packaging/tmpfiles.d", "usr/lib/tmpfiles.d"),
    ];
    for (from, to) in copies {
        let to = folder(to)?;
        for entry in fs::read_dir(root.join(from))? {
            let entry = entry?;
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    let papers = folder("usr/share/doc/ferretto")?;
    fs::copy(root.join("LICENSE"), papers.join("copyright"))?;
    fs::copy(root.join("CHANGELOG.md"), papers.join("CHANGELOG.md"))?;
    let program = ask(&ferretto, &["ferretto"])?;
    let mut commands = Vec::new();
    for (name, _) in program.commands() {
        if name != "help" {
            commands.push(ask(&ferretto, &["ferretto", name])?);
        }
    }
    let pages = folder("usr/share/man/man1")?;
    let mut all = Vec::new();
    for name in PROGRAMS {
        all.push(ask(&ferretto, &[name])?);
    }
    all.push(help_of(
        Command::new(own.join(QUERY)).arg("--help"),
        &[QUERY],
    )?);
    for help in all.iter().chain(&commands).chain([&program]) {
        let page = pages.join(format!("{}.1", help.words.join("-")));
        fs::write(page, help.page(env!("CARGO_PKG_VERSION")))?;
    }
    let completions = [
        (
            "usr/share/bash-completion/completions",
            "ferretto",
            help::bash(&program, &commands),
        ),
        (
            "usr/share/zsh/vendor-completions",
            "_ferretto",
            help::zsh(&program, &commands),
        ),
        (
            "usr/share/fish/vendor_completions.d",
            "ferretto.fish",
            help::fish(&program, &commands),
        ),
    ];
    for (dir, name, text) in completions {
        fs::write(folder(dir)?.join(name), text)?;
    }
    Ok(())
}

/// Returns the path of the library for heap profiles, which is also within the program.
fn preload_library(built: &Path) -> Result<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(built.join("build"))? {
        let path = entry?.path().join("out/libferretto_heap.so");
        if let Ok(metadata) = fs::metadata(&path) {
            found.push((metadata.modified()?, path));
        }
    }
    // The others are of earlier builds.
    let newest = found.into_iter().max();
    Ok(newest.context("the build has no libferretto_heap.so")?.1)
}

/// Runs a program for its help. The first word is its name.
fn ask(ferretto: &Path, words: &[&str]) -> Result<Help> {
    let mut asked = Command::new(ferretto);
    match words {
        // A subcommand may be another program, so its own `--help` does not work.
        ["ferretto", command] => asked.args(["help", command]),
        ["ferretto"] => asked.arg("--help"),
        words => asked.args(words).arg("--help"),
    };
    help_of(&mut asked, words)
}

/// Returns the output of a command as the help of `words`.
fn help_of(asked: &mut Command, words: &[&str]) -> Result<Help> {
    let output = asked
        .output()
        .with_context(|| format!("running {}", words[0]))?;
    // Upstream's programs fail after printing their help, and so do their replacements.
    let text = if output.stdout.is_empty() {
        output.stderr
    } else {
        output.stdout
    };
    ensure!(!text.is_empty(), "{words:?} has no help");
    Ok(Help {
        words: words.iter().map(|word| (*word).to_owned()).collect(),
        text: String::from_utf8(text).context("the help is not UTF-8")?,
    })
}

/// Sets the installation path in files for pkg-config.
fn describe_for(development: &Path) -> Result<()> {
    let staged = fs::canonicalize(development.join("usr"))?;
    for entry in fs::read_dir(staged.join("lib/pkgconfig"))? {
        let path = entry?.path();
        let text = fs::read_to_string(&path)?;
        fs::write(&path, text.replace(&staged.display().to_string(), "/usr"))?;
    }
    Ok(())
}

/// Adds the instructions for the library and an example. The headers are Perfetto's, which
/// distributes them separately.
fn explain(root: &Path, development: &Path) -> Result<()> {
    let papers = development.join("usr/share/doc/ferretto-dev");
    fs::create_dir_all(papers.join("examples"))?;
    let copies = [
        ("LICENSE", "copyright"),
        ("docs/c-abi.md", "c-abi.md"),
        ("crates/capi/examples/example.c", "examples/example.c"),
    ];
    for (from, to) in copies {
        fs::copy(root.join(from), papers.join(to)).with_context(|| format!("copying {from}"))?;
    }
    Ok(())
}

/// Writes the checksums of all packages.
fn sums(into: &Path) -> Result<()> {
    let mut names: Vec<_> = fs::read_dir(into)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".deb") || name.ends_with(".tar.gz"))
        .collect();
    names.sort();
    let sums = Command::new("sha256sum")
        .args(&names)
        .current_dir(into)
        .output();
    let sums = sums.context("running sha256sum")?;
    ensure!(sums.status.success(), "sha256sum failed");
    fs::write(into.join("SHA256SUMS"), sums.stdout).context("writing SHA256SUMS")
}

fn call(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .with_context(|| format!("running {name}"))?;
    ensure!(status.success(), "{name} failed");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CI builds packages with another profile.
    #[test]
    fn both_workspaces_have_the_profile_of_packages() {
        for workspace in ["Cargo.toml", "query/Cargo.toml"] {
            let manifest = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("..")
                .join(workspace);
            let text = fs::read_to_string(manifest).unwrap();
            assert!(text.contains("\n[profile.dist]\n"), "{workspace}");
        }
    }
}
