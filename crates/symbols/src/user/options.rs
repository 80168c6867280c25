//! The folders that are searched for files.

use std::env;
use std::path::PathBuf;

/// The way folders given by the user are searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// All files in them and below are looked at once, and known by build id.
    #[default]
    Index,
    /// Files are looked for at the places where they should be: below the folder at the recorded
    /// path, directly in the folder, and in its `.build-id`.
    Find,
}

/// The folders that are searched for files, and the files that are believed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Folders, or single files, to be searched first.
    pub roots: Vec<PathBuf>,
    /// The way they are searched.
    pub mode: Mode,
    /// Set if this machine's own files are looked at: at the recorded path and below
    /// `/usr/lib/debug`.
    pub system: bool,
    /// Set if a file at the recorded path is used that has no build id, if the recorded one has
    /// none either. Right if the recording was just made on this machine; else nothing tells
    /// whether it is the same file.
    pub trust_paths: bool,
    /// Folder where names are kept by build id, to be found at once when they are asked for again;
    /// none keeps nothing.
    pub cache: Option<PathBuf>,
    /// Folder of debug files; none is `/usr/lib/debug`.
    pub debug_folder: Option<PathBuf>,
}

impl Options {
    /// Returns the options in upstream's environment variables: `PERFETTO_BINARY_PATH`, folders
    /// separated by colons, and `PERFETTO_SYMBOLIZER_MODE`, `index` or `find`. This machine's files
    /// are looked at, too.
    ///
    /// Names are kept in [`default_cache`](Self::default_cache).
    ///
    /// # Errors
    ///
    /// If the mode is another one.
    pub fn from_environment() -> Result<Self, String> {
        let roots = env::var_os("PERFETTO_BINARY_PATH").unwrap_or_default();
        let mode = match env::var("PERFETTO_SYMBOLIZER_MODE").as_deref() {
            Ok("find") => Mode::Find,
            Ok("index" | "") | Err(_) => Mode::Index,
            Ok(other) => {
                return Err(format!(
                    "PERFETTO_SYMBOLIZER_MODE is '{other}'; it can be 'index' or 'find'"
                ));
            }
        };
        Ok(Self {
            roots: env::split_paths(&roots)
                .filter(|root| !root.as_os_str().is_empty())
                .collect(),
            mode,
            system: true,
            cache: Self::default_cache(),
            ..Self::default()
        })
    }

    /// Returns the folder in which names are kept: `$XDG_CACHE_HOME/ferretto/symbols`, or below
    /// `~/.cache`.
    #[must_use]
    pub fn default_cache() -> Option<PathBuf> {
        let folder = |name| {
            env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let caches = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
        Some(caches.join("ferretto").join("symbols"))
    }
}
