//! A separate folder for each test, and the programs that run in it.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ferretto_trace::Summary;
use tempfile::TempDir;

/// The path of the binary.
pub(crate) const FERRETTO: &str = env!("CARGO_BIN_EXE_ferretto");

/// The limit of all waits, which is not reached even on a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

/// The output of a program, and its exit code.
#[derive(Debug)]
pub(crate) struct Finished {
    /// The exit code, or 128 plus the signal.
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Finished {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("text")
    }

    /// Fails the test unless the program returned `code`.
    #[track_caller]
    pub(crate) fn returned(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    /// Fails the test unless standard error contains `text`.
    #[track_caller]
    pub(crate) fn complained(self, text: &str) -> Self {
        assert!(
            self.stderr.contains(text),
            "no \"{text}\" in:\n{}",
            self.stderr
        );
        self
    }
}

/// A folder with sockets and traces.
#[derive(Debug)]
pub(crate) struct World {
    folder: TempDir,
    /// Variables of the environment of its programs.
    variables: Vec<(&'static str, String)>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::Builder::new()
                .prefix("ferretto-test-")
                .tempdir()
                .unwrap(),
            variables: Vec::new(),
        }
    }

    /// Sets a variable in the environment of its programs.
    pub(crate) fn set(&mut self, variable: &'static str, value: &str) {
        self.variables.retain(|(known, _)| *known != variable);
        self.variables.push((variable, value.to_owned()));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles a C program. Prints that the test is skipped and returns `None` without a compiler.
    pub(crate) fn compile(&self, name: &str, text: &str, flags: &[&str]) -> Option<PathBuf> {
        let source = self.write(&format!("{name}.c"), text);
        let program = self.path(name);
        let status = Command::new("cc")
            .args(flags)
            .arg("-o")
            .args([&program, &source])
            .status();
        if !status.is_ok_and(|status| status.success()) {
            println!("skipped: no C compiler that takes {flags:?} is installed");
            return None;
        }
        Some(program)
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, contents).unwrap();
        path
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// Returns the names in the folder, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    pub(crate) fn summary(&self, name: &str) -> Summary {
        self.summary_at(&self.path(name))
    }

    pub(crate) fn summary_at(&self, path: &Path) -> Summary {
        ferretto_trace::summarize(fs::File::open(path).unwrap()).unwrap()
    }

    /// Writes a program that stands for the browser. It must be in `PATH`.
    pub(crate) fn write_browser(&self) {
        let shown = self.path("arguments").display().to_string();
        // Renamed, so that others see all of it or nothing.
        let text = format!("#!/bin/sh\necho \"$@\" > {shown}.new\nmv {shown}.new {shown}\n");
        let program = self.write("xdg-open", text);
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Returns the arguments of the program that stands for the browser, once it runs.
    pub(crate) fn arguments_of_browser(&self) -> String {
        until("the browser", || has_content(&self.path("arguments")));
        let text = std::fs::read_to_string(self.path("arguments")).unwrap();
        // The next one is that of another browser.
        std::fs::remove_file(self.path("arguments")).unwrap();
        text
    }

    /// Returns the command of a program of the binary, called by its name in the folder.
    pub(crate) fn command<A: AsRef<OsStr>>(&self, program: &str, args: &[A]) -> Command {
        let mut command = Command::new(FERRETTO);
        command.arg0(program).args(args);
        self.at_home(command)
    }

    /// Sets the folder, sockets and pipes of a program.
    pub(crate) fn at_home(&self, mut command: Command) -> Command {
        command
            .current_dir(self.folder.path())
            // In the folder of the test, so that remaining files are found.
            .env("TMPDIR", self.folder.path())
            .env("XDG_CACHE_HOME", self.path("cache"))
            .env("PERFETTO_PRODUCER_SOCK_NAME", self.path("producer.sock"))
            .env("PERFETTO_CONSUMER_SOCK_NAME", self.path("consumer.sock"))
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn run<A: AsRef<OsStr>>(&self, program: &str, args: &[A]) -> Finished {
        finish(self.command(program, args).spawn().unwrap())
    }

    pub(crate) fn start<A: AsRef<OsStr>>(&self, program: &str, args: &[A]) -> Running {
        Running::new(self.command(program, args).spawn().unwrap())
    }

    /// Returns the command of a program with descriptor 9, which is connected to its standard
    /// output.
    pub(crate) fn command_with_9<A: AsRef<OsStr>>(&self, program: &str, args: &[A]) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", "exec \"$0\" \"$@\" 9>&1 >/dev/null"])
            .arg(FERRETTO)
            .arg(program)
            .args(args);
        self.at_home(command)
    }

    /// Starts a daemon and waits for its notification.
    pub(crate) fn start_daemon(&self, program: &str, args: &[&str], variable: &str) -> Running {
        let mut command = self.command_with_9(program, args);
        let mut running = Running::new(command.env(variable, "9").spawn().unwrap());
        running.wait_for("1");
        running
    }

    /// Starts `perfetto` with the file `config`, and waits until all data sources have started.
    pub(crate) fn start_recording(&self, args: &[&str]) -> Running {
        let mut all = vec!["--notify-fd", "9", "--txt", "-c", "config"];
        all.extend(args);
        let mut command = self.command_with_9("perfetto", &all);
        let mut running = Running::new(command.spawn().unwrap());
        running.wait_for("\0");
        running
    }
}

