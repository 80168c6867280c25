//! A log of all inputs and outputs of a service, to compare two runs.

use std::fmt;

use ferretto_service::{Command, Event};

/// A running hash over events and commands. Descriptor numbers are left out, since the world does
/// not control them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    hash: u64,
    lines: u64,
    prints: bool,
}

/// The largest printed part of a line.
const PRINTED: usize = 240;

impl Log {
    /// Creates an empty log; `prints` also prints its entries.
    pub fn new(prints: bool) -> Self {
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            lines: 0,
            prints,
        }
    }

    /// Returns the number of events and commands so far.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    pub(super) fn event(&mut self, at: u64, event: &Event) {
        match event {
            Event::ProducerRequest {
                client,
                request_id,
                request,
                ..
            } => self.add(at, format_args!("{client:?} {request_id:?} {request:?}")),
            Event::ConsumerRequest {
                client,
                request_id,
                request,
                ..
            } => self.add(at, format_args!("{client:?} {request_id:?} {request:?}")),
            event => self.add(at, format_args!("{event:?}")),
        }
    }

    pub(super) fn command(&mut self, at: u64, command: &Command) {
        match command {
            Command::AdoptSharedMemory { client, .. } => {
                self.add(at, format_args!("adopt memory of {client:?}"));
            }
            Command::AdoptFile { file, .. } => self.add(at, format_args!("adopt {file:?}")),
            Command::CopyFile { from, file, .. } => {
                self.add(at, format_args!("copy {from:?} to {file:?}"));
            }
            command => self.add(at, format_args!("{command:?}")),
        }
    }

    pub(super) fn time(&mut self, at: u64) {
        self.add(at, format_args!("time"));
    }

    fn add(&mut self, at: u64, what: fmt::Arguments<'_>) {
        let line = format!("{} ms: {what}", at / 1_000_000);
        for byte in line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        self.lines += 1;
        if self.prints {
            println!("{}", line.chars().take(PRINTED).collect::<String>());
        }
    }
}
