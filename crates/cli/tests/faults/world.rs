//! A folder for each run, and the commands in it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

const FERRETTO: &str = env!("CARGO_BIN_EXE_ferretto");

#[derive(Debug)]
pub(crate) struct World {
    folder: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("ferretto-faults-")
            .tempdir()
            .expect("a folder");
        // The output of commands is beside the files that they write.
        for name in ["files", "output", "temporary"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        Self { folder }
    }

    /// Returns the path of a file of the commands.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("files").join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        fs::write(self.path(name), contents).expect("the file is written");
    }

    pub(crate) fn read(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.path(name)).ok()
    }

    /// Returns the names of all files, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("")).expect("the folder");
        let mut names: Vec<String> = entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    fn output(&self, name: &str) -> PathBuf {
        self.folder.path().join("output").join(name)
    }

    /// Returns the command of a program of the binary. Its output goes into files that are named
    /// after it.
    pub(crate) fn command(&self, program: &str, args: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(FERRETTO);
        command.arg0(program).args(args);
        self.at_home(&mut command, program);
        command
    }

    /// Sets the folder, the sockets and the output of a command.
    pub(crate) fn at_home(&self, command: &mut Command, name: &str) {
        let output = |ending: &str| {
            let path = self.output(&format!("{name}.{ending}"));
            File::create(path).expect("a file for the output")
        };
        command
            .current_dir(self.path(""))
            .env("TMPDIR", self.folder.path().join("temporary"))
            .env("XDG_CACHE_HOME", self.folder.path().join("cache"))
            .env("PERFETTO_PRODUCER_SOCK_NAME", self.socket("producer"))
            .env("PERFETTO_CONSUMER_SOCK_NAME", self.socket("consumer"))
            .env("FERRETTO_HEAP_SOCK_NAME", self.socket("heap"))
            .env("RUST_BACKTRACE", "1")
            .stdin(Stdio::null())
            .stdout(output("stdout"))
            .stderr(output("stderr"));
    }

    pub(crate) fn socket(&self, role: &str) -> PathBuf {
        self.folder.path().join("temporary").join(role)
    }

    /// Returns what the command printed on standard error.
    pub(crate) fn stderr(&self, program: &str) -> String {
        self.printed(&format!("{program}.stderr"))
    }

    /// Returns what the command printed on standard output.
    pub(crate) fn stdout(&self, program: &str) -> String {
        self.printed(&format!("{program}.stdout"))
    }

    fn printed(&self, name: &str) -> String {
        let bytes = fs::read(self.output(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns the exit code of `summary` for a file, and what it printed.
    pub(crate) fn summary(&self, file: &Path) -> (Option<i32>, String) {
        let output = Command::new(FERRETTO)
            .arg("summary")
            .arg(file)
            .output()
            .expect("ferretto runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), text + &errors)
    }
}
