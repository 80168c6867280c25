//! Hand-made arm64 stacks: frames, signed return addresses and tables.

// The test reads registers of x86-64.
#![cfg(target_arch = "x86_64")]

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;

use crate::target::cc;
use ferretto_unwind::{Cache, Frame, Machine, Mode, Process, Registers, StackCopy};

/// Tables of the functions with DWARF register numbers of arm64. The code itself does not matter.
const SOURCE: &str = r#"
__asm__(".text\n"
".globl leaf\n.type leaf,@function\nleaf: .cfi_startproc\n.cfi_return_column 30\n.cfi_def_cfa 31, 0\n.fill 64\n.cfi_endproc\n.size leaf,.-leaf\n"
".globl middle\n.type middle,@function\nmiddle: .cfi_startproc\n.cfi_return_column 30\n.cfi_def_cfa 31, 0\n.fill 16\n"
".cfi_def_cfa 31, 32\n.cfi_offset 29, -32\n.cfi_offset 30, -24\n.cfi_offset 19, -16\n.fill 48\n.cfi_endproc\n.size middle,.-middle\n"
".globl outer\n.type outer,@function\nouter: .cfi_startproc\n.cfi_return_column 30\n.cfi_def_cfa 29, 48\n.cfi_offset 29, -48\n.cfi_offset 30, -40\n.fill 64\n.cfi_endproc\n.size outer,.-outer\n"
".globl start\n.type start,@function\nstart: .cfi_startproc\n.cfi_return_column 30\n.cfi_def_cfa 31, 0\n.cfi_undefined 30\n.fill 64\n.cfi_endproc\n.size start,.-start\n");
"#;

const BASE: u64 = 0x5000_0000;
const SIZE: u64 = 0x4000;
const SP: u64 = 0x7000_0000;
/// A signature of pointer authentication in the upper bits.
const SIGNED: u64 = 0x00b4 << 48;

#[test]
fn perf_049_signed_return_addresses_are_unwound_by_tables_and_frame_pointers() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-shared", "-fPIC", "-nostdlib"];
    let file = cc(folder.path(), "library.so", SOURCE, &flags);
    let mut bytes = fs::read(&file).unwrap();
    bytes[18..20].copy_from_slice(&183_u16.to_le_bytes());
    fs::write(&file, &bytes).unwrap();
    let elf = ferretto_elf::Elf::open(bytes, 0).unwrap();
    let at = |name: &str, offset: u64| {
        let symbol = elf.symbols().iter().find(|symbol| symbol.2 == name);
        BASE + symbol.unwrap().0 + offset
    };

    let stat = fs::metadata(&file).unwrap();
    let (major, minor) = (rustix::fs::major(stat.dev()), rustix::fs::minor(stat.dev()));
    let text = format!(
        "{BASE:x}-{:x} r-xp 00000000 {major:02x}:{minor:02x} {} {}\n",
        BASE + SIZE,
        stat.ino(),
        file.display()
    );
    let (maps, memory) = (folder.path().join("maps"), folder.path().join("memory"));
    fs::write(&maps, text).unwrap();
    fs::write(&memory, "").unwrap();
    let open = |path| File::open(path).unwrap();

    // `leaf` has no frame; `middle` has 32 bytes with the frame record at their beginning, `outer`
    // 48.
    let mut registers = Registers::new(Machine::Aarch64);
    registers.set_pc(at("leaf", 8));
    registers.set(31, SP);
    registers.set(30, at("middle", 32) | SIGNED);
    registers.set(29, SP);
    let words = [
        SP + 32,
        at("outer", 16) | SIGNED,
        7,
        0,
        0,
        at("start", 12) | SIGNED,
        0,
        0,
    ];
    let stack: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    let sample = StackCopy {
        registers: Some(&registers),
        stack: &stack,
        stack_full: false,
        user_chain: &[],
    };
    for mode in [Mode::Dwarf, Mode::FramePointer] {
        let mut process = Process::new(std::process::id(), open(&maps), open(&memory));
        let mut frames = Vec::new();
        let result = process.unwind(&Cache::new(), &sample, mode, &mut frames);
        let found: Vec<_> = frames
            .iter()
            .map(|frame: &Frame| {
                let name = frame.function_name().unwrap_or("?".into());
                (name.to_string(), frame.rel_pc + BASE)
            })
            .collect();
        let expected = [
            ("leaf", at("leaf", 8)),
            // The call is one instruction of four bytes before the return address.
            ("middle", at("middle", 28)),
            ("outer", at("outer", 12)),
            ("start", at("start", 8)),
        ]
        .map(|(name, address)| (name.to_owned(), address));
        assert_eq!(found, expected, "{mode:?}");
        assert_eq!(result, Ok(()));
    }
}
