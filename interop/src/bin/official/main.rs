//! The official SDK as a child process, driven by lines on standard input.
//!
//! The C++ core keeps its state in process-wide singletons that can be
//! neither reset nor shut down, so each test gets one in a process of its own.
//! Every command is answered by exactly one line; the end of input ends the
//! program. The socket names come from the environment, as in any program that
//! uses the SDK.

mod consumer;
mod producer;

use std::io::{BufRead, Write};

/// Runs one command line and returns the line to answer it with.
pub(crate) trait Role {
    fn run(&mut self, words: &[&str]) -> Result<String, String>;
}

fn main() -> std::process::ExitCode {
    let role: Result<Box<dyn Role>, String> = match std::env::args().nth(1).as_deref() {
        Some("producer") => producer::Producer::start().map(|p| Box::new(p) as Box<dyn Role>),
        Some("consumer") => consumer::Consumer::start().map(|c| Box::new(c) as Box<dyn Role>),
        _ => Err("usage: official producer|consumer".to_owned()),
    };
    let mut role = match role {
        Ok(role) => role,
        Err(message) => {
            eprintln!("official: {message}");
            return std::process::ExitCode::FAILURE;
        }
    };
    let stdin = std::io::stdin().lock();
    let mut stdout = std::io::stdout().lock();
    for line in stdin.lines() {
        let Ok(line) = line else { break };
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match role.run(&words) {
            Ok(answer) => format!("ok {answer}"),
            Err(message) => format!("error {message}"),
        };
        if writeln!(stdout, "{}", answer.trim_end()).is_err() || stdout.flush().is_err() {
            break;
        }
    }
    // The C++ core's threads are still running: its static destructors must
    // not run underneath them.
    drop(stdout);
    std::process::exit(0)
}
