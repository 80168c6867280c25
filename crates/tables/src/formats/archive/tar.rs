//! The format `tar`: a header block for each file, followed by its content.

use std::io::{self, Read};

use ferretto_format::decompression::DecompressionBudget;

use super::{Member, Members, invalid};

const BLOCK: usize = 512;
/// The maximum length of a name.
const MAX_NAME: u64 = 1 << 16;

/// Reads the regular files of an archive.
pub(in super::super) fn members(
    input: &mut dyn Read,
    allowed: u64,
    budget: &DecompressionBudget,
) -> io::Result<Vec<Member>> {
    let mut members = Members::new(allowed, budget);
    let mut long_name = None;
    let mut long_size = None;
    while let Some(header) = read_header(input)? {
        let size = number(&header[124..136]).ok_or_else(|| invalid("an invalid size".into()))?;
        let padding = size.next_multiple_of(BLOCK as u64) - size;
        match header[156] {
            // GNU names and POSIX attributes of the next file.
            kind @ (b'L' | b'x') => {
                if size > MAX_NAME {
                    return Err(invalid("a name of more than 64 KiB".into()));
                }
                let bytes = members.read(input, size)?;
                match kind {
                    b'L' => long_name = Some(text(&bytes)),
                    _ => {
                        for (key, value) in facts(&bytes) {
                            match key {
                                b"path" => long_name = Some(text(value)),
                                b"size" => long_size = text(value).parse().ok(),
                                _ => {}
                            }
                        }
                    }
                }
                skip(input, padding)?;
                continue;
            }
            0 | b'0' | b'7' => {
                let size = long_size.take().unwrap_or(size);
                let padding = size.checked_next_multiple_of(BLOCK as u64).unwrap_or(size) - size;
                let bytes = members.read(input, size)?;
                let name = long_name.take().unwrap_or_else(|| name(&header));
                members.push(name, bytes, false)?;
                // The padding of the last file may be missing.
                let _ = skip(input, padding);
            }
            _ => skip(input, size.saturating_add(padding))?,
        }
        (long_name, long_size) = (None, None);
    }
    Ok(members.members)
}

/// Reads the header block of a file. Returns `None` at the end.
fn read_header(input: &mut dyn Read) -> io::Result<Option<[u8; BLOCK]>> {
    let mut header = Vec::new();
    input.take(BLOCK as u64).read_to_end(&mut header)?;
    let Ok(header) = <[u8; BLOCK]>::try_from(header) else {
        return Ok(None);
    };
    if header.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let sum: u64 = header
        .iter()
        .enumerate()
        .map(|(at, byte)| {
            if (148..156).contains(&at) {
                b' '.into()
            } else {
                u64::from(*byte)
            }
        })
        .sum();
    if number(&header[148..156]) == Some(sum) {
        Ok(Some(header))
    } else {
        Err(invalid("a damaged block".into()))
    }
}

/// Reads an octal number, or a large number in GNU's binary form.
fn number(field: &[u8]) -> Option<u64> {
    if let [0x80, large @ ..] = field {
        let (zeros, low) = large.split_last_chunk::<8>()?;
        let is_small = zeros.iter().all(|byte| *byte == 0);
        return is_small
            .then(|| u64::from_be_bytes(*low))
            .filter(|size| *size < 1 << 62);
    }
    let text = std::str::from_utf8(field).ok()?;
    let text = text.trim_matches(|c| c == ' ' || c == '\0');
    if text.is_empty() {
        Some(0)
    } else {
        u64::from_str_radix(text, 8).ok()
    }
}

fn name(header: &[u8; BLOCK]) -> String {
    let (name, prefix) = (text(&header[..100]), text(&header[345..500]));
    // GNU stores other data in the field of the POSIX prefix.
    let has_prefix = &header[257..263] == b"ustar\0" && !prefix.is_empty();
    if has_prefix {
        format!("{prefix}/{name}")
    } else {
        name
    }
}

fn text(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Returns the attributes in lines of the form `LENGTH KEY=VALUE`.
fn facts(mut bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    std::iter::from_fn(move || {
        let space = bytes.iter().position(|byte| *byte == b' ')?;
        let length: usize = std::str::from_utf8(&bytes[..space]).ok()?.parse().ok()?;
        let fact = bytes.get(space + 1..length.checked_sub(1)?)?;
        bytes = bytes.get(length..)?;
        let equals = fact.iter().position(|byte| *byte == b'=')?;
        Some((&fact[..equals], &fact[equals + 1..]))
    })
}

fn skip(input: &mut dyn Read, bytes: u64) -> io::Result<()> {
    let skipped = io::copy(&mut input.take(bytes), &mut io::sink())?;
    if skipped == bytes {
        Ok(())
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}
