//! The interactive shell on a terminal.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::common::{PROGRAM, TRACE, encode};

/// The longest time to wait for output, far longer than necessary.
const TIMEOUT: Duration = Duration::from_secs(300);

/// A shell on its own terminal.
struct Terminal {
    keyboard: ChildStdin,
    screen: Receiver<Vec<u8>>,
    seen: String,
    child: Child,
}

impl Terminal {
    /// Starts the shell. Returns `None` without `script`, which provides the terminal.
    fn start(folder: &Path, trace: &Path) -> Option<Self> {
        // `script` ends the shell when it ends, and exits with the shell's status.
        let mut child = Command::new("script")
            .args(["--quiet", "--flush", "--return", "--command"])
            .arg(format!(
                "stty rows 50 cols 200; exec '{PROGRAM}' '{}'",
                trace.display()
            ))
            .arg("/dev/null")
            .env("XDG_STATE_HOME", folder)
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let keyboard = child.stdin.take().expect("keyboard");
        let mut output = child.stdout.take().expect("screen");
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Some(Self {
            keyboard,
            screen,
            seen: String::new(),
            child,
        })
    }

    fn type_in(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).expect("a key");
        self.keyboard.flush().expect("a key");
    }

    /// Waits for a text and removes it with all output before it. Types the keys repeatedly while
    /// it waits.
    fn wait_pressing(&mut self, text: &str, keys: &str) {
        let step = Duration::from_millis(if keys.is_empty() { 10_000 } else { 100 });
        let mut remaining = TIMEOUT;
        loop {
            if let Some(at) = self.seen.find(text) {
                self.seen.drain(..at + text.len());
                return;
            }
            match self.screen.recv_timeout(step) {
                Ok(bytes) => self.seen += &String::from_utf8_lossy(&bytes),
                Err(RecvTimeoutError::Timeout) if !remaining.is_zero() => {
                    remaining = remaining.saturating_sub(step);
                    self.type_in(keys);
                }
                Err(_) => panic!("no {text:?} in {:?}", self.seen),
            }
        }
    }

    fn wait(&mut self, text: &str) {
        self.wait_pressing(text, "");
    }

    fn end(mut self) {
        self.type_in(".quit\r");
        let status = self.child.wait().expect("an end");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Both fail if the shell has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_shell_completes_names_cancels_queries_and_keeps_its_history() {
    let folder = tempfile::tempdir().expect("folder");
    let trace = folder.path().join("t.pftrace");
    std::fs::write(&trace, encode(TRACE)).expect("trace");
    let Some(mut shell) = Terminal::start(folder.path(), &trace) else {
        println!("skipped: script is not installed");
        return;
    };
    shell.wait("> ");
    // Tab completes a name.
    shell.type_in("SELECT count(*) AS how_many FROM thread_sta\t;\r");
    shell.wait("thread_state");
    shell.wait(" ms");
    shell.wait("> ");
    shell.type_in(".tables thread_st\r");
    shell.wait("thread_state");
    shell.wait("> ");
    shell.type_in(".schema slice\r");
    shell.wait("track_id");
    shell.wait("integer");
    shell.wait("> ");
    // The shell continues after an error.
    shell.type_in("SELECT * FROM slcie;\r");
    shell.wait("Did you mean 'slice'");
    shell.wait("> ");
    // Ctrl-C cancels the query, and the shell continues.
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n \
                   WHERE i < 1000000000) SELECT count(*) FROM n;\r";
    shell.type_in(endless);
    shell.wait("FROM n;");
    shell.wait_pressing("cancelled", "\x03");
    shell.type_in("SELECT 40 + 2 AS still;\r");
    shell.wait("42");
    shell.wait("> ");
    shell.end();

    // The next shell has the history.
    let mut shell = Terminal::start(folder.path(), &trace).expect("a terminal");
    shell.wait("> ");
    // The last entry is the command that ended the shell, so the one before is selected.
    shell.type_in("\x1b[A\x1b[A\r");
    shell.wait("AS still;");
    shell.wait("42");
    shell.wait("> ");
    shell.end();
}
