//! Functions for the bytes of kernel records and messages.

use ferretto_wire::Encoder;

/// An encoder into memory; messages are passed on as a whole.
pub(crate) type Out<'a> = Encoder<'a, Vec<u8>>;

/// Returns the part of `bytes` before the first NUL.
#[inline]
pub(crate) fn until_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(bytes.len());
    &bytes[..end]
}
