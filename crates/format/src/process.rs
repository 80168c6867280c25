//! Processes and threads, as in track descriptors.

use ferretto_proto::fields::{process_descriptor, thread_descriptor, track_descriptor};
use ferretto_wire::{Encoder, Sink};

use crate::Fnv1a;

/// A process that writes track events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The uuid of the process's track.
    pub uuid: u64,
    /// The process id.
    pub pid: i32,
    /// The command line: the program and its arguments.
    pub command_line: Vec<Vec<u8>>,
}

/// A thread of a process that writes track events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The thread id.
    pub tid: i32,
    /// The name; empty if there is none.
    pub name: Vec<u8>,
}

impl Process {
    /// Returns the uuid of a process's track, given its start time in clock ticks since boot. Every
    /// library in a process computes the same uuid.
    pub fn uuid_of(start_time: u64, pid: i32) -> u64 {
        let hash = Fnv1a::new().update(&start_time.to_le_bytes());
        hash.update(&pid.to_le_bytes()).finish()
    }

    /// Appends the fields of the process's `TrackDescriptor`.
    pub fn describe<S: Sink + ?Sized>(&self, track: &mut Encoder<'_, S>) {
        track.nested(track_descriptor::PROCESS, |out| {
            out.int(process_descriptor::PID, self.pid.into());
            for part in &self.command_line {
                out.bytes(process_descriptor::CMDLINE, part);
            }
            if let Some(name) = self.command_line.first() {
                out.bytes(process_descriptor::PROCESS_NAME, name);
            }
        });
    }
}

impl Thread {
    /// Returns the uuid of the thread's track.
    pub fn uuid(&self, process: &Process) -> u64 {
        process.uuid ^ self.tid as u64
    }

    /// Appends the fields of the thread's `TrackDescriptor`.
    pub fn describe<S: Sink + ?Sized>(&self, process: &Process, track: &mut Encoder<'_, S>) {
        track.nested(track_descriptor::THREAD, |out| {
            out.int(thread_descriptor::PID, process.pid.into());
            out.int(thread_descriptor::TID, self.tid.into());
            if !self.name.is_empty() {
                out.bytes(thread_descriptor::THREAD_NAME, &self.name);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_match_those_of_other_libraries() {
        assert_eq!(Process::uuid_of(123_456, 4242), 0x61a6_0838_098c_0914);
    }
}
