//! Recordings: the program itself, as a child.

use std::env;
use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ferretto_mcp::{Answer, Call, Root};
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
const MAX_OUTPUT: u64 = 4 << 20;

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
    let output = reading(child.stdout.take());
    let messages = reading(child.stderr.take());
    let started = Instant::now();
    let until = started + Duration::from_secs(seconds.unsigned_abs()) + PATIENCE;
    let total = seconds.unsigned_abs() * 1000;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if call.is_cancelled() || Instant::now() > until => {
                end(&mut child);
                return Err("the recording was ended".to_owned());
            }
            Ok(None) => {
                let elapsed = started.elapsed().as_millis() as u64;
                call.progress(elapsed, total, "recording");
                thread::sleep(PERIOD);
            }
            Err(error) => return Err(error.to_string()),
        }
    };
    let output = output.join().unwrap_or_default();
    let messages = messages.join().unwrap_or_default();
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

/// Reads a pipe on a thread of its own; what is too much is read and left out.
fn reading(pipe: Option<impl std::io::Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = (&mut pipe).take(MAX_OUTPUT).read_to_end(&mut bytes);
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Ends a recording: first as Ctrl-C does.
fn end(child: &mut Child) {
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
            thread::sleep(PERIOD);
        }
    }
    let _ = child.kill();
    let _ = child.wait();
}
