//! A file system whose server never answers: a process that queries the state of its file, or
//! closes it for the last time, blocks.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::thread::JoinHandle;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// Requests and answers, see linux/fuse.h.
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const ROOT: u64 = 1;
const ENOSYS: i32 = 38;

/// The file system, mounted in a folder.
pub(crate) struct Fuse {
    folder: PathBuf,
    server: Option<JoinHandle<()>>,
    /// Its open file.
    file: Option<OwnedFd>,
}

impl Fuse {
    /// Mounts the file system. The error is the reason why that is not possible.
    pub(crate) fn mount(folder: PathBuf) -> Result<Self, String> {
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let device = device.map_err(|error| format!("/dev/fuse: {error}"))?;
        let number = device.as_raw_fd();
        let data = format!("fd={number},rootmode=40000,user_id=0,group_id=0,allow_other");
        let data = std::ffi::CString::new(data).unwrap();
        mount(
            "none",
            &folder,
            "fuse",
            MountFlags::empty(),
            Some(data.as_c_str()),
        )
        .map_err(|error| format!("mounting a file system: {error}"))?;
        let server = std::thread::spawn(move || serve(device));
        let mut fuse = Self {
            folder,
            server: Some(server),
            file: None,
        };
        let file = File::open(fuse.folder.join("file")).map_err(|error| error.to_string())?;
        fuse.file = Some(file.into());
        Ok(fuse)
    }

    /// Returns a descriptor of the file. Closing one blocks.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_ref().unwrap().as_fd()
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        // Pending requests fail, so that blocked processes continue.
        unmount(&self.folder, UnmountFlags::FORCE | UnmountFlags::DETACH).unwrap();
        let ended = self.server.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || matches!(ended, Some(Ok(()))));
    }
}

/// Answers the requests that opening the file needs.
fn serve(mut device: File) {
    let mut request = vec![0; 1 << 20];
    // An error is the end of the file system.
    while let Ok(length) = device.read(&mut request) {
        let word = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_ne_bytes(request[at..at + 8].try_into().unwrap());
        assert!(length >= 40);
        let (opcode, unique, node) = (word(4), long(8), long(16));
        let (error, body) = match opcode {
            INIT => (0, init(word(40), word(44))),
            LOOKUP => (0, entry()),
            GETATTR if node == ROOT => (0, attributes_of_root()),
            OPEN => (0, vec![0; 16]),
            GETATTR | FLUSH | FORGET | RELEASE => continue,
            _ => (-ENOSYS, Vec::new()),
        };
        let mut answer = ((16 + body.len()) as u32).to_ne_bytes().to_vec();
        answer.extend(error.to_ne_bytes());
        answer.extend(unique.to_ne_bytes());
        answer.extend(body);
        // The process that asked may have ended.
        let _ = device.write(&answer);
    }
}

fn init(major: u32, minor: u32) -> Vec<u8> {
    let mut body = Vec::new();
    for word in [major, minor.min(31), 0, 0] {
        body.extend(word.to_ne_bytes());
    }
    body.extend([0; 4]);
    body.extend(65536_u32.to_ne_bytes());
    body.resize(64, 0);
    body
}

/// Encodes an inode, a mode, and arbitrary sizes and times.
fn attributes(node: u64, mode: u32) -> Vec<u8> {
    let mut body = node.to_ne_bytes().to_vec();
    body.resize(60, 0);
    body.extend(mode.to_ne_bytes());
    body.extend(1_u32.to_ne_bytes());
    body.resize(88, 0);
    body
}

fn entry() -> Vec<u8> {
    let mut body = 2_u64.to_ne_bytes().to_vec();
    // No attribute may be cached.
    body.resize(40, 0);
    body.extend(attributes(2, 0o100_666));
    body
}

fn attributes_of_root() -> Vec<u8> {
    let mut body = 3600_u64.to_ne_bytes().to_vec();
    body.resize(16, 0);
    body.extend(attributes(ROOT, 0o40_755));
    body
}
