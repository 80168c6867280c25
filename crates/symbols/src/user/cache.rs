//! A cache of found names, in one file for each build id.
//!
//! A cache file has a checksum and the state of the files that its names come from. If one was
//! changed or another is found, its names are read again. Cache files are replaced atomically, so
//! any number of processes can use the folder.

use std::fs::{self, DirBuilder, File};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use ferretto_elf::open_regular;
use ferretto_wire::{Fields, encode};
use rustc_hash::FxHashMap;

use super::Frame;
use super::image::{Image, hex};
use super::search::Found;

/// The first bytes of a file, with the version of the format.
const MAGIC: &[u8; 8] = b"FerSym01";
/// The size of magic bytes and checksum.
const HEADER: usize = 12;
/// The largest size of a cache file.
const MAX_FILE: u64 = 64 << 20;
/// The largest number of addresses in a file. Beyond it, only the newest stay.
const MAX_ADDRESSES: usize = 200_000;
/// The largest size of all files together. Beyond it, the oldest are removed.
const MAX_TOTAL: u64 = 256 << 20;
/// The age at which the unfinished file of a dead process is removed.
const MAX_UNFINISHED: Duration = Duration::from_secs(3600);
/// The extension of unfinished files.
const UNFINISHED: &str = "tmp";

mod field {
    pub(super) const SOURCE: u32 = 1;
    pub(super) const USED: u32 = 2;
    pub(super) const TEXT: u32 = 3;
    pub(super) const ADDRESS: u32 = 4;
    pub(super) const VALUE: u32 = 1;
    pub(super) const FRAME: u32 = 2;
    pub(super) const FUNCTION: u32 = 1;
    pub(super) const FILE: u32 = 2;
    pub(super) const LINE: u32 = 3;
}

/// The known names of a module.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The frames by address; empty if the address is known to have no name.
    pub(super) names: FxHashMap<u64, Vec<Frame>>,
    /// For each file of the module, true if names come from it.
    pub(super) used: Vec<bool>,
}

/// The cache file of a module.
#[derive(Debug)]
pub(super) struct Cache {
    folder: PathBuf,
    name: String,
    /// A description of the module's files.
    source: Vec<u8>,
}

impl Cache {
    /// Returns `None` if the module has no identity or the folder cannot be used.
    pub(super) fn new(folder: &Path, build_id: &[u8], found: &Found) -> Option<Self> {
        if !(8..=64).contains(&build_id.len()) {
            return None;
        }
        // Another version may find more names.
        let mut source = env!("CARGO_PKG_VERSION").as_bytes().to_vec();
        for image in found.images.iter().chain(&found.supplementary) {
            source.extend(describe(image)?);
        }
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(folder).ok()?;
        // Other users must not influence which files are removed.
        let metadata = fs::symlink_metadata(folder).ok()?;
        let own = metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw();
        own.then(|| Self {
            folder: folder.to_owned(),
            name: hex(build_id),
            source,
        })
    }

    /// Returns the stored names. A file that is damaged or of other sources counts as empty.
    pub(super) fn load(&self) -> Known {
        self.read().unwrap_or_default()
    }

    fn read(&self) -> Option<Known> {
        let file = open_regular(self.folder.join(&self.name)).ok()?;
        let mut bytes = Vec::new();
        (&file).take(MAX_FILE).read_to_end(&mut bytes).ok()?;
        let (header, body) = bytes.split_at_checked(HEADER)?;
        if !header.starts_with(MAGIC) || header[MAGIC.len()..] != checksum(body) {
            return None;
        }
        let known = self.parse(body)?;
        // Recently used files stay longest.
        let _ = file.set_modified(SystemTime::now());
        Some(known)
    }

    fn parse(&self, body: &[u8]) -> Option<Known> {
        let mut known = Known::default();
        let mut texts: Vec<Arc<str>> = Vec::new();
        for part in Fields::new(body) {
            let part = part.ok()?;
            match part.number {
                field::SOURCE if part.as_bytes()? != self.source => return None,
                field::USED => known.used.push(part.as_bool()?),
                field::TEXT => texts.push(part.as_str_lossy()?.into()),
                field::ADDRESS => {
                    let (address, frames) = address(part.as_bytes()?, &texts)?;
                    known.names.insert(address, frames);
                }
                _ => {}
            }
        }
        Some(known)
    }

