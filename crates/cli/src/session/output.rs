//! The trace file, for packets that are received over the socket.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};

use ferretto_format::Preamble;

/// The number of bytes written to a file at a time.
const BLOCK_BYTES: usize = 1 << 18;
/// The number of bytes pending for a pipe above which reading pauses.
const MANY_BYTES: usize = 1 << 20;
/// The number of bytes that can be written to a ready pipe without blocking.
const PIPE_WRITE: usize = 4096;

/// Writes packets as `Trace.packet` records. Pipes are written only when they are ready, so that
/// the session can handle other events while a reader is slow.
#[derive(Debug)]
pub(crate) struct Output {
    file: File,
    /// True if writing may block.
    may_block: bool,
    /// Records; those before `written` are already written.
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

    /// Adds a packet.
    pub(crate) fn packet(&mut self, packet: &[u8]) -> io::Result<()> {
        let preamble = Preamble::new(packet.len());
        self.waiting.extend_from_slice(preamble.as_bytes());
        self.waiting.extend_from_slice(packet);
        match self.waiting.len() {
            BLOCK_BYTES.. if !self.may_block => self.flush(),
            _ => Ok(()),
        }
    }

    /// Writes the pending bytes of a file. Pipes are written by [`write_some`](Self::write_some).
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if self.may_block {
            return Ok(());
        }
        let written = self.file.write_all(&self.waiting);
        self.waiting.clear();
        written
    }

    /// Returns true if records are pending until [`fd`](Self::fd) is writable.
    pub(crate) fn has_pending(&self) -> bool {
        self.may_block && !self.waiting.is_empty()
    }

    /// Returns true if reading should pause, since many records are pending.
    pub(crate) fn is_full(&self) -> bool {
        self.may_block && self.waiting.len() - self.written > MANY_BYTES
    }

    /// Returns the descriptor to wait for.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Writes some bytes to a pipe that is ready.
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
    fn a_full_pipe_does_not_block() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut output = Output::new(std::os::fd::OwnedFd::from(writer).into());
        for _ in 0..2 {
            output.packet(&vec![7; 1 << 20]).unwrap();
        }
        output.flush().unwrap();
        assert!(output.has_pending() && output.is_full());
        // Header and data of both packets.
        let mut left = 2 * ((1 << 20) + 4);
        let mut block = vec![0; PIPE_WRITE];
        while output.has_pending() {
            output.write_some().unwrap();
            left -= reader.read(&mut block).unwrap();
        }
        assert!(!output.is_full());
        drop(output);
        left -= reader.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(left, 0);
    }
}
