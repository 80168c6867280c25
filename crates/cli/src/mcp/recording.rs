//! Recordings: the program itself, as a child.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ferretto_mcp::{Answer, Call, Root};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::flatten::{mixed, section, without};

/// The time of a recording of the machine, and the longest of a command.
const DEFAULT_SECONDS: i64 = 5;
const MAX_COMMAND_SECONDS: i64 = 60;
/// The time in which a recording ends after it was told to.
const PATIENCE: Duration = Duration::from_secs(20);
/// The period in which a cancelled call is noticed.
const PERIOD: Duration = Duration::from_millis(20);
/// The bytes of an answer and of messages.
const MAX_OUTPUT: usize = 4 << 20;
/// The bytes that are read at a time, which are more than a pipe holds.
const MAX_READ: usize = 1 << 20;

/// The recording that a caller wants.
pub(super) struct Wanted<'a> {
    pub(super) output: &'a str,
    pub(super) seconds: Option<i64>,
    pub(super) command: Vec<String>,
    pub(super) options: Vec<OsString>,
}

pub(super) fn answer(root: &Root, wanted: &Wanted<'_>, call: &Call) -> Result<Answer, String> {
    let new_file = root.new_file(wanted.output)?;
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let default = if wanted.command.is_empty() {
        DEFAULT_SECONDS
    } else {
        MAX_COMMAND_SECONDS
    };
    let seconds = wanted.seconds.unwrap_or(default);
    let mut recorder = Command::new(program);
    recorder
        .arg0("ferretto")
        .args(["record", "--json", "--duration", &format!("{seconds}s")])
        .args(&wanted.options)
        .arg("--output")
        .arg(new_file.path());
    if !wanted.command.is_empty() {
        recorder.arg("--").args(&wanted.command);
    }
    let child = recorder
        .current_dir(root.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.map_err(|error| format!("cannot start the recording: {error}"))?;
    let stdout = Pipe::new(child.stdout.take().map(OwnedFd::from));
    let stderr = Pipe::new(child.stderr.take().map(OwnedFd::from));
    let mut pipes = [stdout, stderr];
    let started = Instant::now();
    let until = started + Duration::from_secs(seconds.unsigned_abs()) + PATIENCE;
    let total = seconds.unsigned_abs() * 1000;
    let status = loop {
        // Output that the recorder has written before its end is read after it.
        let state = child.try_wait();
        pipes.iter_mut().for_each(Pipe::read);
        match state {
            Ok(Some(status)) => break status,
            Ok(None) if call.is_cancelled() || Instant::now() > until => {
                end(&mut child, &mut pipes);
                return Err("the recording was ended".to_owned());
            }
            Ok(None) => {
                let elapsed = started.elapsed().as_millis() as u64;
                call.progress(elapsed, total, "recording");
                wait(&pipes);
            }
            Err(error) => return Err(error.to_string()),
        }
    };
    let [output, messages] = pipes.map(Pipe::into_text);
    let all: Option<Value> = serde_json::from_str(&output).ok();
    // The lines of the program itself; others are those of the command.
    let own = messages.lines().filter_map(|line| {
        let line: Value = serde_json::from_str(line).ok()?;
        (line["version"] == 1 && line["event"] != "progress").then(|| line["text"].clone())
    });
    let own: Vec<Value> = own.collect();
    let Some(all) = all else {
        let errors: Vec<&str> = own.iter().filter_map(Value::as_str).collect();
        let path = new_file.path().display().to_string();
        return Err(errors.join("; ").replace(&path, wanted.output));
    };
    let summary = &all["summary"];
    let head = json!({
        "file": wanted.output,
        "state": all["state"],
        "code": status.code(),
        "duration_ns": summary["duration_ns"],
        "bytes": summary["bytes"],
        "complete": summary["complete"],
        "command": without(&summary["command"], &["slices"]),
    });
    let sections = vec![
        section("loss", &summary["losses"]).collect(),
        section("doubt", &summary["unknown"]).collect(),
        section("note", &json!(own)).collect(),
        section("source", &summary["sources"]).collect(),
    ];
    Ok(Answer::new(head, mixed(sections, 4)))
}

/// A pipe that is read without waiting: programs that the command leaves behind keep it open.
struct Pipe {
    /// `None` at its end.
    file: Option<File>,
    bytes: Vec<u8>,
}

impl Pipe {
    fn new(descriptor: Option<OwnedFd>) -> Self {
        let descriptor = descriptor.filter(|it| ioctl_fionbio(it, true).is_ok());
        Self {
            file: descriptor.map(File::from),
            bytes: Vec::new(),
        }
    }

    /// Reads what is there; what is too much is left out.
    fn read(&mut self) {
        let mut buffer = vec![0; 1 << 16];
        let mut total = 0;
        while let Some(file) = &mut self.file
            && total < MAX_READ
        {
            match file.read(&mut buffer) {
                Ok(count @ 1..) => {
                    let kept = count.min(MAX_OUTPUT - self.bytes.len());
                    self.bytes.extend_from_slice(&buffer[..kept]);
                    total += count;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => self.file = None,
            }
        }
    }

    fn into_text(self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// Waits until pipes can be read, or for a period.
fn wait(pipes: &[Pipe]) {
    let files = pipes.iter().filter_map(|pipe| pipe.file.as_ref());
    let mut files: Vec<_> = files.map(|file| PollFd::new(file, PollFlags::IN)).collect();
    let period = Timespec::try_from(PERIOD).ok();
    let _ = poll(&mut files, period.as_ref());
}

/// Ends a recording: first as Ctrl-C does.
fn end(child: &mut Child, pipes: &mut [Pipe]) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    for _ in 0..2 {
        if let Some(pid) = pid {
            let _ = kill_process(pid, Signal::INT);
        }
        let until = Instant::now() + PATIENCE / 4;
        while Instant::now() < until {
            if let Ok(Some(_)) = child.try_wait() {
                return;
            }
            pipes.iter_mut().for_each(Pipe::read);
            wait(pipes);
        }
    }
    let _ = child.kill();
    let _ = child.wait();
}
