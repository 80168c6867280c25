//! For which version of the interface a caller was compiled.
//!
//! After version 58 the struct that describes a writer got one more member, and functions that fill
//! it in kept their names. Writing that member for a program that does not know of it would
//! overwrite what is next to the struct on its stack. But the functions that go with the struct did
//! change their names, and headers have all of them in the code they inline: which ones a program
//! or library imports tells what it was compiled with.

use std::ffi::{c_char, c_int, c_void};
use std::slice;
use std::sync::{Mutex, PoisonError};

use ferretto_shm::fork::PerProcess;

/// The assumption about callers that import neither: those that are linked statically, and those
/// that look functions up by name.
const DEFAULT: bool = !cfg!(feature = "v58");

/// Part of the names that modules import after version 58, and up to it.
const AFTER: &[u8] = b"PerfettoPbMsgWriter";
const BEFORE: &[u8] = b"PerfettoStreamWriter";

/// As in `link.h`.
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

/// A verdict on the module at an address, good for as long as no module was removed.
struct Known {
    base: usize,
    removed: u64,
    knows: bool,
}

/// Of each process, as a forked child may find its parent's locked.
static KNOWN: PerProcess<Mutex<Vec<Known>>> = PerProcess::new();

struct Search {
    address: usize,
    knows: bool,
}

/// True if the code at this address was compiled with a writer that says how messages are encoded.
pub(crate) fn knows_encoding(address: usize) -> bool {
    let mut search = Search {
        address,
        knows: DEFAULT,
    };
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
    // SAFETY: `look` uses the pointer with its own type, only during the call.
    unsafe {
        dl_iterate_phdr(look, (&raw mut search).cast());
    }
    search.knows
}

/// Called for every module; ends the search when it is found.
unsafe extern "C" fn look(info: *const ModuleInfo, size: usize, search: *mut c_void) -> c_int {
    if size < size_of::<ModuleInfo>() {
        return 1;
    }
    // SAFETY: the dynamic linker passes a valid description of a module that stays loaded
    // meanwhile, with its headers; `search` is as passed by `knows_encoding`.
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
        search.knows = recall(info, || imported(info, headers).unwrap_or(DEFAULT));
    }
    1
}

/// The verdict on a module, worked out once.
fn recall(info: &ModuleInfo, work_out: impl FnOnce() -> bool) -> bool {
    let known = KNOWN.get_or_init(Mutex::default);
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    known.retain(|known| known.removed == info.removed);
    if let Some(known) = known.iter().find(|known| known.base == info.base) {
        return known.knows;
    }
    let knows = work_out();
    known.push(Known {
        base: info.base,
        removed: info.removed,
        knows,
    });
    knows
}

/// Returns the version that a module's names imply; `None` if they imply none.
///
/// # Safety
///
/// `headers` are those of a module that is loaded.
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
        // Not every dynamic linker puts the address in place.
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
