//! The messages of a session, config and records, in the layout of upstream's profiler.

/// The size of a heap's name including the terminating 0.
pub const NAME_BYTES: usize = 64;
/// The maximum number of named heaps in a config.
pub const MAX_HEAPS: usize = 64;
/// The size of the registers in a record.
pub const REGISTER_BYTES: usize = 272;
/// The size of a [`ClientConfig`].
pub const CONFIG_BYTES: usize = 4656;

/// The first byte of a client that supports only upstream's sessions.
pub const HELLO: u8 = b'x';
/// The first byte of a client that supports extended sessions, too.
pub const HELLO_EXTENDED: u8 = b'f';

/// A heap of a config and its sampling interval; 0 if it is not recorded.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HeapInterval {
    /// The name, padded with 0.
    pub name: [u8; NAME_BYTES],
    /// The mean number of bytes between two samples.
    pub interval: u64,
}

/// The config of a session that the profiler sends to the client.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ClientConfig {
    /// The interval of all other heaps, if `all_heaps` is set.
    pub default_interval: u64,
    /// The maximum time that an allocation waits for free space, in microseconds; 0 is unlimited.
    pub block_client_timeout_us: u64,
    /// The number of named heaps.
    pub num_heaps: u64,
    /// Intervals double while fewer bytes of the ring than this are free; 0 is never.
    pub adaptive_threshold: u64,
    /// Intervals of at least this size are not doubled; 0 is no limit.
    pub adaptive_max_interval: u64,
    /// The named heaps.
    pub heaps: [HeapInterval; MAX_HEAPS],
    /// Not 0: allocations wait for free space in the ring.
    pub block_client: u8,
    /// Not 0: a cloned process continues its parent's session.
    pub disable_fork_teardown: u8,
    /// Not 0: `vfork` is treated like `fork`.
    pub disable_vfork_detection: u8,
    /// Not 0: all heaps are recorded, not only the named ones.
    pub all_heaps: u8,
    /// Always 0.
    pub padding: [u8; 4],
}

const _: () = assert!(size_of::<ClientConfig>() == CONFIG_BYTES);

impl ClientConfig {
    /// A config that records nothing.
    pub const EMPTY: Self = Self {
        default_interval: 0,
        block_client_timeout_us: 0,
        num_heaps: 0,
        adaptive_threshold: 0,
        adaptive_max_interval: 0,
        heaps: [HeapInterval {
            name: [0; NAME_BYTES],
            interval: 0,
        }; MAX_HEAPS],
        block_client: 0,
        disable_fork_teardown: 0,
        disable_vfork_detection: 0,
        all_heaps: 0,
        padding: [0; 4],
    };

    /// Returns the config in its transmitted form.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; CONFIG_BYTES] {
        // SAFETY: both have the same size, and there is no implicit padding.
        unsafe { core::mem::transmute_copy(self) }
    }

    /// Reads a config in its transmitted form.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; CONFIG_BYTES]) -> Self {
        // SAFETY: both have the same size, and all fields are integers.
        unsafe { core::mem::transmute_copy(bytes) }
    }

    /// Appends a named heap. Returns false if the name is too long or the config is full.
    pub fn add_heap(&mut self, name: &[u8], interval: u64) -> bool {
        let Some(heap) = self.heaps.get_mut(self.num_heaps as usize) else {
            return false;
        };
        if name.len() >= NAME_BYTES {
            return false;
        }
        heap.name[..name.len()].copy_from_slice(name);
        heap.interval = interval;
        self.num_heaps += 1;
        true
    }

    /// Returns the interval of a heap; 0 if it is not recorded.
    #[must_use]
    pub fn interval(&self, name: &[u8; NAME_BYTES]) -> u64 {
        let count = (self.num_heaps as usize).min(MAX_HEAPS);
        let named = self.heaps.iter().take(count);
        match named.into_iter().find(|heap| heap.name == *name) {
            Some(heap) => heap.interval,
            None if self.all_heaps != 0 => self.default_interval,
            None => 0,
        }
    }
}

