//! The messages of a session: config and records, as upstream's profiler lays them out.

/// Longest name of a heap, with the byte 0 that ends it.
pub const NAME_BYTES: usize = 64;
/// Heaps that a config can speak of.
pub const MAX_HEAPS: usize = 64;
/// Bytes of the registers in a record.
pub const REGISTER_BYTES: usize = 272;
/// Size of a [`ClientConfig`].
pub const CONFIG_BYTES: usize = 4656;

/// First byte of a client that only knows upstream's session.
pub const HELLO: u8 = b'x';
/// First byte of a client that knows the extended session, too.
pub const HELLO_EXTENDED: u8 = b'f';

/// A heap of a config and its sampling interval; 0 is off.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HeapInterval {
    /// The name, filled up with 0.
    pub name: [u8; NAME_BYTES],
    /// Mean bytes between two samples.
    pub interval: u64,
}

/// The config of a session, as the client gets it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ClientConfig {
    /// The interval of heaps that are not named, if all are recorded.
    pub default_interval: u64,
    /// The time that an allocation waits for room, in microseconds; 0 for as long as it takes.
    pub block_client_timeout_us: u64,
    /// The number of named heaps.
    pub num_heaps: u64,
    /// If less of the ring is free, intervals double; 0 is never.
    pub adaptive_threshold: u64,
    /// The interval that is not doubled any more; 0 for no such.
    pub adaptive_max_interval: u64,
    /// The named heaps.
    pub heaps: [HeapInterval; MAX_HEAPS],
    /// Not 0: allocations wait for room in the ring.
    pub block_client: u8,
    /// Not 0: a process that was cloned goes on with its parent's session.
    pub disable_fork_teardown: u8,
    /// Not 0: `vfork` is not told from `fork`.
    pub disable_vfork_detection: u8,
    /// Not 0: heaps that are not named are recorded, too.
    pub all_heaps: u8,
    /// 0.
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

    /// Returns the config as it is sent.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; CONFIG_BYTES] {
        // SAFETY: both have the same size, and there is no padding but the field of that name.
        unsafe { core::mem::transmute_copy(self) }
    }

    /// Reads a config as it was sent.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; CONFIG_BYTES]) -> Self {
        // SAFETY: both have the same size, and all bytes make valid integers.
        unsafe { core::mem::transmute_copy(bytes) }
    }

    /// Appends a named heap; `false` if the name is too long or there is no room.
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

    /// Returns the interval of a heap; 0 is off.
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
    /// An [`AllocMetadata`](super::AllocMetadata), a [`ChainHeader`](super::ChainHeader), as many
    /// addresses as it says, and the stack. Of the extended session.
    pub const MALLOC_WITH_CHAIN: u64 = 0x101;
    /// A library was unloaded: nothing follows. Of the extended session.
    pub const MAPS_CHANGED: u64 = 0x102;
}

/// A sampled allocation.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AllocMetadata {
    /// The place of the record among those of its heap.
    pub sequence_number: u64,
    /// Bytes that were asked for.
    pub alloc_size: u64,
    /// Bytes that the sample stands for.
    pub sample_size: u64,
    /// The address, or what else names the allocation.
    pub alloc_address: u64,
    /// The stack pointer, where the stack in the record begins.
    pub stack_pointer: u64,
    /// Nanoseconds of `CLOCK_MONOTONIC_COARSE`.
    pub timestamp: u64,
    /// The registers, in the order of DWARF's numbers, then the program counter.
    pub registers: [u64; REGISTER_BYTES / 8],
    /// The heap.
    pub heap_id: u32,
    /// The machine, one of [`arch`].
    pub arch: u8,
    pub(crate) padding: [u8; 3],
}

const _: () = assert!(size_of::<AllocMetadata>() == 328);

impl AllocMetadata {
    /// One that is all 0.
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

/// Numbers of machines.
pub mod arch {
    /// arm64.
    pub const ARM64: u8 = 2;
    /// x86-64.
    pub const X86_64: u8 = 4;
    /// The one this program runs on.
    pub const NATIVE: u8 = if cfg!(target_arch = "aarch64") {
        ARM64
    } else {
        X86_64
    };
}

/// The part that follows [`AllocMetadata`] in an extended record.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ChainHeader {
    /// The number of addresses that follow.
    pub count: u32,
    /// Not 0: the stack goes on behind the copy.
    pub is_cut: u32,
}

/// The end of a sampled allocation.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeEntry {
    /// The place of the record among those of its heap.
    pub sequence_number: u64,
    /// The address.
    pub address: u64,
    /// The heap.
    pub heap_id: u32,
    /// 0.
    pub padding: u32,
}

/// The name of a heap's number, and its interval; an empty name changes the interval alone.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HeapName {
    /// Mean bytes between two samples.
    pub sample_interval: u64,
    /// The heap.
    pub heap_id: u32,
    /// The name, filled up with 0.
    pub name: [u8; NAME_BYTES],
    /// 0.
    pub padding: [u8; 4],
}

/// A record, borrowed from its bytes.
#[derive(Debug)]
pub enum Record<'a> {
    /// A sampled allocation: with the frame pointer chain, whether the stack is cut, and the stack.
    Malloc(&'a [u8], &'a [u8], bool, &'a [u8]),
    /// The end of one.
    Free(FreeEntry),
    /// The name of a heap.
    HeapName(HeapName),
    /// A library was unloaded.
    MapsChanged,
}

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
