//! Records of the kernel's perf events, from a ring or a file: their kinds, flags and fields, in
//! the byte order of this machine.

/// The kinds of records (`PERF_RECORD_*`).
pub mod kind {
    /// A mapping, without the file's device and inode.
    pub const MMAP: u32 = 1;
    /// Records that did not fit into the ring.
    pub const LOST: u32 = 2;
    /// The new name of a task.
    pub const COMM: u32 = 3;
    /// The end of a task.
    pub const EXIT: u32 = 4;
    /// The kernel disabled the event.
    pub const THROTTLE: u32 = 5;
    /// The event is enabled again.
    pub const UNTHROTTLE: u32 = 6;
    /// The start of a task.
    pub const FORK: u32 = 7;
    /// A sample.
    pub const SAMPLE: u32 = 9;
    /// A mapping.
    pub const MMAP2: u32 = 10;
    /// Samples that did not fit into the ring.
    pub const LOST_SAMPLES: u32 = 13;
    /// A context switch of the observed task.
    pub const SWITCH: u32 = 14;
    /// A context switch of an observed CPU.
    pub const SWITCH_CPU_WIDE: u32 = 15;
}

/// Flags in the headers of records (`PERF_RECORD_MISC_*`). Their meaning depends on the kind.
pub mod misc {
    /// Of [`COMM`](super::kind::COMM): the task executed a program.
    pub const COMM_EXEC: u16 = 1 << 13;
    /// Of [`MMAP2`](super::kind::MMAP2): a build id takes the place of device and inode.
    pub const MMAP_BUILD_ID: u16 = 1 << 14;
    /// Of context switches: the task was switched out.
    pub const SWITCH_OUT: u16 = 1 << 13;
    /// Of context switches: the task was preempted.
    pub const SWITCH_OUT_PREEMPT: u16 = 1 << 14;
}

/// The rest of some bytes, which numbers are taken from.
#[derive(Debug, Clone, Copy)]
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// Creates a cursor at the start of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes not yet taken.
    #[inline]
    pub fn rest(self) -> &'a [u8] {
        self.0
    }

    /// Takes `count` bytes.
    #[inline]
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    /// Takes a number of 16 bits.
    #[inline]
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_ne_bytes)
    }

    /// Takes a number of 32 bits.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    /// Takes a number of 64 bits.
    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    /// Takes `count` words of 64 bits.
    #[inline]
    pub fn words(&mut self, count: u64) -> Option<Words<'a>> {
        let bytes = usize::try_from(count).ok()?.checked_mul(8)?;
        self.take(bytes).map(Words::new)
    }
}

/// Returns a text up to the byte that ends it.
pub fn until_zero(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&byte| byte == 0);
    &bytes[..end.unwrap_or(bytes.len())]
}

/// The 64-bit words in a record.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Words<'a>(&'a [[u8; 8]]);

impl<'a> Words<'a> {
    /// Creates words from the whole words at the start of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes.as_chunks().0)
    }

    /// Returns the number of words.
    #[inline]
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no words.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Returns a word by its index.
    #[inline]
    pub fn get(self, index: usize) -> Option<u64> {
        self.0.get(index).copied().map(u64::from_ne_bytes)
    }

    /// Iterates over the words.
    #[inline]
    pub fn iter(self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + use<'a> {
        self.0.iter().copied().map(u64::from_ne_bytes)
    }

    /// Splits after the first `count` words, or after all if there are fewer.
    #[inline]
    pub fn split_at(self, count: usize) -> (Self, Self) {
        let (first, rest) = self.0.split_at(count.min(self.0.len()));
        (Self(first), Self(rest))
    }
}

impl std::fmt::Debug for Words<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Words")?;
        let hexadecimal = self.iter().map(|word| format!("{word:#x}"));
        f.debug_list().entries(hexadecimal).finish()
    }
}
