//! Files on a disk of limited size that can be made to fail.

use std::collections::VecDeque;

use ferretto_service::{Command, Event, FileId, OutputPath};

use super::World;

#[derive(Debug, Default)]
pub struct File {
    pub path: Option<Vec<u8>>,
    pub output: Option<OutputPath>,
    pub bytes: Vec<u8>,
    pub synced: usize,
    pub closed: bool,
    /// Set once a write failed, and the failure was reported.
    pub failed: bool,
    /// The length of the last part that was written.
    pub last_write: usize,
    /// The part of a write that is not in the file yet.
    rest: Vec<u8>,
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteFault {
    /// It succeeds at once.
    None,
    /// A part of it is written, and the rest when late answers are delivered.
    Short,
    /// It fails with this message; a partial write is undone.
    Error(&'static str),
}

pub const NO_SPACE: &str = "No space left on device (os error 28)";
pub const IO_ERROR: &str = "Input/output error (os error 5)";

impl World {
    /// Carries out a command about files.
    pub(super) fn store(&mut self, command: Command) -> Option<Event> {
        match command {
            Command::OpenFile { file, path } => self.open_file(file, path),
            Command::AdoptFile { file, .. } => {
                self.files.insert(file, File::default());
                None
            }
            Command::CopyFile { from, file, .. } => self.copy_file(from, file),
            Command::WriteFile { file, bytes } => self.write_file(file, bytes),
            Command::SyncFile { file } => {
                self.files.get_mut(&file).expect("an open file").synced += 1;
                None
            }
            Command::CloseFile { file } => {
                let target = self.files.get_mut(&file).expect("an open file");
                assert!(!std::mem::replace(&mut target.closed, true));
                target.complete();
                None
            }
            other => panic!("not about files: {other:?}"),
        }
    }

    fn open_file(&mut self, file: FileId, output: OutputPath) -> Option<Event> {
        let path = output.path.as_os_str().as_encoded_bytes().to_vec();
        let exists = |other: &File| other.path.as_ref() == Some(&path);
        if self.files.values().any(exists) {
            let error = "File exists".into();
            return Some(Event::FileFailed { file, error });
        }
        let opened = File {
            path: Some(path),
            output: Some(output),
            ..File::default()
        };
        self.files.insert(file, opened);
        Some(Event::FileOpened { file })
    }

    fn copy_file(&mut self, from: FileId, file: FileId) -> Option<Event> {
        let source = self.files.get_mut(&from).expect("an open file");
        assert!(!source.closed);
        source.complete();
        let bytes = source.bytes.clone();
        let mut copy = File::default();
        if !self.copies {
            copy.failed = true;
            self.files.insert(file, copy);
            let error = "Illegal seek (os error 29)".into();
            return Some(Event::FileFailed { file, error });
        }
        // The service does not know yet that a write has failed.
        if source.failed {
            copy.failed = true;
            self.files.insert(file, copy);
            let error = "the file to copy could not be written".into();
            return Some(Event::FileFailed { file, error });
        }
        let size = bytes.len() as u64;
        copy.bytes = bytes;
        self.files.insert(file, copy);
        Some(Event::FileWritten { file, bytes: size })
    }

    fn write_file(&mut self, file: FileId, mut bytes: Vec<u8>) -> Option<Event> {
        let target = self.files.get_mut(&file).expect("an open file");
        assert!(!target.closed);
        if target.failed {
            let error = "the file is not open".into();
            return Some(Event::FileFailed { file, error });
        }
        let mut fault = self.write_faults.pop_front().unwrap_or(WriteFault::None);
        let size = bytes.len() as u64;
        if bytes.len() > self.disk {
            fault = WriteFault::Error(NO_SPACE);
        }
        if let WriteFault::Error(reason) = fault {
            target.failed = true;
            let error = reason.into();
            return Some(Event::FileFailed { file, error });
        }
        self.disk -= bytes.len();
        let written = Event::FileWritten { file, bytes: size };
        if fault == WriteFault::Short || !target.rest.is_empty() {
            if target.rest.is_empty() {
                target.rest = bytes.split_off(bytes.len() / 2);
                target.append(&mut bytes);
            } else {
                target.rest.append(&mut bytes);
            }
            self.late.push_back(written);
            return None;
        }
        target.append(&mut bytes);
        Some(written)
    }

    /// Completes the writes whose answers come late.
    pub(super) fn complete_writes(&mut self, event: &Event) {
        if let Event::FileWritten { file, .. } = event
            && let Some(file) = self.files.get_mut(file)
        {
            file.complete();
        }
    }
}

impl File {
    /// Returns the size that the file has once all writes are done.
    pub fn handed_over(&self) -> usize {
        self.bytes.len() + self.rest.len()
    }

    fn complete(&mut self) {
        let mut rest = std::mem::take(&mut self.rest);
        if !rest.is_empty() {
            self.append(&mut rest);
        }
    }

    fn append(&mut self, bytes: &mut Vec<u8>) {
        self.last_write = bytes.len();
        self.bytes.append(bytes);
    }
}

/// The results of the next writes, in order.
pub type WriteFaults = VecDeque<WriteFault>;
