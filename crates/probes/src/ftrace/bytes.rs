//! Bytes of kernel records, read and written.

use ferretto_wire::Encoder;

/// Messages are written into plain memory and handed on as a whole.
pub(crate) type Out<'a> = Encoder<'a, Vec<u8>>;

/// The part of `bytes` before the first NUL.
#[inline]
pub(crate) fn until_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(bytes.len());
    &bytes[..end]
}
