//! The trace file, for packets that come over the socket.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};

use ferretto_format::Preamble;

/// The bytes written to a file at a time.
const BLOCK_BYTES: usize = 1 << 18;
/// With more than this waiting for a pipe, nothing further is read.
const MANY_BYTES: usize = 1 << 20;
/// The bytes that a pipe takes without blocking when it has room.
const PIPE_WRITE: usize = 4096;

/// Writes packets as `Trace.packet` records. Pipes are written only when they have room, so that
/// the session can wait for other events beside a slow reader.
#[derive(Debug)]
pub(crate) struct Output {
    file: File,
    /// It may have no room.
    may_block: bool,
    /// Records that are not written yet, from `written` on.
    waiting: Vec<u8>,
    written: usize,
}

impl Output {
    pub(crate) fn new(file: File) -> Self {
        let may_block = !file.metadata().is_ok_and(|file| file.is_file());
        Self {
            file,
            may_block,
            waiting: Vec::new(),
            written: 0,
        }
    }

    /// Takes a packet.
    pub(crate) fn packet(&mut self, packet: &[u8]) -> io::Result<()> {
        let preamble = Preamble::new(packet.len());
        self.waiting.extend_from_slice(preamble.as_bytes());
        self.waiting.extend_from_slice(packet);
        match self.waiting.len() {
            BLOCK_BYTES.. if !self.may_block => self.flush(),
            _ => Ok(()),
        }
    }

    /// Writes pending bytes, as far as that is possible without waiting.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if self.may_block {
            return Ok(());
        }
        let written = self.file.write_all(&self.waiting);
        self.waiting.clear();
        written
    }

    /// Returns true if records wait until [`room`](Self::room) can be written to.
    pub(crate) fn wants_room(&self) -> bool {
        self.may_block && !self.waiting.is_empty()
    }

    /// Returns true if so much waits that no more should be taken.
    pub(crate) fn is_full(&self) -> bool {
        self.may_block && self.waiting.len() - self.written > MANY_BYTES
    }

    /// Returns the descriptor to wait for.
    pub(crate) fn room(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Writes as much as fits, once there is room.
    pub(crate) fn write_some(&mut self) -> io::Result<()> {
        let rest = &self.waiting[self.written..];
        match self.file.write(&rest[..rest.len().min(PIPE_WRITE)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => self.written += written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if self.written == self.waiting.len() {
            self.waiting.clear();
            self.written = 0;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;

    #[test]
    fn cli_015_the_file_is_a_sequence_of_packet_records() {
        let mut file = tempfile::tempfile().unwrap();
        let mut output = Output::new(file.try_clone().unwrap());
        output.packet(&[1, 2, 3]).unwrap();
        output.packet(&[7; 200]).unwrap();
        output.flush().unwrap();
        let mut written = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut written).unwrap();
        let mut expected = vec![0x0a, 3, 1, 2, 3, 0x0a, 0xc8, 0x01];
        expected.extend([7; 200]);
        assert_eq!(written, expected);
    }

    #[test]
    fn a_pipe_without_room_is_not_waited_for() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut output = Output::new(std::os::fd::OwnedFd::from(writer).into());
        for _ in 0..2 {
            output.packet(&vec![7; 1 << 20]).unwrap();
        }
        output.flush().unwrap();
        assert!(output.wants_room() && output.is_full());
        // Header and data of both.
        let mut left = 2 * ((1 << 20) + 4);
        let mut block = vec![0; PIPE_WRITE];
        while output.wants_room() {
            output.write_some().unwrap();
            left -= reader.read(&mut block).unwrap();
        }
        assert!(!output.is_full());
        drop(output);
        left -= reader.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(left, 0);
    }
}
