//! The process that rewrites a region. It is this program again, in another mode.

use std::ffi::c_void;
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use ferretto_shm::{Layout, PageSize, Region};
use rustix::mm::{MapFlags, ProtFlags};

use ferretto_testing::Random;

const PATH: &str = "HOSTILE_PATH";
const SEED: &str = "HOSTILE_SEED";

/// An attacking process, which is killed on drop.
pub struct Attacker(Child);

impl Attacker {
    pub fn start(region: &Region, seed: u64) -> Self {
        let fd = region.fd().expect("memory that can be shared").as_raw_fd();
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--ignored", "--exact", "attacker::attack"])
            .env(PATH, format!("/proc/{}/fd/{fd}", std::process::id()))
            .env(SEED, seed.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program runs again");
        let mut attacker = Self(child);
        attacker.await_first_strike(region);
        attacker
    }

    /// Waits until the memory differs from the service's initial content.
    fn await_first_strike(&mut self, region: &Region) {
        // SAFETY: no writer of this process uses the memory of an attacked producer.
        while unsafe { region.snapshot(0, region.size()) }
            .iter()
            .all(|&byte| byte == 0)
        {
            let ended = self.0.try_wait().expect("a child of this process");
            assert!(ended.is_none(), "the attacker ended: {ended:?}");
            std::thread::yield_now();
        }
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "the other process of the tests in this program"]
fn attack() {
    let (Ok(path), Ok(seed)) = (std::env::var(PATH), std::env::var(SEED)) else {
        println!("skipped: started by the other tests only");
        return;
    };
    let kill = Some(rustix::process::Signal::KILL);
    rustix::process::set_parent_process_death_signal(kill).expect("a Linux kernel");
    let memory = Memory::map(&path);
    let mut random = Random(seed.parse().expect("a number"));
    loop {
        memory.strike(&mut random);
    }
}

/// The hostile process's own mapping of the region, to which it may write anything.
struct Memory {
    base: NonNull<u8>,
    size: usize,
}

impl Memory {
    fn map(path: &str) -> Self {
        let file = std::fs::File::options().read(true).write(true).open(path);
        let file = file.expect("the parent holds it open");
        let size = file.metadata().expect("a file").len() as usize;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let base = unsafe {
            rustix::mm::mmap(
                ptr::null_mut::<c_void>(),
                size,
                access,
                MapFlags::SHARED,
                &file,
                0,
            )
        };
        let base = NonNull::new(base.expect("memory").cast()).expect("not at 0");
        Self { base, size }
    }

    fn store_32(&self, at: usize, value: u32) {
        assert!(at + 4 <= self.size && at.is_multiple_of(4));
        // SAFETY: inside the mapping, which is never undone, and aligned; this process accesses it
        // atomically only.
        let word = unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(at).cast()) };
        word.store(value, Ordering::Relaxed);
    }

    fn store_16(&self, at: usize, value: u16) {
        assert!(at + 2 <= self.size && at.is_multiple_of(2));
        // SAFETY: as in `store_32`.
        let word = unsafe { AtomicU16::from_ptr(self.base.as_ptr().add(at).cast()) };
        word.store(value, Ordering::Relaxed);
    }

    /// Makes one random write: half of the time an almost valid value, which gets further than
    /// noise.
    fn strike(&self, random: &mut Random) {
        let page = random.next() as usize % (self.size / 4096) * 4096;
        let layout = Layout::ALL[random.next() as usize % 5];
        let index = random.next() as u32 % layout.chunks();
        let offset = layout.chunk_offset(PageSize::DEFAULT, index);
        let chunk = page + offset.expect("below the number of chunks");
        match random.next() % 8 {
            // All chunks complete.
            0..3 => self.store_32(page, layout.word() | ((1 << (2 * layout.chunks())) - 1)),
            3 => self.store_32(page, random.next() as u32),
            4 => {
                self.store_32(chunk, random.next() as u32 % 64);
                self.store_16(
                    chunk + 4,
                    [1, 2, 3, 0, 0x7fff, 0xffff][random.next() as usize % 6],
                );
                self.store_16(chunk + 6, random.next() as u16 & 0x1c0f);
            }
            // A string in fragments of eight bytes each, including their length.
            5 => (8..chunk_end(layout)).step_by(8).for_each(|at| {
                self.store_32(chunk + at, u32::from_le_bytes([7, 0xa2, 0x38, 4]));
                self.store_32(chunk + at + 4, u32::from_le_bytes(*b"evil"));
            }),
            6 => self.store_32(chunk + 8, random.next() as u32),
            _ => self.store_32(
                random.next() as usize % (self.size / 4) * 4,
                random.next() as u32,
            ),
        }
    }
}

/// Returns the end of the whole groups of eight bytes in a chunk, from its start.
fn chunk_end(layout: Layout) -> usize {
    layout.chunk_size(PageSize::DEFAULT) & !7
}
