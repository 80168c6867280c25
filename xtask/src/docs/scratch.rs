//! A scratch environment for documents, with its own folders, programs and processes.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// The timeout of a block, also on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(280);

/// The folder of a document, with the files for its commands. Dropping it ends all its processes.
pub(super) struct Scratch {
    root: PathBuf,
    repository: PathBuf,
    /// The working folder of commands.
    pub(super) work: PathBuf,
    /// A unique mark in the environment of its processes.
    mark: String,
}

/// The result of a command.
pub(super) struct Outcome {
    pub(super) code: Option<i32>,
    pub(super) printed: String,
}

/// A replacement for cargo that uses the existing dev build instead of a slow release build.
const CARGO: &str = r#"#!/bin/sh
# As in a checkout where all is built already, for debugging.
command=$1
[ $# -eq 0 ] || shift
own=yes
for argument; do
    shift
    [ "$argument" = -- ] && own=no
    [ "$own $argument" = "yes --release" ] || set -- "$@" "$argument"
done
if [ ! -f Cargo.toml ]; then
    at=--manifest-path=$DOCS_REPOSITORY/Cargo.toml
fi
# These programs are built. Cargo would build their crates again, with the features that a single package has.
case "$command $1 $3" in
    "run -- "*)
        grep -q '^default-run = "ferretto"$' "$DOCS_REPOSITORY/crates/cli/Cargo.toml" || { echo "which program?"; exit 1; }
        shift
        exec "$DOCS_REPOSITORY/target/debug/ferretto" "$@" ;;
    "run -p --example") exec "$DOCS_REPOSITORY/target/debug/examples/$4" ;;
esac
case $command in
    run) exec "$DOCS_CARGO" run --quiet $at "$@" ;;
    install)
        # --path FOLDER
        [ -f "$2/Cargo.toml" ] || { echo "there is no package in $2"; exit 1; }
        exec install -D "$DOCS_REPOSITORY/target/debug/ferretto" "$HOME/.local/bin/ferretto" ;;
    xtask)
        if [ "$1" = install-capi ]; then
            shift
            set -- install-capi --profile dev "$@"
        fi
        exec "$DOCS_CARGO" run --quiet --manifest-path="$DOCS_REPOSITORY/Cargo.toml" -p xtask -- "$@" ;;
    *) exec "$DOCS_CARGO" "$command" "$@" ;;
esac
"#;

/// A script that waits until a service has a data source, since blocks run without pauses.
const AWAIT: &str = r#"#!/bin/sh
for i in $(seq 600); do
    ferretto perfetto --query 2>/dev/null | grep -q "$1" && exit
    sleep 0.1
done
echo "no data source $1 within a minute"
exit 1
"#;

impl Scratch {
    /// Creates the environment. `programs` is the folder of built programs.
    pub(super) fn new(name: &str, repository: &Path, programs: &Path) -> Result<Self> {
        // A fixed path for each checkout, to reuse earlier builds.
        let checkout = repository.display().to_string().replace('/', "-");
        let root = std::env::temp_dir()
            .join(format!("ferretto-docs{checkout}"))
            .join(name);
        let _ = fs::remove_dir_all(&root);
        let scratch = Self {
            repository: repository.to_owned(),
            work: root.join("work"),
            mark: format!("DOCS_SCRATCH={}", root.display()),
            root,
        };
        for folder in ["work", "bin", "tmp", "home/.local/bin"] {
            fs::create_dir_all(scratch.root.join(folder))?;
        }
        symlink(programs.join("ferretto"), scratch.root.join("bin/ferretto"))?;
        // The reader's checkout.
        symlink(repository, scratch.work.join("ferretto"))?;
        scratch.program("cargo", CARGO)?;
        scratch.program("await-source", AWAIT)?;
        if is_root() {
            scratch.program("sudo", "#!/bin/sh\nexec \"$@\"\n")?;
        }
        Ok(scratch)
    }

    fn program(&self, name: &str, text: &str) -> Result<()> {
        let path = self.root.join("bin").join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    /// Runs shell lines up to the first failure.
    pub(super) fn run(&self, lines: &str, interrupt: Option<u32>) -> Result<Outcome> {
        let script = self.root.join("block.sh");
        fs::write(&script, format!("set -eo pipefail\n{lines}"))?;
        let printed = self.root.join("said");
        let output = fs::File::create(&printed)?;
        let mut command = match interrupt {
            Some(seconds) => {
                let mut command = Command::new("timeout");
                command.args([
                    "--preserve-status",
                    "-s",
                    "INT",
                    &seconds.to_string(),
                    "bash",
                ]);
                command
            }
            None => Command::new("bash"),
        };
        let mut child = self
            .environment(command.arg(&script))
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .context("bash")?;
        let start = Instant::now();
        let code = loop {
            if let Some(status) = child.try_wait()? {
                break status.code();
            }
            if start.elapsed() > PATIENCE {
                self.end_processes();
                let _ = child.wait();
                break None;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        Ok(Outcome {
            code,
            printed: String::from_utf8_lossy(&fs::read(&printed)?).into_owned(),
        })
    }

    fn environment<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let home = self.root.join("home");
        let mut path = vec![self.root.join("bin"), home.join(".local/bin")];
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        path.extend(std::env::split_paths(&inherited));
        // The default locations.
        let user = std::env::home_dir().unwrap_or_default();
        for (variable, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            if std::env::var_os(variable).is_none() {
                command.env(variable, user.join(folder));
            }
        }
        let (name, value) = self.mark.split_once('=').unwrap_or_default();
        command
            .current_dir(&self.work)
            .env(name, value)
            .env("PATH", std::env::join_paths(path).unwrap_or(inherited))
            .env("HOME", &home)
            .env("TMPDIR", self.root.join("tmp"))
            .env("XDG_CACHE_HOME", self.root.join("cache"))
            .env("PERFETTO_PRODUCER_SOCK_NAME", self.root.join("producer"))
            .env("PERFETTO_CONSUMER_SOCK_NAME", self.root.join("consumer"))
            .env("CARGO_TARGET_DIR", self.repository.join("target"))
            .env("DOCS_REPOSITORY", &self.repository)
            .env("DOCS_CARGO", env!("CARGO"))
            .env_remove("DISPLAY")
            .env_remove("WAYLAND_DISPLAY")
            .env_remove("CARGO_MANIFEST_DIR")
    }

    /// Ends all running processes with our mark in their environment, including daemons.
    fn end_processes(&self) {
        for (signal, wait) in [("-TERM", 100), ("-KILL", 20)] {
            let pids = self.processes();
            if pids.is_empty() {
                return;
            }
            let _ = Command::new("kill").arg(signal).args(&pids).status();
            for _ in 0..wait {
                if self.processes().is_empty() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }

    fn processes(&self) -> Vec<String> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries
            .filter_map(|entry| {
                let pid = entry.file_name().into_string().ok()?;
                pid.parse::<u32>().ok()?;
                let environment = fs::read(entry.path().join("environ")).ok()?;
                let mut variables = environment.split(|byte| *byte == 0);
                variables
                    .any(|variable| variable == self.mark.as_bytes())
                    .then_some(pid)
            })
            .collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.end_processes();
        let _ = fs::remove_dir_all(&self.root);
        // Fails if another document is still running.
        let _ = self.root.parent().map(fs::remove_dir);
    }
}

/// Returns true if this process is root's, by the owner of its files in `/proc`.
pub(super) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}
