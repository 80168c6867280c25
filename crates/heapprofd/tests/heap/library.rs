//! The preload library as a file.

use ferretto_elf::Elf;

/// Functions of the C library that the library may use: those of glibc 2.17 and of all later
/// versions. The linker finds each in `libc.so.6` or `libdl.so.2`.
const KNOWN: &str = "
    __cxa_atexit __errno_location __register_atfork abort bcmp clock_gettime close connect dlsym
    fcntl getauxval geteuid getpid getrlimit getsockopt memcpy memmove memset mmap munmap nanosleep
    open prctl process_vm_readv read recv recvmsg sched_yield send sendmsg setsockopt socket strlen
    syscall";

fn number(bytes: &[u8]) -> usize {
    let mut value = [0; 8];
    value[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(value) as usize
}

/// Returns the names of symbols that the library needs from others. The linker does not look for
/// weak ones.
fn needed() -> Vec<String> {
    let elf = Elf::open(ferretto_heap::PRELOAD.to_vec(), 0).unwrap();
    let section = |name| {
        let header = elf.section_header(name).unwrap();
        elf.section_data(header, 1 << 20).unwrap()
    };
    // A version is that of the C library where the library was built, so old ones would lack it.
    assert!(elf.section_header(".gnu.version_r").is_none());
    let (symbols, names) = (section(".dynsym"), section(".dynstr"));
    let undefined = symbols.chunks_exact(24).skip(1).filter(|symbol| {
        let (is_undefined, is_weak) = (number(&symbol[6..8]) == 0, symbol[4] >> 4 == 2);
        is_undefined && !is_weak
    });
    let name = |symbol: &[u8]| {
        let name = &names[number(&symbol[..4])..];
        let end = name.iter().position(|&byte| byte == 0).unwrap();
        String::from_utf8(name[..end].to_vec()).unwrap()
    };
    undefined.map(name).collect()
}

#[cfg(target_env = "gnu")]
#[test]
fn the_library_needs_only_functions_of_old_c_libraries() {
    let needed = needed();
    assert!(needed.len() > 20, "{needed:?}");
    for name in needed {
        let mut known = KNOWN.split_ascii_whitespace();
        assert!(known.any(|known| known == name), "{name}");
    }
}
