//! Sizes, layouts and descriptors.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use ferretto_shm::{
    BufferSizes, ChunkFlags, ChunkHeader, Layout, PageSize, Region, RegionError, ServiceRegion,
};
use rustix::fs::{MemfdFlags, SealFlags};

#[test]
fn shm_001_chunks_are_where_the_abi_says() {
    let table: [(usize, [usize; 5]); 5] = [
        (4096, [4088, 2044, 1020, 584, 292]),
        (8192, [8184, 4092, 2044, 1168, 584]),
        (16384, [16376, 8188, 4092, 2336, 1168]),
        (32768, [32760, 16380, 8188, 4680, 2340]),
        (65536, [65528, 32764, 16380, 9360, 4680]),
    ];
    for (bytes, sizes) in table {
        let page = PageSize::new(bytes).unwrap();
        for (layout, size) in Layout::ALL.into_iter().zip(sizes) {
            assert_eq!(layout.chunk_size(page), size);
            for index in 0..layout.chunks() {
                assert_eq!(
                    layout.chunk_offset(page, index),
                    Some(8 + index as usize * size)
                );
            }
            assert_eq!(layout.chunk_offset(page, layout.chunks()), None);
        }
    }
    let counts = Layout::ALL.map(Layout::chunks);
    assert_eq!(counts, [1, 2, 4, 7, 14]);
}

#[test]
fn shm_001_page_sizes_are_powers_of_two_from_4_to_64_kib() {
    for bytes in [0, 1, 2048, 4095, 12288, 131072] {
        assert_eq!(PageSize::new(bytes), None, "{bytes}");
    }
}

#[test]
fn shm_002_reserved_layouts_hold_nothing() {
    for value in [0u32, 6, 7] {
        assert_eq!(Layout::of_word(value << 28 | 0x0fff_ffff), None);
    }
}

#[test]
fn shm_007_count_and_flags_share_a_word() {
    let continued = ChunkHeader {
        count: 1,
        flags: ChunkFlags::FIRST_CONTINUES,
        ..Default::default()
    };
    assert_eq!(continued.packets_word(), 0x0401);
    let patched = ChunkHeader {
        count: 0,
        flags: ChunkFlags::NEEDS_PATCHING,
        ..Default::default()
    };
    assert_eq!(patched.packets_word(), 0x1000);
    assert_eq!(ChunkFlags::from_bits(0xff).bits(), 7);
}

#[test]
fn shm_009_sizes_are_chosen_as_in_every_service() {
    const KIB: u64 = 1024;
    // The columns are page and total requested, page and total resolved, all in KiB.
    for (page, total, given_page, given_total) in [
        (0, 0, 4, 256),
        (16, 16, 16, 16),
        (4, 16, 4, 16),
        (8, 32, 8, 32),
        (3, 0, 4, 256),
        (2, 64, 4, 256),
        (4096, 4096000, 32, 32768),
        (0, 18, 4, 256),
        (16, 18, 4, 256),
        (8, 20, 4, 256),
        (28, 0, 4, 256),
        (u64::MAX / KIB, u64::MAX / KIB, 32, 32768),
    ] {
        let sizes = BufferSizes::resolve(page * KIB, total * KIB);
        let given = (sizes.page.bytes() as u64 / KIB, sizes.total as u64 / KIB);
        assert_eq!(given, (given_page, given_total), "for {page}/{total}");
    }
}

#[test]
fn a_created_region_can_be_mapped_by_the_other_side() {
    let region = Region::create(16 * 4096).unwrap();
    let fd = region.fd().unwrap().try_clone_to_owned().unwrap();
    let seals = rustix::fs::fcntl_get_seals(&fd).unwrap();
    assert!(seals.contains(SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL));
    let other = Region::from_untrusted_fd(fd).unwrap();
    assert_eq!(other.size(), region.size());
    let page = PageSize::DEFAULT;
    assert_eq!(
        ServiceRegion::new(Arc::new(other), page)
            .unwrap()
            .page_count(),
        16
    );
}

#[test]
fn shm_011_unsealed_memory_is_refused() {
    let fd = rustix::fs::memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&fd, 4096).unwrap();
    for seals in [
        SealFlags::empty(),
        SealFlags::SHRINK,
        SealFlags::SHRINK | SealFlags::GROW,
    ] {
        rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
        let result = Region::from_untrusted_fd(fd.try_clone().unwrap());
        assert!(matches!(result, Err(RegionError::NotSealed)));
    }
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SEAL).unwrap();
    assert!(Region::from_untrusted_fd(fd).is_ok());
}

#[test]
fn shm_058_descriptors_that_are_no_memory_are_refused() {
    let empty = rustix::fs::memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
    assert!(matches!(
        Region::from_untrusted_fd(empty),
        Err(RegionError::Size { size: 0 })
    ));
    let (pipe, _write) = rustix::pipe::pipe().unwrap();
    assert!(matches!(
        Region::from_untrusted_fd(pipe),
        Err(RegionError::NotAFile)
    ));
    let directory = OwnedFd::from(std::fs::File::open("/").unwrap());
    assert!(matches!(
        Region::from_untrusted_fd(directory),
        Err(RegionError::NotAFile)
    ));
    let huge = rustix::fs::memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(huge.as_fd(), 1 << 40).unwrap();
    assert!(matches!(
        Region::from_untrusted_fd(huge),
        Err(RegionError::Size { .. })
    ));
    let odd = rustix::fs::memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&odd, 5000).unwrap();
    assert!(matches!(
        Region::from_untrusted_fd(odd),
        Err(RegionError::Size { size: 5000 })
    ));
}

#[test]
fn memory_of_huge_pages_is_refused() {
    let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
    let fd = match rustix::fs::memfd_create("test", flags) {
        Ok(fd) => fd,
        Err(error) => return println!("skipped: no huge pages: {error}"),
    };
    // Huge pages are only allocated when they are touched.
    rustix::fs::ftruncate(&fd, 2 << 20).unwrap();
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
        .unwrap();
    assert!(matches!(
        Region::from_untrusted_fd(fd),
        Err(RegionError::HugePages)
    ));
    // A file on a disk.
    let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    assert!(matches!(
        Region::from_untrusted_fd(file.into()),
        Err(RegionError::NotAFile)
    ));
}

#[test]
fn shm_055_chunks_inside_commits_are_bounded() {
    for length in [0, 1, 7, 65536, 1 << 20] {
        assert_eq!(ChunkHeader::split(&vec![0; length]), None, "{length}");
    }
    let chunk = [5, 0, 0, 0, 1, 0, 2, 0x14, 0xaa];
    let (header, payload) = ChunkHeader::split(&chunk).unwrap();
    assert_eq!((header.chunk_id, header.writer_id, header.count), (5, 1, 2));
    assert_eq!(
        header.flags,
        ChunkFlags::FIRST_CONTINUES.with(ChunkFlags::NEEDS_PATCHING)
    );
    assert_eq!(payload, [0xaa]);
    assert!(ChunkHeader::split(&[0; 8]).is_some() && ChunkHeader::split(&[0; 65535]).is_some());
}
