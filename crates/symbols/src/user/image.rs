//! A file that may have names.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use ferretto_elf::{Elf, ElfError, open_regular};

/// The reason why a file is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The file is missing.
    Missing,
    /// The build id differs: it is not the recorded file.
    OtherBuildId(Box<[u8]>),
    /// The file has no build id, so it may not be the recorded file.
    NoBuildId,
    /// The checksum of the debug file differs from the one in the program.
    OtherChecksum,
    /// The file has neither symbols nor debug information.
    Stripped,
    /// The file cannot be read, or is not a regular ELF file.
    Unusable(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("no such file"),
            Self::OtherBuildId(id) => write!(f, "it has another build id, {}", hex(id)),
            Self::NoBuildId => f.write_str("it has no build id"),
            Self::OtherChecksum => f.write_str("its checksum differs from the one in the program"),
            Self::Stripped => f.write_str("it has neither symbols nor debug information"),
            Self::Unusable(why) => f.write_str(why),
        }
    }
}

/// The quality of a file's names; later ones are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Nothing,
    /// Exported functions.
    Exported,
    /// All functions.
    Functions,
    /// All functions, inlined ones, files and lines.
    Lines,
}

/// An open file with the right identity.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) path: PathBuf,
    pub(super) elf: Elf,
    pub(super) level: Level,
}

const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;

impl Image {
    pub(super) fn new(path: PathBuf, elf: Elf) -> Self {
        let has = |kind| {
            let mut sections = elf.sections().iter();
            sections.any(|section| section.kind == kind && section.has_data() && section.size > 0)
        };
        let debug = elf.section_header(".debug_info");
        let level = if debug.is_some_and(|section| section.has_data()) {
            Level::Lines
        } else if has(SHT_SYMTAB) || elf.section_header(".gnu_debugdata").is_some() {
            Level::Functions
        } else if has(SHT_DYNSYM) {
            Level::Exported
        } else {
            Level::Nothing
        };
        Self { path, elf, level }
    }

    /// Opens a file with any build id.
    pub(super) fn open(path: &Path) -> Result<Self, Reason> {
        let unusable = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Reason::Missing,
            _ => Reason::Unusable(error.to_string()),
        };
        let file = open_regular(path).map_err(unusable)?;
        let elf = Elf::open(file, 0).map_err(|error| match error {
            ElfError::Read(error) => unusable(error),
            other => Reason::Unusable(other.to_string()),
        })?;
        Ok(Self::new(path.to_owned(), elf))
    }

    /// Opens a file, which must have this build id.
    pub(super) fn open_identified(path: &Path, build_id: &[u8]) -> Result<Self, Reason> {
        let image = Self::open(path)?;
        match image.elf.build_id() {
            Some(id) if id == build_id => Ok(image),
            Some(other) => Err(Reason::OtherBuildId(other.into())),
            None => Err(Reason::NoBuildId),
        }
    }

    /// Opens a file, which must have no build id, like the recorded one.
    pub(super) fn open_unidentified(path: &Path) -> Result<Self, Reason> {
        let image = Self::open(path)?;
        match image.elf.build_id() {
            Some(other) => Err(Reason::OtherBuildId(other.into())),
            None => Ok(image),
        }
    }
}

/// Formats bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
