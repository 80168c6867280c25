//! Instructions of a function, from the program `objdump`.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use ferretto_elf::{Elf, open_regular};

/// The longest time that the program may take.
const LIMIT: Duration = Duration::from_secs(10);
/// The largest output that is read.
const MAX_OUTPUT: u64 = 16 << 20;

/// A reason why there are no instructions.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unavailable {
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error("it is not the recorded file")]
    Other,
    #[error("another user may change it, so that it is not disassembled")]
    Untrusted,
    #[error("objdump is not installed; it is in the package binutils")]
    NotInstalled,
    #[error("objdump took too long")]
    Slow,
    #[error("objdump found no instructions")]
    Nothing,
}

/// An instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) address: u64,
    pub(super) text: String,
}

/// Disassembles these addresses of a file, if it has the build id.
///
/// The trace names the file, and `objdump` is not made for hostile files: only those of root and
/// of the own user are read.
pub(super) fn disassemble(
    path: &Path,
    build_id: &[u8],
    range: Range<u64>,
) -> Result<Vec<Instruction>, Unavailable> {
    let file = open_regular(path)?;
    let meta = file.metadata()?;
    let own = rustix::process::geteuid().as_raw();
    if ![0, own].contains(&meta.uid()) || meta.mode() & 0o002 != 0 {
        return Err(Unavailable::Untrusted);
    }
    let elf = Elf::open(file.try_clone()?, 0).map_err(|_| Unavailable::Other)?;
    if elf.build_id() != Some(build_id) {
        return Err(Unavailable::Other);
    }
    let output = objdump(file, range)?;
    let all: Vec<Instruction> = output.lines().filter_map(instruction).collect();
    if all.is_empty() {
        return Err(Unavailable::Nothing);
    }
    Ok(all)
}

/// Runs the program on an open file, so that it reads the file whose build id was compared.
fn objdump(file: File, range: Range<u64>) -> Result<String, Unavailable> {
    let mut command = Command::new("objdump");
    command
        .args(["-d", "-w", "-C", "--no-show-raw-insn"])
        .arg(format!("--start-address={:#x}", range.start))
        .arg(format!("--stop-address={:#x}", range.end))
        .arg("/dev/stdin")
        .env("LC_ALL", "C")
        .env_remove("DEBUGINFOD_URLS")
        .stdin(file)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Unavailable::NotInstalled,
        _ => Unavailable::Read(error),
    })?;
    let stdout = child.stdout.take();
    let child = Mutex::new(child);
    let lock = || child.lock().unwrap_or_else(PoisonError::into_inner);
    let (done, is_done) = mpsc::channel::<()>();
    let mut output = Vec::new();
    let (read, is_slow) = thread::scope(|scope| {
        let watch = move || {
            let is_slow = is_done.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout);
            if is_slow {
                // It may have ended by itself.
                let _ = lock().kill();
            }
            is_slow
        };
        let watching = thread::Builder::new().spawn_scoped(scope, watch);
        let read = stdout.map_or(Ok(0), |out| out.take(MAX_OUTPUT).read_to_end(&mut output));
        drop(done);
        let is_slow = watching.map(|it| it.join().unwrap_or(false));
        (read, is_slow.unwrap_or(false))
    });
    // It has ended, or writes more than is read.
    let mut child = child.into_inner().unwrap_or_else(PoisonError::into_inner);
    let _ = child.kill();
    child.wait()?;
    read?;
    if is_slow {
        return Err(Unavailable::Slow);
    }
    Ok(String::from_utf8_lossy(&output).into_owned())
}

/// Reads a line: an address, a colon, a tab and the instruction.
fn instruction(line: &str) -> Option<Instruction> {
    let (address, text) = line.split_once(":\t")?;
    Some(Instruction {
        address: u64::from_str_radix(address.trim(), 16).ok()?,
        text: text.trim_end().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_instructions_are_read_and_others_are_not() {
        let read = |line| instruction(line).map(|it| (it.address, it.text));
        let test = Some((0x1129, "test   %edi,%edi".to_owned()));
        assert_eq!(read("    1129:\ttest   %edi,%edi"), test);
        assert_eq!(read("0000000000001129 <f>:"), None);
        assert_eq!(read("/dev/stdin:     file format elf64-x86-64"), None);
        assert_eq!(read(""), None);
    }
}
