//! Options of the search for files.

use std::env;
use std::path::PathBuf;

use super::debuginfod::ServerUrl;

/// The way to search the user's folders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Indexes all files in and below the folders by build id.
    #[default]
    Index,
    /// Looks for files only where they are expected: at the recorded path below a folder, directly
    /// in the folder, and in its `.build-id`.
    Find,
}

/// The folders to search for files, and the files to trust.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Folders or files to search first.
    pub roots: Vec<PathBuf>,
    /// The way to search `roots`.
    pub mode: Mode,
    /// Searches this machine's own files, too: at the recorded path and below `/usr/lib/debug`.
    pub system: bool,
    /// Uses a file without a build id at the recorded path if the recorded file had none either.
    /// Set this only for new recordings of this machine, since the file may have changed.
    pub trust_paths: bool,
    /// The folder of the cache of names; `None` for no cache.
    pub cache: Option<PathBuf>,
    /// Servers of debuginfod to ask for debug files that are not here. They learn the build ids.
    pub servers: Vec<ServerUrl>,
    /// The folder for the files of servers; `None` for
    /// [`default_downloads`](Self::default_downloads).
    pub downloads: Option<PathBuf>,
    /// The folder of debug files; `None` is `/usr/lib/debug`.
    pub debug_folder: Option<PathBuf>,
}

impl Options {
    /// Returns the options in upstream's environment variables: `PERFETTO_BINARY_PATH`, folders
    /// separated by colons, and `PERFETTO_SYMBOLIZER_MODE`, `index` or `find`. They search this
    /// machine's files, too.
    ///
    /// The cache is in [`default_cache`](Self::default_cache).
    ///
    /// # Errors
    ///
    /// Fails if the mode is unknown.
    pub fn from_environment() -> Result<Self, String> {
        let roots = env::var_os("PERFETTO_BINARY_PATH").unwrap_or_default();
        let mode = match env::var("PERFETTO_SYMBOLIZER_MODE").as_deref() {
            Ok("find") => Mode::Find,
            Ok("index" | "") | Err(_) => Mode::Index,
            Ok(other) => {
                return Err(format!(
                    "PERFETTO_SYMBOLIZER_MODE is '{other}'; it must be 'index' or 'find'"
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

    /// Returns the default folder for the files of servers, beside that of the cache.
    #[must_use]
    pub fn default_downloads() -> Option<PathBuf> {
        Some(Self::default_cache()?.with_file_name("debuginfod"))
    }

    /// Returns the default folder of the cache: `$XDG_CACHE_HOME/ferretto/symbols`, or below
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
