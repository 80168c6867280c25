//! Detection of the interface version for which a caller was compiled.
//!
//! After version 58, the writer struct has an additional member, but functions that fill it in kept
//! their names. Writing that member for a program of version 58 would overwrite data next to the
//! struct on its stack. Other functions of the struct were renamed, and inline code in the headers
//! calls all of them: so the imports of a program or library show its version.

use std::ffi::{c_char, c_int, c_void};
use std::slice;
use std::sync::{Mutex, PoisonError};

use ferretto_shm::fork::PerProcess;

/// The default for callers that import neither: statically linked ones, and those that look up
/// functions by name.
const DEFAULT: bool = !cfg!(feature = "v58");

/// Parts of the names that modules import after version 58, and up to it.
const AFTER: &[u8] = b"PerfettoPbMsgWriter";
const BEFORE: &[u8] = b"PerfettoStreamWriter";

/// A part of `dl_phdr_info` of `link.h`.
#[repr(C)]
struct ModuleInfo {
    base: usize,
    name: *const c_char,
    headers: *const ProgramHeader,
    header_count: u16,
    added: u64,
    removed: u64,
}

/// As in `elf.h`.
#[repr(C)]
struct ProgramHeader {
    kind: u32,
    flags: u32,
    offset: u64,
    address: usize,
    physical: usize,
    file_size: usize,
    memory_size: usize,
    alignment: u64,
}

/// As in `elf.h`.
#[repr(C)]
struct DynamicEntry {
    tag: isize,
    value: usize,
}

const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const STRING_TABLE: isize = 5;
const STRING_TABLE_SIZE: isize = 10;

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
unsafe extern "C" {
    fn dl_iterate_phdr(
        callback: unsafe extern "C" fn(*const ModuleInfo, usize, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
}

/// The cached result for the module at an address, valid as long as no module was removed.
struct Verdict {
    base: usize,
    removed: u64,
    knows: bool,
}

/// Separate for each process, because a forked child may inherit a locked mutex.
static VERDICTS: PerProcess<Mutex<Vec<Verdict>>> = PerProcess::new();

struct Search {
    address: usize,
    knows: bool,
}

/// Returns true if the code at this address was compiled with the writer struct that has the member
/// `encoding`.
pub(crate) fn has_encoding(address: usize) -> bool {
    let mut search = Search {
        address,
        knows: DEFAULT,
    };
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
    // SAFETY: `look` uses the pointer with its own type, only during the call.
    unsafe {
        dl_iterate_phdr(visit_module, (&raw mut search).cast());
    }
    search.knows
}

/// Called for every module; ends the search at the module of the address.
unsafe extern "C" fn visit_module(
    info: *const ModuleInfo,
    size: usize,
    search: *mut c_void,
) -> c_int {
    if size < size_of::<ModuleInfo>() {
        return 1;
    }
    // SAFETY: the dynamic linker passes a valid description of a module, which stays loaded
    // meanwhile, with its headers; `search` is the pointer from `has_encoding`.
    unsafe {
        let (info, search) = (&*info, &mut *search.cast::<Search>());
        let headers = slice::from_raw_parts(info.headers, info.header_count.into());
        let is_inside = headers.iter().any(|header| {
            let start = info.base.wrapping_add(header.address);
            header.kind == LOAD && search.address.wrapping_sub(start) < header.memory_size
        });
        if !is_inside {
            return 0;
        }
        search.knows = cached(info, || imported(info, headers).unwrap_or(DEFAULT));
    }
    1
}

/// Returns the cached result for a module, computing it once.
fn cached(info: &ModuleInfo, compute: impl FnOnce() -> bool) -> bool {
    let known = VERDICTS.get_or_init(Mutex::default);
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    known.retain(|known| known.removed == info.removed);
    if let Some(known) = known.iter().find(|known| known.base == info.base) {
        return known.knows;
    }
    let knows = compute();
    known.push(Verdict {
        base: info.base,
        removed: info.removed,
        knows,
    });
    knows
}

/// Returns true if a module imports names after version 58, false for names up to it, and `None`
/// for neither.
///
/// # Safety
///
/// `headers` are those of a loaded module.
unsafe fn imported(info: &ModuleInfo, headers: &[ProgramHeader]) -> Option<bool> {
    let dynamic = headers.iter().find(|header| header.kind == DYNAMIC)?;
    let mut entry = info.base.wrapping_add(dynamic.address) as *const DynamicEntry;
    let (mut names, mut size) = (0, 0);
    // SAFETY: the dynamic section of a loaded module is readable and ends with an entry of zeros.
    unsafe {
        while (*entry).tag != 0 {
            match (*entry).tag {
                STRING_TABLE => names = (*entry).value,
                STRING_TABLE_SIZE => size = (*entry).value,
                _ => {}
            }
            entry = entry.add(1);
        }
    }
    if names == 0 {
        return None;
    }
    if names < info.base {
        // Some dynamic linkers do not relocate the address.
        names = names.wrapping_add(info.base);
    }
    // SAFETY: the string table of a loaded module is readable.
    let names = unsafe { slice::from_raw_parts(names as *const u8, size) };
    let mentions = |name: &[u8]| names.windows(name.len()).any(|window| window == name);
    match (mentions(AFTER), mentions(BEFORE)) {
        (true, false) => Some(true),
        (false, true) => Some(false),
        _ => None,
    }
}
