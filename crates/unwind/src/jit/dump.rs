//! `jitdump`: a file of records, of which the target maps a page.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use super::MAX_BYTES;
use super::found::Found;

/// "JiTD" in the machine's byte order.
const MAGIC: u32 = 0x4a69_5444;
const CODE_LOAD: u32 = 0;
const CODE_MOVE: u32 = 1;
/// The size of a record's header: id, total size and time.
const RECORD: u64 = 16;
/// The largest number of bytes of a record to read. The code itself is skipped.
const MAX_HEAD: u64 = 4096;
/// The largest number of records to read in a call.
const MAX_RECORDS: usize = 1 << 18;

/// Returns true if the file is called `jit-PID.dump`.
pub(super) fn is_named_so(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.starts_with("jit-") && name.ends_with(".dump")
}

/// An open file, and its read position.
pub(super) struct Dump {
    file: File,
    read: u64,
}

impl Dump {
    /// Returns `None` if the file is not a dump.
    pub(super) fn open(file: File) -> Option<Self> {
        let mut header = [0; 12];
        file.read_exact_at(&mut header, 0).ok()?;
        if number(&header, 0)? != MAGIC {
            return None;
        }
        let read = u64::from(number(&header, 8)?);
        (read >= 40).then_some(Self { file, read })
    }

    /// Reads the records written since the last call.
    pub(super) fn read(&mut self, found: &mut Found<'_>) {
        for _ in 0..MAX_RECORDS {
            if found.is_full() || self.record(found).is_none() {
                return;
            }
        }
    }

    fn record(&mut self, found: &mut Found<'_>) -> Option<()> {
        let mut prefix = [0; RECORD as usize];
        self.file.read_exact_at(&mut prefix, self.read).ok()?;
        let size = u64::from(number(&prefix, 4)?);
        let next = self.read.checked_add(size)?;
        let whole = self.file.metadata().ok()?.len();
        if size < RECORD || next > whole || next > MAX_BYTES.saturating_mul(64) {
            return None;
        }
        let mut head = vec![0; usize::try_from((size - RECORD).min(MAX_HEAD)).ok()?];
        self.file
            .read_exact_at(&mut head, self.read + RECORD)
            .ok()?;
        match number(&prefix, 0)? {
            CODE_LOAD => load(&head, found).unwrap_or_default(),
            CODE_MOVE => moved(&head, found).unwrap_or_default(),
            _ => {}
        }
        self.read = next;
        Some(())
    }
}

/// Parses a record with pid, tid, address, address of the code, size, index and name.
fn load(head: &[u8], found: &mut Found<'_>) -> Option<()> {
    let name = head.get(40..)?.split(|&byte| byte == 0).next()?;
    found.add(long(head, 16)?, long(head, 24)?, name);
    Some(())
}

/// Parses a record with pid, tid, address, old address, new address, size and index.
fn moved(head: &[u8], found: &mut Found<'_>) -> Option<()> {
    found.moved(long(head, 16)?, long(head, 24)?, long(head, 32)?);
    Some(())
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
