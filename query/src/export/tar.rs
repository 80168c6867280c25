//! Entries of tar archives.

use std::io::{self, Read, Write};

/// The size of a block.
const BLOCK: usize = 512;

/// Writes a file as an entry, and returns the error of reading or writing.
pub(super) fn entry(
    name: &str,
    size: u64,
    content: &mut dyn Read,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut header = [0_u8; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    let too_long = || io::Error::new(io::ErrorKind::InvalidInput, "the name is too long");
    if name.len() > 100 {
        return Err(too_long());
    }
    put(0, name.as_bytes());
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    // Sizes beyond eight gigabytes are binary.
    if size < 1 << 33 {
        put(124, format!("{size:011o}\0").as_bytes());
    } else {
        put(124, &[0x80, 0, 0, 0]);
        put(128, &size.to_be_bytes());
    }
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    out.write_all(&header)?;
    let copied = io::copy(&mut content.take(size), out)?;
    if copied != size {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let rest = (size % BLOCK as u64) as usize;
    if rest > 0 {
        out.write_all(&[0; BLOCK][rest..])?;
    }
    Ok(())
}

/// Writes the end of an archive.
pub(super) fn end(out: &mut dyn Write) -> io::Result<()> {
    out.write_all(&[0; 2 * BLOCK])
}
