//! The size of a producer's shared memory buffer.

/// The size and page size of a shared memory buffer, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SmbSize {
    pub(crate) size: u64,
    pub(crate) page: u64,
}

pub(crate) const DEFAULT: SmbSize = SmbSize {
    size: 256 * 1024,
    page: 4096,
};
const MAX: SmbSize = SmbSize {
    size: 32 * 1024 * 1024,
    page: 32 * 1024,
};

impl SmbSize {
    /// Returns the nearest acceptable layout: zeros become defaults, excess is cut off, and an
    /// impossible combination is replaced by the default.
    pub(crate) fn corrected(self) -> Self {
        let or = |value: u64, default: u64| if value == 0 { default } else { value };
        let page = or(self.page, DEFAULT.page).min(MAX.page);
        let size = or(self.size, DEFAULT.size).min(MAX.size);
        let page_ok = page.is_multiple_of(4096) && (page / 4096).is_power_of_two();
        if page_ok && size >= page && size.is_multiple_of(page) {
            Self { size, page }
        } else {
            DEFAULT
        }
    }

    /// Returns true if a buffer that the producer brought can be used as it is.
    pub(crate) fn is_acceptable(self) -> bool {
        self.corrected() == self
    }

    /// Returns the size that the session's config requests (in kB, 0 = none), or the producer's
    /// hints.
    pub(crate) fn choose(config_kb: (u32, u32), hint: Self) -> Self {
        let pick = |kb: u32, hint: u64| if kb == 0 { hint } else { u64::from(kb) * 1024 };
        Self {
            size: pick(config_kb.0, hint.size),
            page: pick(config_kb.1, hint.page),
        }
        .corrected()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The columns are config and hint page size, config and hint size, expected page size and
    /// size; all in kB.
    #[test]
    fn service_002_smb_sizes() {
        let table = [
            ((0, 0), (0, 0), (4, 256)),
            ((16, 0), (16, 0), (16, 16)),
            ((4, 8), (16, 32), (4, 16)),
            ((0, 8), (0, 32), (8, 32)),
            ((3, 0), (64, 0), (4, 256)),
            ((2, 0), (64, 0), (4, 256)),
            ((28, 0), (56, 0), (4, 256)),
            ((4096, 0), (4_096_000, 0), (32, 32768)),
            ((16, 0), (18, 0), (4, 256)),
            ((8, 0), (20, 0), (4, 256)),
            // 4 GiB and more must not wrap around.
            ((4, 0), (u32::MAX, 0), (4, 32768)),
        ];
        for ((page, page_hint), (size, size_hint), (want_page, want_size)) in table {
            let hint = SmbSize {
                size: size_hint * 1024,
                page: page_hint * 1024,
            };
            let got = SmbSize::choose((size, page), hint);
            let want = SmbSize {
                size: want_size * 1024,
                page: want_page * 1024,
            };
            assert_eq!(got, want, "page {page}/{page_hint} size {size}/{size_hint}");
        }
    }

    #[test]
    fn service_003_adoptable_sizes() {
        let acceptable = |size, page| SmbSize { size, page }.is_acceptable();
        assert!(acceptable(1 << 20, 4096));
        assert!(!acceptable(1 << 20, 0));
        assert!(!acceptable(1 << 20, 20480));
        assert!(!acceptable(0, 4096));
        assert!(!acceptable((32 << 20) + 4096, 4096));
    }
}
