//! The vDSO, the kernel's library in every process.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use ferretto_elf::Elf;

use super::image::{Image, Reason};

/// The largest plausible size.
const MAX_BYTES: u64 = 1 << 20;

/// Returns true if a mapping of this name is the vDSO.
pub(super) fn is_vdso(path: &str) -> bool {
    matches!(path, "[vdso]" | "/[vdso]")
}

/// Returns this kernel's vDSO if it is the recorded one.
pub(super) fn image(build_id: &[u8]) -> Result<Image, Reason> {
    let bytes = read().ok_or_else(|| Reason::Unusable("this process has no vDSO".to_owned()))?;
    let elf = Elf::open(bytes, 0).map_err(|error| Reason::Unusable(error.to_string()))?;
    match elf.build_id() {
        Some(id) if id == build_id || build_id.is_empty() => {
            Ok(Image::new(PathBuf::from("[vdso]"), elf))
        }
        Some(other) => Err(Reason::OtherBuildId(other.into())),
        None => Err(Reason::NoBuildId),
    }
}

/// Reads the vDSO of this process.
fn read() -> Option<Vec<u8>> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with(" [vdso]"))?;
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    let size = end.checked_sub(start).filter(|&size| size <= MAX_BYTES)?;
    let mut bytes = vec![0; size as usize];
    let memory = File::open("/proc/self/mem").ok()?;
    memory.read_exact_at(&mut bytes, start).ok()?;
    Some(bytes)
}
