//! Numbers and strings in bytes that may be too short.

/// The size of addresses: 32 or 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `ELFCLASS32`.
    Bits32,
    /// `ELFCLASS64`.
    Bits64,
}

/// A number of 16 bits at `at`.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

/// A number of 32 bits at `at`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// A number of 64 bits at `at`.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// An address, offset or size at `at`: 32 or 64 bits, by the file's class.
pub(crate) fn word_at(bytes: &[u8], at: usize, class: Class) -> Option<u64> {
    match class {
        Class::Bits32 => u32_at(bytes, at).map(u64::from),
        Class::Bits64 => u64_at(bytes, at),
    }
}

/// The string that begins at `at` and ends before the next zero; `None` if there is no zero.
pub(crate) fn string_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let rest = bytes.get(at..)?;
    let end = rest.iter().position(|&byte| byte == 0)?;
    Some(&rest[..end])
}