    /// Stores the names. Errors are ignored: the next run only takes longer.
    pub(super) fn store(&self, known: &Known) {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        let unfinished = format!("{}.{process}.{number}.{UNFINISHED}", self.name);
        let unfinished = self.folder.join(unfinished);
        let body = self.body(known);
        let write = || {
            let mut file = File::options()
                .write(true)
                .create_new(true)
                .open(&unfinished)?;
            file.write_all(MAGIC)?;
            file.write_all(&checksum(&body))?;
            file.write_all(&body)?;
            fs::rename(&unfinished, self.folder.join(&self.name))
        };
        if write().is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        self.tidy();
    }

    fn body(&self, known: &Known) -> Vec<u8> {
        let mut texts: FxHashMap<Arc<str>, u64> = FxHashMap::default();
        encode(|body| {
            body.bytes(field::SOURCE, &self.source);
            for &used in &known.used {
                body.bool(field::USED, used);
            }
            for (address, frames) in known.names.iter().take(MAX_ADDRESSES) {
                let texts_of = |frame: &Frame| [Some(frame.function.clone()), frame.file.clone()];
                for text in frames.iter().flat_map(texts_of).flatten() {
                    let number = texts.len() as u64;
                    texts.entry(text).or_insert_with_key(|text| {
                        body.string(field::TEXT, text);
                        number
                    });
                }
                body.nested(field::ADDRESS, |out| {
                    out.varint(field::VALUE, *address);
                    for frame in frames {
                        out.nested(field::FRAME, |out| {
                            out.varint(field::FUNCTION, texts[&frame.function]);
                            if let Some(file) = &frame.file {
                                out.varint(field::FILE, texts[file]);
                            }
                            out.varint(field::LINE, u64::from(frame.line));
                        });
                    }
                });
            }
        })
    }

    /// Removes the oldest files if they take too much space.
    fn tidy(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
        };
        let mut files = Vec::new();
        let mut total = 0;
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| is_ours(name)) else {
                continue;
            };
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            let changed = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            if name.ends_with(UNFINISHED) {
                if changed.elapsed().is_ok_and(|age| age > MAX_UNFINISHED) {
                    let _ = fs::remove_file(entry.path());
                }
                continue;
            }
            total += metadata.len();
            files.push((changed, metadata.len(), entry.path()));
        }
        files.sort_unstable();
        for (_, size, path) in files {
            if total <= MAX_TOTAL {
                break;
            }
            let _ = fs::remove_file(path);
            total -= size;
        }
    }
}

/// Returns true if a file of this name is a cache file.
fn is_ours(name: &str) -> bool {
    let id = name.split('.').next().unwrap_or_default();
    let is_id = id.len() >= 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id && (id.len() == name.len() || name.ends_with(UNFINISHED))
}

/// Parses an address and its frames, which refer to `texts`.
fn address(bytes: &[u8], texts: &[Arc<str>]) -> Option<(u64, Vec<Frame>)> {
    let mut value = 0;
    let mut frames = Vec::new();
    for part in Fields::new(bytes) {
        let part = part.ok()?;
        match part.number {
            field::VALUE => value = part.as_u64()?,
            field::FRAME => frames.push(frame(part.as_bytes()?, texts)?),
            _ => {}
        }
    }
    Some((value, frames))
}

fn frame(bytes: &[u8], texts: &[Arc<str>]) -> Option<Frame> {
    let number = |number| Fields::find(number, bytes).and_then(|field| field.as_u64());
    let text = |number: u64| texts.get(usize::try_from(number).ok()?).cloned();
    Some(Frame {
        function: number(field::FUNCTION).and_then(text)?,
        file: match number(field::FILE) {
            Some(file) => Some(text(file)?),
            None => None,
        },
        line: number(field::LINE).and_then(|line| u32::try_from(line).ok())?,
    })
}

/// Describes the state of a file, which changes if it is replaced.
fn describe(image: &Image) -> Option<Vec<u8>> {
    let metadata = fs::metadata(&image.path).ok()?;
    let numbers = [
        metadata.dev(),
        metadata.ino(),
        metadata.size(),
        metadata.mtime() as u64,
        metadata.mtime_nsec() as u64,
    ];
    Some(
        numbers
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect(),
    )
}

fn checksum(bytes: &[u8]) -> [u8; 4] {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum().to_le_bytes()
}
