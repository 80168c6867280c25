//! ELF files and the unwind tables in them.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use ferretto_elf::Elf;
use ferretto_unwind::{Cache, Machine, Mode, Process, Registers, StackCopy};

/// An ELF file.
pub fn elf_file(data: &[u8]) {
    let Ok(elf) = Elf::open(data.to_vec(), 0) else {
        return;
    };
    let _ = (
        elf.build_id(),
        elf.soname(),
        elf.load_bias(),
        elf.debug_link(),
    );
    for section in elf.sections() {
        if let Ok(bytes) = elf.section_data(section, 1 << 20) {
            assert!(bytes.len() <= 1 << 20);
        }
    }
    let symbols = elf.symbols();
    for (address, size, name) in symbols.iter().take(100) {
        // Others may begin at the same address or lie inside, but something is there.
        if size > 0 {
            assert!(symbols.lookup(address).is_some(), "{name}");
        }
    }
}

/// The address of the file in the imaginary process.
const BASE: u64 = 0x5000_0000;
const SIZE: u64 = 0x4000;
const STACK: u64 = 0x7000_0000;

/// A file whose tables lead through a stack.
pub fn unwind_tables(data: &[u8]) {
    // Without headers that are good no table is looked at.
    if Elf::open(data.to_vec(), 0).is_err() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut process = process_of(folder.path(), data).expect("files");
    let cache = Cache::new();
    let stack: Vec<u8> = (0..256_u64)
        .flat_map(|index| match index % 3 {
            0 => (STACK + index * 8 + 64).to_le_bytes(),
            _ => (BASE + (index * 97) % SIZE).to_le_bytes(),
        })
        .collect();
    for pc in (0x100..0x400).step_by(0x47) {
        let mut registers = Registers::new(Machine::X86_64);
        (0..16).for_each(|number| registers.set(number, STACK + 16 * number as u64));
        registers.set(7, STACK);
        registers.set_pc(BASE + pc);
        let sample = StackCopy {
            registers: Some(&registers),
            stack: &stack,
            stack_full: pc % 2 == 0,
            user_chain: &[BASE + pc, BASE + 97, BASE + 194],
        };
        for mode in [Mode::Dwarf, Mode::FramePointer] {
            let mut frames = Vec::new();
            let result = process.unwind(&cache, &sample, mode, &mut frames);
            assert!(!frames.is_empty() && frames.len() <= Process::MAX_FRAMES + 1);
            assert_eq!(
                result.is_err(),
                frames
                    .last()
                    .and_then(|frame| frame.function_name())
                    .is_some_and(|name| name.starts_with("ERROR ")),
            );
        }
    }
}

fn process_of(folder: &Path, data: &[u8]) -> std::io::Result<Process> {
    let program = folder.join("program");
    fs::write(&program, data)?;
    let stat = fs::metadata(&program)?;
    let device = stat.dev();
    let (major, minor) = (device >> 8 & 0xfff, device & 0xff);
    let maps = folder.join("maps");
    let text = format!(
        "{BASE:x}-{:x} r-xp 00000000 {major:02x}:{minor:02x} {} {}\n",
        BASE + SIZE,
        stat.ino(),
        program.display()
    );
    fs::write(&maps, text)?;
    let memory = folder.join("memory");
    // The bytes of the file are those in memory, which counts where devices have other numbers.
    fs::write(&memory, b"")?;
    Ok(Process::new(
        std::process::id(),
        File::open(maps)?,
        File::open(memory)?,
    ))
}
