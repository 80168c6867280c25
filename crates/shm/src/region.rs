//! The shared memory.

use std::alloc::{Layout as AllocLayout, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};

use rustix::fs::{self, FileType, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{self, MapFlags, ProtFlags};

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::layout::MAX_REGION_SIZE;
use crate::load::load_once;
use crate::owned::{self, Owned};
use crate::primitive::{Apart, AtomicU16, AtomicU32};
use crate::shadow::Shadow;

/// The alignment of the start and the end of regions.
pub(crate) const GRANULE: usize = 4096;

/// The kernel's number of the file system of regular memory files, see statfs(2).
const TMPFS_MAGIC: fs::FsWord = 0x0102_1994;

/// The seals that make a received descriptor safe to map, since its size can never change.
const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

/// The reason why a region could not be created or adopted.
#[derive(Debug)]
#[non_exhaustive]
pub enum RegionError {
    /// The size is zero, above [`MAX_REGION_SIZE`] or not a multiple of 4096 bytes.
    Size {
        /// The requested or found size.
        size: u64,
    },
    /// The descriptor is not a memory file.
    NotAFile,
    /// The memory has huge pages. If its sender punches one out of the file and none is left to
    /// replace it, a process that reads it is killed.
    HugePages,
    /// The descriptor can still be resized by its sender.
    NotSealed,
    /// The system refused an operation.
    System {
        /// The operation that failed.
        action: &'static str,
        /// The system's error.
        error: Errno,
    },
}

ferretto_wire::error_text! {
    RegionError {
        Self::Size { size } => "invalid shared memory size of {size} bytes",
        Self::NotAFile => "the descriptor received as shared memory is not a memory file (memfd)",
        Self::HugePages => "the shared memory received is of huge pages, which its sender can take away",
        Self::NotSealed => "the shared memory received is not sealed against resizing",
        Self::System { action, error } => "cannot {action} shared memory: {error}",
    }
}

enum Backing {
    Mapping(OwnedFd),
    /// The address of the allocation, which is up to a granule before the region.
    Heap(NonNull<u8>, AllocLayout),
}

/// A range of memory that another process, or another thread without synchronisation, may change at
/// any time.
///
/// Its bytes cannot be borrowed. All access is through bounds-checked atomic words and copies. The
/// memory stays mapped as long as the value lives; share it in an [`Arc`](std::sync::Arc).
// Aligned so that the counts of that `Arc`, which change with every chunk, do not share a cache
// line with the fields.
#[repr(align(128))]
pub struct Region {
    base: NonNull<u8>,
    size: usize,
    backing: Backing,
    /// The chunks that this process is writing.
    owned: Arc<Owned>,
    /// Held while chunks are freed and while they are scraped, which must not happen at the same
    /// time: a freed chunk may be written again at once. A model relies on that, and has no lock,
    /// since it could not wait for it.
    reading: Apart<Mutex<()>>,
    /// The view of the model checker; empty otherwise.
    shadow: Shadow,
}

// SAFETY: the region is plain memory without thread affinity; shared access goes through atomics
// or, for the payload of a chunk, through `OwnedChunk`, whose uniqueness the chunk states
// guarantee.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Creates zeroed memory that can be sent to another process: a memfd sealed against resizing.
    ///
    /// # Errors
    ///
    /// Fails if `size` is invalid (see [`RegionError::Size`]), or if the system is out of memory or
    /// descriptors.
    pub fn create(size: usize) -> Result<Self, RegionError> {
        check_size(size as u64)?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = fs::memfd_create("perfetto_shmem", flags).map_err(system("create"))?;
        fs::ftruncate(&fd, size as u64).map_err(system("resize"))?;
        fs::fcntl_add_seals(&fd, SEALS).map_err(system("seal"))?;
        Self::map(fd, size)
    }

    /// Creates zeroed memory of this process only.
    ///
    /// # Errors
    ///
    /// Fails if `size` is invalid (see [`RegionError::Size`]) or the system is out of memory.
    pub fn heap(size: usize) -> Result<Self, RegionError> {
        check_size(size as u64)?;
        // The alignment is the allocator's usual one: for a larger one it would touch all of the
        // memory to zero it.
        let layout = AllocLayout::from_size_align(size + GRANULE, align_of::<u128>())
            .map_err(|_| RegionError::Size { size: size as u64 })?;
        // SAFETY: the size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).ok_or(RegionError::System {
            action: "allocate",
            error: Errno::NOMEM,
        })?;
        // SAFETY: fewer bytes than the granule by which the allocation is larger than the region.
        let base = unsafe { start.add(start.align_offset(GRANULE)) };
        Ok(Self {
            base,
            size,
            backing: Backing::Heap(start, layout),
            owned: Arc::new(Owned::new(size / GRANULE)),
            reading: Apart::default(),
            shadow: Shadow::default(),
        })
    }

    /// Creates zeroed memory whose accesses a model checker sees, see [`Shadow::new`].
    #[cfg(all(loom, test))]
    pub(crate) fn model(pages: usize, layouts: &[crate::layout::Layout]) -> Self {
        let mut region = Self::heap(pages * GRANULE).expect("a valid size");
        region.shadow = Shadow::new(pages, layouts);
        region
    }

    /// Maps memory received from another process, which is not trusted.
    ///
    /// # Errors
    ///
    /// Fails if `fd` is not a memory file of regular pages and of a valid size, cannot be mapped,
    /// or is not sealed against shrinking, growing and further sealing: a sender that could shrink
    /// it could crash this process.
    pub fn from_untrusted_fd(fd: OwnedFd) -> Result<Self, RegionError> {
        let size = Self::inspect(fd.as_fd())?;
        Self::map(fd, size)
    }

    /// Returns the size of memory that [`from_untrusted_fd`](Self::from_untrusted_fd) would accept,
    /// without taking it: closing a descriptor that is not memory can block until its sender acts.
    /// This function never blocks.
    ///
    /// # Errors
    ///
    /// As for `from_untrusted_fd`, except that the memory is not mapped.
    pub fn inspect(fd: BorrowedFd<'_>) -> Result<usize, RegionError> {
        let size = file_size(fd)?;
        let seals = fs::fcntl_get_seals(fd).map_err(|_| RegionError::NotSealed)?;
        if !seals.contains(SEALS) {
            return Err(RegionError::NotSealed);
        }
        Ok(size)
    }

    fn map(fd: OwnedFd, size: usize) -> Result<Self, RegionError> {
        let stat = fs::fstat(&fd).map_err(system("inspect"))?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing that Rust
        // knows of. Changes of its contents are sound because no references to them are ever
        // created.
        let base = unsafe { mm::mmap(ptr::null_mut(), size, access, MapFlags::SHARED, &fd, 0) };
        let base = base.map_err(system("map"))?.cast::<u8>();
        let base = NonNull::new(base).ok_or(RegionError::System {
            action: "map",
            error: Errno::NOMEM,
        })?;
        Ok(Self {
            base,
            size,
            owned: owned::of_file(stat.st_dev, stat.st_ino, size / GRANULE),
            backing: Backing::Mapping(fd),
            reading: Apart::default(),
            shadow: Shadow::default(),
        })
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the descriptor to send to the other side; `None` if the memory cannot be shared
    /// between processes.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.backing {
            Backing::Mapping(fd) => Some(fd.as_fd()),
            Backing::Heap(..) => None,
        }
    }

    /// Returns the record of the chunks that this process is writing.
    pub(crate) fn owned(&self) -> &Owned {
        &self.owned
    }

    /// Prevents chunks from being freed during scraping, and scraping while one is freed.
    pub(crate) fn lock_reading(&self) -> Option<MutexGuard<'_, ()>> {
        let locked = || self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        (!cfg!(any(loom, tsan))).then(locked)
    }

    /// Returns the aligned 32-bit word at `offset`.
    ///
    /// # Panics
    ///
    /// Panics if it is misaligned or outside the region. Callers compute offsets from private
    /// tables only.
    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset < self.size && self.size - offset >= 4);
        // SAFETY: in bounds and aligned by the assertion, mapped for as long as `self` lives, and
        // accessed by this process through atomics only.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// Returns the aligned 16-bit word at `offset`; panics as [`Region::word`] does.
    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn half_word(&self, offset: usize) -> &AtomicU16 {
        assert!(offset.is_multiple_of(2) && offset < self.size && self.size - offset >= 2);
        // SAFETY: as in `word`.
        unsafe { AtomicU16::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// Returns the word of a model of concurrency.
    #[cfg(loom)]
    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        self.shadow.word(offset)
    }

    /// Returns the half word of a model of concurrency.
    #[cfg(loom)]
    pub(crate) fn half_word(&self, offset: usize) -> &AtomicU16 {
        self.shadow.half_word(offset)
    }

    /// Notes that the owner of a chunk is about to write payload.
    #[inline]
    pub(crate) fn note_write(&self, offset: usize, length: usize) {
        self.shadow.note_write(offset, length);
    }

    /// Returns the byte at `offset`, loaded once; panics if it is outside the region.
    #[inline]
    pub(crate) fn byte(&self, offset: usize) -> u8 {
        assert!(offset < self.size);
        self.shadow.note_read(offset, 1);
        // SAFETY: in bounds by the assertion; otherwise as in `word`.
        unsafe { AtomicU8::from_ptr(self.base.as_ptr().add(offset)) }.load(Ordering::Relaxed)
    }

    /// Copies the bytes at `offset` into `out`, each loaded exactly once.
    ///
    /// # Panics
    ///
    /// Panics if the range is not inside the region.
    pub(crate) fn copy_out(&self, offset: usize, out: &mut [u8]) {
        assert!(offset <= self.size && self.size - offset >= out.len());
        self.shadow.note_read(offset, out.len());
        // SAFETY: in bounds by the assertion, and mapped for as long as `self` lives; `out` is not
        // in the region, as nothing refers to that.
        unsafe { load_once(self.base.as_ptr().add(offset), out) };
    }

    /// Returns a copy of `length` bytes from `offset` for tests and diagnosis. Concurrent writes of
    /// another process may be torn.
    ///
    /// # Panics
    ///
    /// Panics if the range is not inside the region.
    ///
    /// # Safety
    ///
    /// No thread of this process may write to these bytes at the same time: no writer may hold a
    /// chunk there.
    pub unsafe fn snapshot(&self, offset: usize, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.copy_out(offset, &mut bytes);
        bytes
    }

    /// Returns the address of the byte at `offset`, for the owner of the chunk there.
    ///
    /// # Panics
    ///
    /// Panics if the `length` bytes from `offset` are not inside the region.
    pub(crate) fn address(&self, offset: usize, length: usize) -> NonNull<u8> {
        assert!(offset <= self.size && self.size - offset >= length);
        // SAFETY: in bounds by the assertion.
        unsafe { self.base.add(offset) }
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = matches!(self.backing, Backing::Mapping(_));
        f.debug_struct("Region")
            .field("size", &self.size)
            .field("shared", &shared)
            .finish()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        match &self.backing {
            Backing::Mapping(_) => {
                // SAFETY: the range is exactly what was mapped, and nothing borrows from a region
                // that is dropped.
                let _ = unsafe { mm::munmap(self.base.as_ptr().cast::<c_void>(), self.size) };
            }
            Backing::Heap(start, layout) => {
                // SAFETY: allocated with this layout in `heap`.
                unsafe { dealloc(start.as_ptr(), *layout) };
            }
        }
    }
}

fn check_size(size: u64) -> Result<usize, RegionError> {
    let valid = size > 0 && size <= MAX_REGION_SIZE as u64 && size.is_multiple_of(GRANULE as u64);
    if valid {
        Ok(size as usize)
    } else {
        Err(RegionError::Size { size })
    }
}

/// Returns the size of a memory file of regular pages.
///
/// It asks for the seals first, which only memory files have. A request to the server or device of
/// another file could block this thread.
fn file_size(fd: BorrowedFd<'_>) -> Result<usize, RegionError> {
    fs::fcntl_get_seals(fd).map_err(|_| RegionError::NotAFile)?;
    let system_of_file = fs::fstatfs(fd).map_err(system("inspect"))?;
    if system_of_file.f_type != TMPFS_MAGIC {
        return Err(RegionError::HugePages);
    }
    let stat = fs::fstat(fd).map_err(system("inspect"))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(RegionError::NotAFile);
    }
    check_size(u64::try_from(stat.st_size).unwrap_or(0))
}

fn system(action: &'static str) -> impl Fn(Errno) -> RegionError {
    move |error| RegionError::System { action, error }
}
