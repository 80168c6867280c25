//! Hand-made arm64 stacks: frames, signed return addresses and tables.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use crate::target::cc;
use ferretto_unwind::{Cache, Frame, Machine, Mode, Process, Registers, StackCopy};

/// Tables of the functions with DWARF register numbers of arm64. The code itself does not matter.
const SOURCE: &str = r#"
__asm__(".text\n"
".globl leaf\n.type leaf,@function\nleaf: .cfi_startproc\n.cfi_return_column 30\n.cfi_def_cfa 31, 0\n.fill 64\n.cfi_endproc\n.size leaf,.-leaf\n"
".globl middle\n.type middle,@function\nmiddle: .cfi_startproc\n.cfi_return_column 30\n.cfi_def_cfa 31, 0\n.fill 4\n"
// The directive for the state of the signature, which assemblers for other machines do not know.
".cfi_escape 0x2d\n.fill 12\n"
".cfi_def_cfa 31, 32\n.cfi_offset 29, -32\n.cfi_offset 30, -24\n.cfi_offset 19, -16\n.fill 48\n.cfi_endproc\n.size middle,.-middle\n"
".globl outer\n.type outer,@function\nouter: .cfi_startproc\n.cfi_return_column 30\n.cfi_def_cfa 29, 48\n.cfi_offset 29, -48\n.cfi_offset 30, -40\n.fill 64\n.cfi_endproc\n.size outer,.-outer\n"
".globl start\n.type start,@function\nstart: .cfi_startproc\n.cfi_return_column 30\n.cfi_def_cfa 31, 0\n.cfi_undefined 30\n.fill 64\n.cfi_endproc\n.size start,.-start\n");
"#;

const BASE: u64 = 0x5000_0000;
const SIZE: u64 = 0x4000;
const SP: u64 = 0x7000_0000;
/// A signature of pointer authentication in the upper bits, for addresses of 39 bits.
const SIGNED: u64 = 0x00b4 << 48 | 0x155 << 39;

/// The address of the code that a signal handler returns to.
const RESTORER: u64 = 0x6000_0100;

/// A process of a file with the functions, and code without a table.
struct World {
    folder: tempfile::TempDir,
    elf: ferretto_elf::Elf,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let flags = ["-shared", "-fPIC", "-nostdlib"];
        let file = cc(folder.path(), "library.so", SOURCE, &flags);
        let mut bytes = fs::read(&file).unwrap();
        bytes[18..20].copy_from_slice(&183_u16.to_le_bytes());
        fs::write(&file, &bytes).unwrap();
        let elf = ferretto_elf::Elf::open(bytes, 0).unwrap();
        let stat = fs::metadata(&file).unwrap();
        let (major, minor) = (rustix::fs::major(stat.dev()), rustix::fs::minor(stat.dev()));
        let text = format!(
            "{BASE:x}-{:x} r-xp 00000000 {major:02x}:{minor:02x} {} {}\n\
             {:x}-{:x} r-xp 00000000 00:00 0\n",
            BASE + SIZE,
            stat.ino(),
            file.display(),
            RESTORER - 0x100,
            RESTORER + 0xf00,
        );
        fs::write(folder.path().join("maps"), text).unwrap();
        // mov x8, #139; svc #0
        let code = [0xd280_1168_u32, 0xd400_0001]
            .map(u32::to_le_bytes)
            .concat();
        let memory = File::create(folder.path().join("memory")).unwrap();
        memory.set_len(RESTORER + 0x1000).unwrap();
        memory.write_all_at(&code, RESTORER).unwrap();
        Self { folder, elf }
    }

    fn at(&self, name: &str, offset: u64) -> u64 {
        let mut symbols = self.elf.symbols().iter();
        BASE + symbols.find(|symbol| symbol.2 == name).unwrap().0 + offset
    }

    /// Unwinds a stack and returns the names and addresses of the frames.
    fn unwind(&self, registers: &Registers, words: &[u64], mode: Mode) -> Vec<(String, u64)> {
        let open = |name| File::open(self.folder.path().join(name)).unwrap();
        let mut process = Process::new(std::process::id(), open("maps"), open("memory"));
        let stack: Vec<u8> = words.iter().copied().flat_map(u64::to_le_bytes).collect();
        let sample = StackCopy {
            registers: Some(registers),
            stack: &stack,
            stack_full: false,
            user_chain: &[],
        };
        let mut frames = Vec::new();
        let result = process.unwind(&Cache::new(), &sample, mode, &mut frames);
        assert_eq!(result, Ok(()), "{mode:?} {frames:?}");
        let found = frames.iter().map(|frame: &Frame| {
            let name = frame.function_name().unwrap_or("?".into());
            (name.to_string(), frame.rel_pc + BASE)
        });
        found.collect()
    }
}

/// Returns registers of `leaf`, which has no frame and was called by `caller`.
fn leaf(world: &World, caller: u64) -> Registers {
    let mut registers = Registers::new(Machine::Aarch64);
    registers.set_pc(world.at("leaf", 8));
    registers.set(31, SP);
    registers.set(30, caller);
    registers.set(29, SP);
    registers
}

#[test]
fn perf_049_signed_return_addresses_are_unwound_by_tables_and_frame_pointers() {
    let world = World::new();
    let at = |name, offset| world.at(name, offset);
    let registers = leaf(&world, at("middle", 32) | SIGNED);
    // `middle` has 32 bytes with the frame record at their beginning, `outer` 48.
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
    for mode in [Mode::Dwarf, Mode::FramePointer] {
        let expected = [
            ("leaf", at("leaf", 8)),
            // The call is one instruction of four bytes before the return address.
            ("middle", at("middle", 28)),
            ("outer", at("outer", 12)),
            ("start", at("start", 8)),
        ]
        .map(|(name, address)| (name.to_owned(), address));
        assert_eq!(world.unwind(&registers, &words, mode), expected, "{mode:?}");
    }
}

#[test]
fn perf_034_a_signal_frame_of_the_kernel_has_the_interrupted_registers() {
    // `siginfo_t`, and `ucontext_t` up to its registers.
    const BEFORE: usize = (128 + 184) / 8;
    let world = World::new();
    let at = |name, offset| world.at(name, offset);
    let registers = leaf(&world, RESTORER);
    let mut words = vec![0xbad; BEFORE - 1];
    // The address of a fault.
    words.push(0);
    // x0 to x30, sp, pc.
    let interrupted = SP + 8 * (BEFORE as u64 + 33);
    words.extend([1; 29]);
    words.extend([interrupted, 2, interrupted, at("middle", 32)]);
    words.extend([interrupted + 32, at("outer", 16) | SIGNED, 7, 0]);
    words.extend([0, at("start", 12) | SIGNED, 0, 0]);
    for mode in [Mode::Dwarf, Mode::FramePointer] {
        let found = world.unwind(&registers, &words, mode);
        let expected = [
            ("leaf", at("leaf", 8)),
            ("?", found[1].1),
            // The interrupted instruction.
            ("middle", at("middle", 32)),
            ("outer", at("outer", 12)),
            ("start", at("start", 8)),
        ]
        .map(|(name, address)| (name.to_owned(), address));
        assert_eq!(found, expected, "{mode:?}");
    }
}
