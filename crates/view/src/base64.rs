//! Base64, for binary data in HTML.

use std::io::{self, Write};

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes to write as base64.
pub(crate) struct Base64<'a>(pub(crate) &'a [u8]);

impl Base64<'_> {
    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut text = Vec::with_capacity(4 << 10);
        for part in self.0.chunks(3 << 10) {
            text.clear();
            for three in part.chunks(3) {
                let byte = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
                let word = byte(0) << 16 | byte(1) << 8 | byte(2);
                for index in 0..4 {
                    let digit = DIGITS[(word >> (18 - 6 * index)) as usize & 63];
                    text.push(if index > three.len() { b'=' } else { digit });
                }
            }
            out.write_all(&text)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_encoded_as_base64() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foobar\xff", "Zm9vYmFy/w=="),
        ] {
            let mut out = Vec::new();
            Base64(bytes).write(&mut out).expect("memory");
            assert_eq!(out, text.as_bytes());
        }
    }
}
