//! The files that JIT compilers write about their functions: `jitdump` files, and
//! `/tmp/perf-PID.map`.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use ferretto_unwind::{Cache, Machine, Mode, Process, Registers, StackCopy};

/// The address of the imaginary code.
const CODE: u64 = 0x7000_0000;
const SIZE: u64 = 0x1_0000;

/// Names functions by a file that is a dump, or by one that is a map: the first byte says which.
pub fn jit(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let map = format!("/tmp/perf-{}.map", std::process::id());
    let dump = folder.path().join("jit-1.dump");
    let is_dump = kind & 1 == 0;
    let file = if is_dump {
        dump.as_path()
    } else {
        Path::new(&map)
    };
    let named = name(folder.path(), file, data);
    let _ = fs::remove_file(map);
    named.expect("files");
}

fn name(folder: &Path, file: &Path, data: &[u8]) -> std::io::Result<()> {
    fs::write(file, data)?;
    let stat = fs::metadata(file)?;
    let (device, inode, name) = (stat.dev(), stat.ino(), file.display());
    let (major, minor) = (device >> 8 & 0xfff, device & 0xff);
    let maps = folder.join("maps");
    let text = format!(
        "{CODE:x}-{:x} rwxp 00000000 00:00 0 \n80000000-80001000 r-xp 00000000 {major:02x}:{minor:02x} {inode} {name}\n",
        CODE + SIZE,
    );
    fs::write(&maps, text)?;
    let memory = folder.join("memory");
    fs::write(&memory, b"")?;
    let mut process = Process::new(std::process::id(), File::open(maps)?, File::open(memory)?);
    let mut registers = Registers::new(Machine::X86_64);
    registers.set_pc(CODE);
    let chain: Vec<u64> = (0..32).map(|index| CODE + index * 0x101).collect();
    let sample = StackCopy {
        registers: Some(&registers),
        stack: &[],
        stack_full: true,
        user_chain: &chain,
    };
    let mut frames = Vec::new();
    let _ = process.unwind(&Cache::new(), &sample, Mode::FramePointer, &mut frames);
    for name in frames.iter().filter_map(|frame| frame.function_name()) {
        // Each byte that is no text may take three.
        assert!(!name.is_empty() && name.len() <= 3 * 1024, "{}", name.len());
    }
    Ok(())
}
