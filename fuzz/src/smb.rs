//! Shared memory as a hostile producer may leave it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use ferretto_shm::{PageSize, Region, ServiceRegion};

const SIZE: usize = 16384;

/// Reads every chunk of a region filled from the input, in all ways there are.
pub fn smb_pages(data: &[u8]) {
    let Ok(region) = Region::create(SIZE) else {
        return;
    };
    let Some(fd) = region.fd().and_then(|fd| fd.try_clone_to_owned().ok()) else {
        return;
    };
    // The input is put at the start of each page: what matters is there.
    let file = File::from(fd);
    for page in 0..4 {
        let part = data.get(page * 64..).unwrap_or_default();
        let part = part.get(..4096).unwrap_or(part);
        file.write_all_at(part, page as u64 * 4096)
            .expect("the region can be written");
    }
    let region = Arc::new(region);
    let mut payload = Vec::new();
    for size in [4096, 8192, 16384, 32768] {
        let Some(size) = PageSize::new(size) else {
            continue;
        };
        let Some(service) = ServiceRegion::new(region.clone(), size) else {
            continue;
        };
        service.for_each_uncommitted(|chunk| {
            payload.clear();
            chunk.copy_payload(&mut payload);
            assert!(payload.len() + 8 <= chunk.size() && chunk.size() <= size.bytes());
        });
        for page in 0..service.page_count() + 1 {
            for index in 0..16 {
                if let Some(chunk) = service.try_read(page, index) {
                    payload.clear();
                    chunk.copy_payload(&mut payload);
                    assert!(payload.len() + 8 <= chunk.size() && chunk.size() <= size.bytes());
                }
            }
        }
    }
}