/// A program that is killed at the end of the test, even if the test fails.
#[derive(Debug)]
pub(crate) struct Running {
    child: Option<Child>,
    /// The output that was read from standard error.
    stderr_read: Vec<u8>,
}

impl Running {
    pub(crate) fn new(child: Child) -> Self {
        Self {
            child: Some(child),
            stderr_read: Vec::new(),
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.as_ref().unwrap().id() as i32
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        self.child.as_mut().unwrap()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits until standard output contains `text`.
    pub(crate) fn wait_for(&mut self, text: &str) {
        let child = self.child.as_mut().unwrap();
        if !read_until(child.stdout.as_mut().unwrap(), &mut Vec::new(), text) {
            let mut stderr = String::new();
            let _ = child.stderr.as_mut().unwrap().read_to_string(&mut stderr);
            panic!("ended without printing {text:?}: {stderr}");
        }
    }

    /// Waits until standard error contains `text`.
    pub(crate) fn wait_for_complaint(&mut self, text: &str) {
        let stderr = self.child.as_mut().unwrap().stderr.as_mut().unwrap();
        let found = read_until(stderr, &mut self.stderr_read, text);
        let stderr_read = String::from_utf8_lossy(&self.stderr_read);
        assert!(found, "ended without printing {text:?}: {stderr_read}");
    }

    pub(crate) fn finish(mut self) -> Finished {
        let mut output = finish(self.child.take().unwrap());
        let mut stderr_read = String::from_utf8(std::mem::take(&mut self.stderr_read)).unwrap();
        stderr_read.push_str(&output.stderr);
        output.stderr = stderr_read;
        output
    }
}

/// Returns true if the text was read before the end.
fn read_until(stream: &mut impl Read, seen: &mut Vec<u8>, text: &str) -> bool {
    let wanted = text.as_bytes();
    while !seen.windows(wanted.len()).any(|part| part == wanted) {
        let mut byte = [0];
        if stream.read(&mut byte).unwrap() == 0 {
            return false;
        }
        seen.push(byte[0]);
    }
    true
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn finish(mut child: Child) -> Finished {
    let reader = |stream: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stream.map(|mut stream| stream.read_to_end(&mut bytes));
            bytes
        })
    };
    let stdout = reader(child.stdout.take().map(|stream| Box::new(stream) as _));
    let stderr = reader(child.stderr.take().map(|stream| Box::new(stream) as _));
    let status = until("the program has ended", || child.try_wait().unwrap());
    Finished {
        code: status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap()),
        stdout: stdout.join().unwrap(),
        stderr: String::from_utf8(stderr.join().unwrap()).unwrap(),
    }
}

/// Calls a function repeatedly until it returns a value.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < LIMIT, "timeout waiting until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns a value if a file exists and is not empty.
pub(crate) fn has_content(path: &Path) -> Option<()> {
    fs::metadata(path)
        .is_ok_and(|file| file.len() > 0)
        .then_some(())
}