/// The type of a record, its first eight bytes.
pub mod record {
    /// A [`FreeEntry`](super::FreeEntry).
    pub const FREE: u64 = 0;
    /// An [`AllocMetadata`](super::AllocMetadata) and the stack.
    pub const MALLOC: u64 = 1;
    /// A [`HeapName`](super::HeapName).
    pub const HEAP_NAME: u64 = 2;
    /// An [`AllocMetadata`](super::AllocMetadata), a [`ChainHeader`](super::ChainHeader), the
    /// chain's addresses, and the stack. Only in extended sessions.
    pub const MALLOC_WITH_CHAIN: u64 = 0x101;
    /// A library was unloaded. Has no body. Only in extended sessions.
    pub const MAPS_CHANGED: u64 = 0x102;
}

/// A sampled allocation.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AllocMetadata {
    /// The position of the record in the sequence of its heap.
    pub sequence_number: u64,
    /// The requested size.
    pub alloc_size: u64,
    /// The number of bytes that the sample represents.
    pub sample_size: u64,
    /// The address, or the ID that the program gave the allocation.
    pub alloc_address: u64,
    /// The stack pointer, which is the start of the stack in the record.
    pub stack_pointer: u64,
    /// The time by `CLOCK_MONOTONIC_COARSE` in nanoseconds.
    pub timestamp: u64,
    /// The registers in the order of their DWARF numbers, then the program counter.
    pub registers: [u64; REGISTER_BYTES / 8],
    /// The ID of the heap.
    pub heap_id: u32,
    /// The architecture, one of [`arch`].
    pub arch: u8,
    pub(crate) padding: [u8; 3],
}

const _: () = assert!(size_of::<AllocMetadata>() == 328);

impl AllocMetadata {
    /// Metadata with all fields 0.
    pub const EMPTY: Self = Self {
        sequence_number: 0,
        alloc_size: 0,
        sample_size: 0,
        alloc_address: 0,
        stack_pointer: 0,
        timestamp: 0,
        registers: [0; REGISTER_BYTES / 8],
        heap_id: 0,
        arch: 0,
        padding: [0; 3],
    };
}

/// Numbers of architectures.
pub mod arch {
    /// arm64.
    pub const ARM64: u8 = 2;
    /// x86-64.
    pub const X86_64: u8 = 4;
    /// The architecture of this program.
    pub const NATIVE: u8 = if cfg!(target_arch = "aarch64") {
        ARM64
    } else {
        X86_64
    };
}

/// The header of the frame pointer chain. Follows [`AllocMetadata`] in an extended record.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ChainHeader {
    /// The number of addresses that follow.
    pub count: u32,
    /// Not 0: the copy of the stack is truncated.
    pub is_cut: u32,
}

/// The free of a sampled allocation.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeEntry {
    /// The position of the record in the sequence of its heap.
    pub sequence_number: u64,
    /// The address, or the ID that the program gave the allocation.
    pub address: u64,
    /// The ID of the heap.
    pub heap_id: u32,
    /// Always 0.
    pub padding: u32,
}

/// The name and interval of a heap. An empty name changes only the interval.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HeapName {
    /// The mean number of bytes between two samples.
    pub sample_interval: u64,
    /// The ID of the heap.
    pub heap_id: u32,
    /// The name, padded with 0.
    pub name: [u8; NAME_BYTES],
    /// Always 0.
    pub padding: [u8; 4],
}

/// A record, borrowed from its bytes.
#[derive(Debug)]
pub enum Record<'a> {
    /// A sampled allocation: its [`AllocMetadata`], its frame pointer chain, true if the stack is
    /// truncated, and the stack.
    Malloc(&'a [u8], &'a [u8], bool, &'a [u8]),
    /// The free of a sampled allocation.
    Free(FreeEntry),
    /// The name and interval of a heap.
    HeapName(HeapName),
    /// A library was unloaded.
    MapsChanged,
}

/// Returns the eight bytes at a position as an integer; 0 if there are fewer.
fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    if let Some(found) = bytes.get(at..at + 8) {
        word.copy_from_slice(found);
    }
    u64::from_ne_bytes(word)
}

fn half(bytes: &[u8], at: usize) -> u32 {
    word(bytes, at) as u32
}

