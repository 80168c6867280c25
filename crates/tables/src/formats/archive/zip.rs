//! The format `zip`, read sequentially: a header before each file. The central directory at the end
//! is not needed.

use std::io::{self, Read};

use ferretto_format::decompression::DecompressionBudget;
use flate2::{Decompress, FlushDecompress, Status};

use super::{Member, Members, invalid};

const FILE: u32 = 0x0403_4b50;
const DESCRIPTOR: [u8; 4] = *b"PK\x07\x08";
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
const IS_ENCRYPTED: u16 = 1;
/// Set if the sizes follow the content.
const IS_STREAMED: u16 = 1 << 3;
/// The extra field with 64-bit sizes.
const LARGE: u16 = 1;

/// Reads the files of an archive.
pub(in super::super) fn members(
    input: &mut dyn Read,
    allowed: u64,
    budget: &DecompressionBudget,
) -> io::Result<Vec<Member>> {
    let mut input = Peekable {
        input,
        ahead: Vec::new(),
    };
    let mut members = Members::new(allowed, budget);
    while let Some(header) = input.header()? {
        let name = header.name.clone();
        let is_folder = name.ends_with('/');
        if header.flags & IS_ENCRYPTED != 0 {
            return Err(invalid(format!("the encrypted file {name}")));
        }
        let (bytes, is_deflated) = match (header.method, header.flags & IS_STREAMED != 0) {
            (STORED, false) => (members.read(&mut input, header.size)?, false),
            (DEFLATED, false) => (members.read(&mut input, header.size)?, true),
            (STORED, true) if header.size == 0 && is_folder => (Vec::new(), false),
            (DEFLATED, true) => {
                let bytes = input.deflated(&members)?;
                input.descriptor()?;
                (bytes, true)
            }
            (method, _) => {
                return Err(invalid(format!(
                    "the file {name} with the unknown compression method {method}"
                )));
            }
        };
        if !is_folder {
            members.push(name, bytes, is_deflated)?;
        }
    }
    Ok(members.members)
}

struct Header {
    flags: u16,
    method: u16,
    size: u64,
    name: String,
}

/// A reader with some bytes that were read ahead.
struct Peekable<'a> {
    input: &'a mut dyn Read,
    ahead: Vec<u8>,
}

impl Read for Peekable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ahead.is_empty() {
            return self.input.read(buffer);
        }
        let count = self.ahead.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.ahead[..count]);
        self.ahead.drain(..count);
        Ok(count)
    }
}

impl Peekable<'_> {
    /// Reads the header of a file. Returns `None` after the last one.
    fn header(&mut self) -> io::Result<Option<Header>> {
        let mut fixed = Vec::new();
        self.by_ref().take(30).read_to_end(&mut fixed)?;
        let Ok(fixed) = <[u8; 30]>::try_from(fixed) else {
            return Ok(None);
        };
        let short = |at: usize| u16::from_le_bytes([fixed[at], fixed[at + 1]]);
        let long = |at: usize| u32::from(short(at)) | u32::from(short(at + 2)) << 16;
        if long(0) != FILE {
            return Ok(None);
        }
        let mut name = vec![0; short(26).into()];
        self.read_exact(&mut name)?;
        let mut extra = vec![0; short(28).into()];
        self.read_exact(&mut extra)?;
        let mut size = u64::from(long(18));
        if size == u64::from(u32::MAX) {
            size = large_size(&extra).unwrap_or(size);
        }
        Ok(Some(Header {
            flags: short(6),
            method: short(8),
            size,
            name: String::from_utf8_lossy(&name).into_owned(),
        }))
    }

    /// Reads deflated data, which marks its own end.
    fn deflated(&mut self, members: &Members) -> io::Result<Vec<u8>> {
        let mut decoder = Decompress::new(false);
        let mut bytes = Vec::new();
        let mut unpacked = vec![0; 1 << 15];
        loop {
            let mut chunk = members.read_some(self, bytes.len() as u64)?;
            let mut at = 0;
            while at < chunk.len() {
                let (before, out) = (decoder.total_in(), decoder.total_out());
                let status = decoder
                    .decompress(&chunk[at..], &mut unpacked, FlushDecompress::None)
                    .map_err(|_| invalid("a damaged file".into()))?;
                let used = (decoder.total_in() - before) as usize;
                members.budget.take(decoder.total_out() - out)?;
                at += used;
                if status == Status::StreamEnd {
                    self.ahead.splice(0..0, chunk.split_off(at));
                    bytes.extend_from_slice(&chunk);
                    return Ok(bytes);
                }
                if used == 0 && decoder.total_out() == out {
                    return Err(invalid("a damaged file".into()));
                }
            }
            bytes.extend_from_slice(&chunk);
        }
    }

    /// Skips the sizes after a file, with or without a signature, of 32 or 64 bits.
    fn descriptor(&mut self) -> io::Result<()> {
        let mut ahead = Vec::new();
        self.by_ref().take(28).read_to_end(&mut ahead)?;
        let signed = if ahead.starts_with(&DESCRIPTOR) { 4 } else { 0 };
        // The next record starts with `PK`.
        let is_next = |length: usize| ahead.get(length..length + 2) == Some(b"PK");
        let length = if is_next(signed + 20) && !is_next(signed + 12) {
            20
        } else {
            12
        };
        ahead.drain(..ahead.len().min(signed + length));
        self.ahead.splice(0..0, ahead);
        Ok(())
    }
}

impl Members {
    /// Reads the next bytes of a file after the first `so_far`.
    fn read_some(&self, input: &mut dyn Read, so_far: u64) -> io::Result<Vec<u8>> {
        self.check(so_far)?;
        let mut chunk = vec![0; 1 << 15];
        match input.read(&mut chunk)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                chunk.truncate(count);
                Ok(chunk)
            }
        }
    }
}

/// Returns the 64-bit stored size.
fn large_size(mut extra: &[u8]) -> Option<u64> {
    while let [a, b, c, d, rest @ ..] = extra {
        let (kind, length) = (u16::from_le_bytes([*a, *b]), u16::from_le_bytes([*c, *d]));
        let (field, rest) = rest.split_at_checked(length.into())?;
        if kind == LARGE {
            return Some(u64::from_le_bytes(*field.get(8..)?.first_chunk()?));
        }
        extra = rest;
    }
    None
}
