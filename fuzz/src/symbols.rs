//! Names of functions: of the kernel's list, and of ELF files with debug information.

use ferretto_elf::Elf;
use ferretto_symbols::{KernelSymbols, user};

/// Addresses of a file that are looked up.
const ADDRESSES: usize = 64;

/// A list of the kernel's symbols, or what might be one: all that is found has a name, as the list
/// has it.
pub fn kallsyms(data: &[u8]) {
    let Ok(symbols) = KernelSymbols::parse(data) else {
        return;
    };
    let addresses = data.split(|byte| *byte == b'\n').filter_map(|line| {
        u64::from_str_radix(std::str::from_utf8(line.get(..16)?).ok()?, 16).ok()
    });
    for address in addresses {
        let Some(found) = symbols.find(address) else {
            continue;
        };
        assert!(found.address() <= address);
        assert!((found.index() as usize) < symbols.len());
        assert!(!found.name().is_empty());
        let _ = found.module();
    }
    assert_eq!(symbols.lookup(0), None);
}

/// A program, or what might be one.
pub fn elf_symbols(data: &[u8]) {
    let Ok(elf) = Elf::open(data.to_vec(), 0) else {
        return;
    };
    let mut addresses: Vec<u64> = vec![0, 0x1000, u64::MAX];
    for (address, size, _) in elf.symbols().iter().take(ADDRESSES) {
        addresses.extend([address, address.wrapping_add(size / 2)]);
    }
    let Ok(frames) = user::frames(data.to_vec(), &addresses) else {
        return;
    };
    assert_eq!(frames.len(), addresses.len());
    for frame in frames.iter().flatten() {
        // Each byte that is no text may take three.
        assert!(frame.function.len() <= 3 * 4096, "{}", frame.function.len());
    }
}
