//! Access to a process through `/proc`.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use crate::filter::CommandLine;

/// The flag of kernel threads.
const PF_KTHREAD: u32 = 0x0020_0000;
/// The size limit of `stat`: the kernel writes 52 numbers and a name of 64 bytes.
const MAX_STAT: u64 = 4096;

/// The directory of a process. Files opened in it belong to this process and not to a later one
/// with its id.
#[derive(Debug)]
pub(crate) struct ProcessFolder(OwnedFd);

/// The descriptors through which the memory of a process is read.
#[derive(Debug)]
pub(crate) struct Descriptors {
    /// The mappings as text.
    pub(crate) maps: File,
    /// The address space.
    pub(crate) mem: File,
}

impl Descriptors {
    /// Duplicates the descriptors.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            maps: self.maps.try_clone()?,
            mem: self.mem.try_clone()?,
        })
    }
}

/// The reason why a process is not accessible.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LookupError {
    /// The process has ended.
    #[error("the process has ended")]
    Gone,
    /// Permission is denied.
    #[error("access to memory of processes is denied ({0}); it needs CAP_SYS_PTRACE")]
    Denied(Errno),
    /// Another error.
    #[error("a process cannot be looked at: {0}")]
    Failed(Errno),
}

impl From<Errno> for LookupError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOENT | Errno::SRCH => Self::Gone,
            Errno::ACCESS | Errno::PERM => Self::Denied(error),
            error => Self::Failed(error),
        }
    }
}

impl From<io::Error> for LookupError {
    fn from(error: io::Error) -> Self {
        Errno::from_io_error(&error).unwrap_or(Errno::IO).into()
    }
}

/// The facts that distinguish a process from a later one with the same id, and kernel threads from
/// programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The start time, in ticks since boot.
    pub(crate) start_time: u64,
    pub(crate) is_kernel_thread: bool,
    /// Set if the process is a zombie without running threads.
    pub(crate) is_dead: bool,
}

impl ProcessFolder {
    pub(crate) fn open(pid: u32) -> Result<Self, LookupError> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self(openat(
            CWD,
            format!("/proc/{pid}"),
            flags,
            Mode::empty(),
        )?))
    }

    fn file(&self, name: &str) -> Result<File, LookupError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(openat(&self.0, name, flags, Mode::empty())?.into())
    }

    pub(crate) fn identity(&self) -> Result<Identity, LookupError> {
        let mut text = Vec::with_capacity(512);
        self.file("stat")?.take(MAX_STAT).read_to_end(&mut text)?;
        parse_stat(&text).ok_or(LookupError::Failed(Errno::BADMSG))
    }

    pub(crate) fn command_line(&self) -> Result<CommandLine, LookupError> {
        Ok(CommandLine::read(self.file("cmdline")?)?)
    }

    pub(crate) fn descriptors(&self) -> Result<Descriptors, LookupError> {
        Ok(Descriptors {
            maps: self.file("maps")?,
            mem: self.file("mem")?,
        })
    }
}

/// Parses `pid (name) state ppid … flags … starttime …`; the name may contain any bytes, including
/// parentheses.
fn parse_stat(text: &[u8]) -> Option<Identity> {
    let name_end = text.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(&text[name_end + 1..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    // Fields 9, 20 and 22.
    let flags: u32 = fields.nth(5)?.parse().ok()?;
    let threads: u32 = fields.nth(10)?.parse().ok()?;
    let start_time = fields.nth(1)?.parse().ok()?;
    Some(Identity {
        start_time,
        is_kernel_thread: flags & PF_KTHREAD != 0,
        // A thread leader that has exited before its threads is a zombie, too.
        is_dead: matches!(state, "Z" | "X") && threads <= 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_contain_parentheses() {
        let text = b"7 (a) b) (c) S 2 0 0 0 -1 69238880 0 0 0 0 0 0 0 0 20 0 1 0 42 0 0\n";
        let identity = parse_stat(text).unwrap();
        assert_eq!(identity.start_time, 42);
        assert!(identity.is_kernel_thread && !identity.is_dead);
        for cut in 0..text.len() - 8 {
            assert_eq!(parse_stat(&text[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn perf_055_a_process_that_is_gone_is_told_from_one_that_may_not_be_looked_at() {
        assert!(matches!(
            ProcessFolder::open(u32::MAX),
            Err(LookupError::Gone)
        ));
        let me = ProcessFolder::open(std::process::id()).unwrap();
        assert!(!me.identity().unwrap().is_kernel_thread);
        assert!(me.descriptors().is_ok());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let folder = ProcessFolder::open(child.id()).unwrap();
        child.wait().unwrap();
        assert!(matches!(folder.descriptors(), Err(LookupError::Gone)));
        assert!(matches!(folder.identity(), Err(LookupError::Gone)));
        assert!(matches!(folder.command_line(), Err(LookupError::Gone)));
    }
}
