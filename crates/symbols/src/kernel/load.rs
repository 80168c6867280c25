//! Loads the running kernel's symbols, which it may hide.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use thiserror::Error;

use super::lowered::{self, Lowered};
use super::{KernelSymbols, ParseError, parse};

/// The largest plausible size of the list.
const MAX_BYTES: u64 = 256 << 20;
/// The number of bytes of the list that show whether it has addresses.
const BEGINNING: u64 = 4095;

/// The reason why the kernel's functions have no names.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The list cannot be read.
    #[error(
        "kernel functions have no names: cannot read /proc/kallsyms (check that CONFIG_KALLSYMS is set): {0}"
    )]
    Unreadable(#[source] io::Error),
    /// The list has zeros in place of addresses.
    #[error(transparent)]
    Restricted(#[from] Restricted),
    /// The list is malformed.
    #[error(transparent)]
    Malformed(#[from] ParseError),
}

/// The kernel hides the addresses of its symbols.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("kernel functions have no names: the kernel hides their addresses from this user \
     (kernel.kptr_restrict is {}); {}", setting(.kptr_restrict), remedy(.kptr_restrict))]
pub struct Restricted {
    /// The value of `kernel.kptr_restrict`, if readable.
    pub kptr_restrict: Option<u8>,
}

fn setting(value: &Option<u8>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |value| value.to_string())
}

fn remedy(value: &Option<u8>) -> &'static str {
    let is_root = rustix::process::geteuid().is_root();
    match value {
        Some(2..) if is_root => "run: sysctl kernel.kptr_restrict=1 (2 hides them from root, too)",
        _ if is_root => {
            "root lacks CAP_SYSLOG here, as in many containers: add it (docker run --cap-add SYSLOG), or run \
             outside of the container"
        }
        Some(0) => {
            "run as root or with CAP_SYSLOG, or have an administrator run: sysctl kernel.perf_event_paranoid=1"
        }
        Some(1) => {
            "run as root or with CAP_SYSLOG, or have an administrator run: \
             sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1"
        }
        _ => {
            "run as root, or have an administrator run: sysctl kernel.kptr_restrict=1 (enough with CAP_SYSLOG), or \
             sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1 (for everybody)"
        }
    }
}

impl KernelSymbols {
    /// Reads the running kernel's symbols.
    ///
    /// If the kernel hides the addresses and `kernel.kptr_restrict` is writable, as for root,
    /// lowers it (never to 0) while reading the list.
    ///
    /// # Errors
    ///
    /// The message of [`LoadError`] names the remedy. A loaded table is never empty.
    pub fn load() -> Result<Self, LoadError> {
        let open = || File::open("/proc/kallsyms");
        Self::load_with(Path::new("/proc/sys/kernel/kptr_restrict"), open)
    }

    /// Opens the list, to [load](Self::load_from) it later with fewer privileges. The kernel checks
    /// at opening whether to show addresses.
    ///
    /// # Errors
    ///
    /// Fails if the list cannot be opened.
    pub fn open() -> io::Result<File> {
        let open = || File::open("/proc/kallsyms");
        Self::open_with(Path::new("/proc/sys/kernel/kptr_restrict"), open)
    }

    /// Like [`open`](Self::open), with another file for the setting and another list.
    ///
    /// # Errors
    ///
    /// Returns the error of `open`.
    pub fn open_with<R: Read>(
        kptr_restrict: &Path,
        mut open: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        let is_hidden = |open: &mut _| shows_addresses(open).is_ok_and(|shows| !shows);
        let lowered = is_hidden(&mut open).then(|| Lowered::open(kptr_restrict));
        if let Some(lowered) = lowered.flatten() {
            lowered.lower(|| !is_hidden(&mut open));
            return open();
        }
        open()
    }

    /// Loads the kernel's symbols from an [opened](Self::open) list. It can be loaded any number of
    /// times.
    ///
    /// # Errors
    ///
    /// See [`load`](Self::load).
    pub fn load_from(list: &File) -> Result<Self, LoadError> {
        let open = || {
            let mut list = list;
            list.seek(SeekFrom::Start(0))?;
            Ok(list)
        };
        Self::load_with(Path::new("/proc/sys/kernel/kptr_restrict"), open)
    }

    /// Like [`load`](Self::load), with another file for the setting and another list. `open` is
    /// called for every read of the list, since the kernel checks at opening whether to show
    /// addresses.
    pub fn load_with<R: Read>(
        kptr_restrict: &Path,
        mut open: impl FnMut() -> io::Result<R>,
    ) -> Result<Self, LoadError> {
        if shows_addresses(&mut open)? {
            return Self::read(&mut open, lowered::read(kptr_restrict));
        }
        // Lowered until the list is read; dropping it restores the setting.
        let lowered = Lowered::open(kptr_restrict);
        if let Some(lowered) = &lowered {
            lowered.lower(|| shows_addresses(&mut open).unwrap_or(true));
        }
        let setting = lowered.as_ref().map(Lowered::original);
        Self::read(&mut open, setting.or_else(|| lowered::read(kptr_restrict)))
    }

    fn read<R: Read>(
        open: &mut impl FnMut() -> io::Result<R>,
        kptr_restrict: Option<u8>,
    ) -> Result<Self, LoadError> {
        let mut text = Vec::new();
        open()
            .and_then(|list| list.take(MAX_BYTES).read_to_end(&mut text))
            .map_err(LoadError::Unreadable)?;
        let symbols = Self::parse(&text)?;
        if symbols.is_empty() {
            return Err(Restricted { kptr_restrict }.into());
        }
        Ok(symbols)
    }
}

/// Returns true if the start of the list has an address other than zero.
fn shows_addresses<R: Read>(open: &mut impl FnMut() -> io::Result<R>) -> Result<bool, LoadError> {
    let mut beginning = Vec::new();
    open()
        .and_then(|list| list.take(BEGINNING).read_to_end(&mut beginning))
        .map_err(LoadError::Unreadable)?;
    Ok(parse::shows_addresses(&beginning))
}
