//! Archives of files: `tar` and `zip`.

mod tar;
mod zip;

use std::fmt;
use std::io::{self, Cursor, Read};

use ferretto_format::decompression::DecompressionBudget;
use flate2::read::DeflateDecoder;

pub(super) use self::tar::members as tar_members;
pub(super) use self::zip::members as zip_members;

/// The maximum total size of the stored members of an archive.
const MAX_BYTES: u64 = 4 << 30;
/// The maximum number of members of an archive.
const MAX_MEMBERS: usize = 1 << 14;

/// A file in an archive. It is kept in its stored form, so that it takes no more memory than in the
/// archive.
pub(crate) struct Member {
    pub(crate) name: String,
    bytes: Vec<u8>,
    is_deflated: bool,
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("name", &self.name)
            .field("bytes", &self.bytes.len())
            .field("is_deflated", &self.is_deflated)
            .finish()
    }
}

impl Member {
    /// Returns true for a hidden file, which some programs add next to the real ones.
    pub(crate) fn is_hidden(&self) -> bool {
        let mut parts = self.name.split('/');
        parts.any(|part| {
            part == "__MACOSX" || (part.starts_with('.') && part != "." && part != "..")
        })
    }

    /// Returns a reader of its content.
    pub(crate) fn open(&self, budget: &DecompressionBudget) -> Box<dyn Read + Send + '_> {
        let bytes = Cursor::new(&self.bytes[..]);
        if self.is_deflated {
            Box::new(Deflated {
                decoder: DeflateDecoder::new(bytes),
                budget: budget.clone(),
            })
        } else {
            Box::new(bytes)
        }
    }
}

/// The content of a compressed member.
struct Deflated<R> {
    decoder: DeflateDecoder<R>,
    budget: DecompressionBudget,
}

impl<R: Read> Read for Deflated<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.decoder.read(buffer)?;
        self.budget.take(count as u64)?;
        Ok(count)
    }
}

/// The members of an archive under construction.
#[derive(Debug)]
struct Members {
    members: Vec<Member>,
    bytes: u64,
    /// The maximum total size.
    allowed: u64,
    budget: DecompressionBudget,
}

impl Members {
    fn new(allowed: u64, budget: &DecompressionBudget) -> Self {
        Self {
            members: Vec::new(),
            bytes: 0,
            allowed: allowed.min(MAX_BYTES),
            budget: budget.clone(),
        }
    }

    /// Checks that a file of this size does not exceed the limit.
    fn check(&self, size: u64) -> io::Result<()> {
        if self.bytes.saturating_add(size) > self.allowed {
            Err(invalid(format!("more than {} MiB", self.allowed >> 20)))
        } else {
            Ok(())
        }
    }

    fn push(&mut self, name: String, bytes: Vec<u8>, is_deflated: bool) -> io::Result<()> {
        if self.members.len() >= MAX_MEMBERS {
            return Err(invalid(format!("more than {MAX_MEMBERS} files")));
        }
        self.bytes += bytes.len() as u64;
        self.members.push(Member {
            name,
            bytes,
            is_deflated,
        });
        Ok(())
    }

    /// Reads `size` bytes.
    fn read(&self, input: &mut dyn Read, size: u64) -> io::Result<Vec<u8>> {
        self.check(size)?;
        let mut bytes = Vec::new();
        input.take(size).read_to_end(&mut bytes)?;
        if bytes.len() as u64 == size {
            Ok(bytes)
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the archive has {why}"))
}
