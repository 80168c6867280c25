//! Frames that the kernel found.

use ferretto_format::CpuMode;

use super::Words;

/// Frames that the kernel found: addresses, innermost first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Callchain<'a> {
    /// The frames in the kernel.
    pub kernel: Words<'a>,
    /// The frames in the program; `None` if the kernel did not look there, or for kernel threads.
    pub user: Option<Words<'a>>,
}

impl<'a> Callchain<'a> {
    /// Splits the words of a record at the kernel's markers. Frames of guests, and those before any
    /// marker, are skipped.
    pub fn new(mut words: Words<'a>) -> Self {
        let mut chain = Self::default();
        while let Some(marker) = words.get(0) {
            let (_, rest) = words.split_at(1);
            let end = rest
                .iter()
                .position(|word| CpuMode::of_context(word).is_some());
            let (section, after) = rest.split_at(end.unwrap_or(rest.len()));
            match CpuMode::of_context(marker) {
                Some(CpuMode::Kernel) if chain.kernel.is_empty() => chain.kernel = section,
                Some(CpuMode::User) if chain.user.is_none() => chain.user = Some(section),
                _ => {}
            }
            words = after;
        }
        chain
    }
}
