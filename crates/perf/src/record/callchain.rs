//! Frames that the kernel found.

use super::Words;

/// `PERF_CONTEXT_KERNEL`: frames of the kernel follow.
const KERNEL: u64 = -128_i64 as u64;
/// `PERF_CONTEXT_USER`: frames of the program follow.
const USER: u64 = -512_i64 as u64;
/// `PERF_CONTEXT_MAX`: everything from here on is a marker and no address.
const FIRST_MARKER: u64 = -4095_i64 as u64;

/// Frames that the kernel found: addresses, innermost first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Callchain<'a> {
    /// In the kernel.
    pub kernel: Words<'a>,
    /// In the program. `None` if the kernel did not look there, or there is nothing: it is a kernel
    /// thread.
    pub user: Option<Words<'a>>,
}

impl<'a> Callchain<'a> {
    /// From the words of a record, with the markers of the kernel among them. Frames of guests, and
    /// those before any marker, are left out.
    pub fn new(mut words: Words<'a>) -> Self {
        let mut chain = Self::default();
        while let Some(marker) = words.get(0) {
            let (_, rest) = words.split_at(1);
            let end = rest.iter().position(|word| word >= FIRST_MARKER);
            let (section, after) = rest.split_at(end.unwrap_or(rest.len()));
            match marker {
                KERNEL if chain.kernel.is_empty() => chain.kernel = section,
                USER if chain.user.is_none() => chain.user = Some(section),
                _ => {}
            }
            words = after;
        }
        chain
    }
}