impl<'a> Record<'a> {
    /// Parses a record from untrusted bytes. Returns `None` if it is malformed.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (kind, body) = bytes.split_at_checked(8)?;
        match word(kind, 0) {
            record::FREE if body.len() >= 24 => Some(Self::Free(FreeEntry {
                sequence_number: word(body, 0),
                address: word(body, 8),
                heap_id: word(body, 16) as u32,
                padding: 0,
            })),
            record::HEAP_NAME if body.len() >= 80 => {
                let mut name = [0; NAME_BYTES];
                name.copy_from_slice(body.get(12..12 + NAME_BYTES)?);
                name[NAME_BYTES - 1] = 0;
                Some(Self::HeapName(HeapName {
                    sample_interval: word(body, 0),
                    heap_id: word(body, 8) as u32,
                    name,
                    padding: [0; 4],
                }))
            }
            record::MALLOC => {
                let (metadata, stack) = body.split_at_checked(size_of::<AllocMetadata>())?;
                Some(Self::Malloc(metadata, &[], false, stack))
            }
            record::MALLOC_WITH_CHAIN => {
                let (metadata, rest) = body.split_at_checked(size_of::<AllocMetadata>())?;
                let (header, rest) = rest.split_at_checked(size_of::<ChainHeader>())?;
                let is_cut = word(header, 0) >> 32 != 0;
                let chain = (half(header, 0) as usize).checked_mul(8)?;
                let (chain, stack) = rest.split_at_checked(chain)?;
                Some(Self::Malloc(metadata, chain, is_cut, stack))
            }
            record::MAPS_CHANGED => Some(Self::MapsChanged),
            _ => None,
        }
    }
}

impl AllocMetadata {
    /// Reads the bytes of [`Record::Malloc`].
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let mut registers = [0; REGISTER_BYTES / 8];
        for (number, register) in registers.iter_mut().enumerate() {
            *register = word(bytes, 48 + number * 8);
        }
        let last = word(bytes, 320);
        Self {
            sequence_number: word(bytes, 0),
            alloc_size: word(bytes, 8),
            sample_size: word(bytes, 16),
            alloc_address: word(bytes, 24),
            stack_pointer: word(bytes, 32),
            timestamp: word(bytes, 40),
            registers,
            heap_id: last as u32,
            arch: (last >> 32) as u8,
            padding: [0; 3],
        }
    }
}

/// Returns the addresses of a chain.
pub fn chain(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).map(|chunk| word(chunk, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heap_002_named_heaps_come_before_all() {
        let mut config = ClientConfig::EMPTY;
        config.all_heaps = 1;
        config.default_interval = 7;
        let name = |text: &[u8]| {
            let mut name = [0; NAME_BYTES];
            name[..text.len()].copy_from_slice(text);
            name
        };
        assert!(config.add_heap(b"both", 5) && config.add_heap(b"both", 0));
        assert!(config.add_heap(b"off", 0));
        assert!(!config.add_heap(&[b'n'; 64], 5), "a name of 64 bytes");
        assert!(config.add_heap(&[b'n'; 63], 9));
        assert_eq!(config.interval(&name(b"both")), 5);
        assert_eq!(config.interval(&name(b"off")), 0);
        assert_eq!(config.interval(&name(&[b'n'; 63])), 9);
        assert_eq!(config.interval(&name(b"other")), 7);
        config.all_heaps = 0;
        assert_eq!(config.interval(&name(b"other")), 0);
        let again = ClientConfig::from_bytes(&config.to_bytes());
        assert_eq!(again.interval(&name(b"both")), 5);
        for _ in 4..64 {
            config.add_heap(b"x", 1);
        }
        assert_eq!(config.num_heaps, 64);
        assert!(!config.add_heap(b"the 65th", 1));
    }

    #[test]
    fn heap_018_malformed_records_are_refused() {
        for length in 0..16 {
            assert!(Record::parse(&[0; 32][..length]).is_none());
        }
        let kind = |kind: u64, length: usize| {
            let mut bytes = std::vec![0_u8; 8 + length];
            bytes[..8].copy_from_slice(&kind.to_ne_bytes());
            bytes
        };
        assert!(Record::parse(&kind(7, 400)).is_none(), "an unknown type");
        assert!(Record::parse(&kind(record::MALLOC, 327)).is_none());
        assert!(Record::parse(&kind(record::MALLOC, 328)).is_some());
        assert!(Record::parse(&kind(record::FREE, 23)).is_none());
        assert!(Record::parse(&kind(record::HEAP_NAME, 79)).is_none());
        let mut long = kind(record::MALLOC_WITH_CHAIN, 328 + 8 + 16);
        long[8 + 328] = 3;
        assert!(Record::parse(&long).is_none(), "a chain beyond the record");
        long[8 + 328] = 2;
        assert!(
            matches!(Record::parse(&long), Some(Record::Malloc(_, chain, false, [])) if chain.len() == 16)
        );
    }
}
