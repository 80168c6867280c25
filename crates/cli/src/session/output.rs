//! The trace file, for packets that come over the socket.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use ferretto_proto::read_buffers_response::Slice;

/// Largest packet put together from slices; the service sends none as large.
const MAX_PACKET_BYTES: usize = 512 << 20;

/// Writes packets as `Trace.packet` records.
#[derive(Debug)]
pub(crate) struct Output {
    file: BufWriter<File>,
    packet: Vec<u8>,
}

impl Output {
    pub(crate) fn new(file: File) -> Self {
        Self {
            file: BufWriter::with_capacity(1 << 18, file),
            packet: Vec::new(),
        }
    }

    /// Takes the next part of a packet, and writes the packet when it was the last one.
    pub(crate) fn slice(&mut self, slice: &Slice) -> io::Result<()> {
        let data = slice.data.as_deref().unwrap_or_default();
        if self.packet.len() + data.len() > MAX_PACKET_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a packet never ends",
            ));
        }
        self.packet.extend_from_slice(data);
        if slice.last_slice_for_packet.unwrap_or(false) {
            self.write_packet()?;
        }
        Ok(())
    }

    fn write_packet(&mut self) -> io::Result<()> {
        let mut head = [0x0a; 11];
        let mut length = self.packet.len();
        let mut end = 1;
        while length >= 0x80 {
            head[end] = length as u8 | 0x80;
            length >>= 7;
            end += 1;
        }
        head[end] = length as u8;
        self.file.write_all(&head[..=end])?;
        self.file.write_all(&self.packet)?;
        self.packet.clear();
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
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
        let slice = |data: &[u8], last: bool| Slice {
            data: Some(data.to_vec()),
            last_slice_for_packet: Some(last),
            ..Default::default()
        };
        output.slice(&slice(&[1], false)).unwrap();
        output.slice(&slice(&[2, 3], true)).unwrap();
        output.slice(&slice(&[7; 200], true)).unwrap();
        output.flush().unwrap();
        let mut written = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut written).unwrap();
        let mut expected = vec![0x0a, 3, 1, 2, 3, 0x0a, 0xc8, 0x01];
        expected.extend([7; 200]);
        assert_eq!(written, expected);
    }
}
