//! Opened traces in a cache, so that the second time they are open at once.

use std::fs::{self, DirBuilder, File, FileTimes, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use ferretto_format::Fnv1a;
use ferretto_tables::saved::{Reader, Writer};
use ferretto_tables::{Continue, Format, ImportError, Options, Progress};
use ferretto_text::amount::human_bytes;
use rustix::fs::{Mode, OFlags, statvfs};

use crate::view::{Indexed, View};

/// The least size of traces that are kept. Smaller ones are opened as quickly without.
const LEAST: u64 = 16 << 20;
/// The maximum size of all indexes.
const LARGEST: u64 = 8 << 30;
/// The part of the free disk space that an index may take.
const FREE_SHARE: u64 = 4;
/// The end of the names of indexes.
const ENDING: &str = ".index";
/// The number and size of the parts of a trace that are compared.
const PARTS: u64 = 64;
const PART: u64 = 16 << 10;

/// A folder of indexes: traces that were opened, with their tables and levels of detail.
///
/// An index is used only for the same trace, by size, times and a hash of parts of its content, the
/// same options and the same program. One that is damaged, or may be another user's, is not used.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
    least: u64,
    largest: u64,
}

/// The index of an opened trace that is not written yet.
#[derive(Debug)]
pub struct NewIndex {
    cache: Cache,
    path: PathBuf,
    of: Vec<u8>,
}

impl Cache {
    /// Returns a cache in this folder, which need not exist yet.
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            least: LEAST,
            largest: LARGEST,
        }
    }

    /// Sets the least size of traces that are kept.
    #[must_use]
    pub fn with_least(self, least: u64) -> Self {
        Self { least, ..self }
    }

    /// Sets the maximum size of all indexes. Those that were not used for the longest time are
    /// removed.
    #[must_use]
    pub fn with_largest(self, largest: u64) -> Self {
        Self { largest, ..self }
    }

    /// Opens a trace, from its index if there is one. If there is none, the second result writes
    /// it.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or is not a trace.
    pub fn open(
        &self,
        path: &Path,
        options: &Options,
        progress: impl FnMut(Progress) -> Continue,
    ) -> Result<(View, Option<NewIndex>), ImportError> {
        let index = self.index_of(path, options);
        if let Some(view) = index.as_ref().and_then(|index| index.load(path, options)) {
            return Ok((view, None));
        }
        let view = View::open(path, options, progress)?;
        Ok((view, index))
    }

    /// Returns the index of a trace; `None` if it would have none.
    fn index_of(&self, path: &Path, options: &Options) -> Option<NewIndex> {
        let path = fs::canonicalize(path).ok()?;
        if !fs::metadata(&path).ok()?.is_file() {
            return None;
        }
        let file = File::open(&path).ok()?;
        let data = file.metadata().ok()?;
        if !data.is_file() || data.len() < self.least {
            return None;
        }
        let name = path.as_os_str().as_encoded_bytes();
        let hash = Fnv1a::new().update(name).finish();
        let mut of = name.to_vec();
        of.push(0);
        of.extend(about(&data).into_bytes());
        of.extend(hash_of_parts(&file, data.len()).ok()?.to_le_bytes());
        of.extend(about(&fs::metadata("/proc/self/exe").ok()?).into_bytes());
        let Options {
            tables,
            limits,
            full_sort,
            crop_track_events,
            is_part,
            request_events,
            reads_files,
            ..
        } = options;
        let options = format!(
            "{tables:?} {limits:?} {full_sort} {crop_track_events} {is_part} {request_events:?} \
             {reads_files}"
        );
        of.extend(options.into_bytes());
        Some(NewIndex {
            cache: self.clone(),
            path: self.folder.join(format!("{hash:016x}{ENDING}")),
            of,
        })
    }

    /// Removes the indexes that were not used for the longest time until the others are not larger
    /// than the maximum.
    fn evict(&self) -> io::Result<()> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let Ok(data) = fs::symlink_metadata(&path) else {
                continue;
            };
            if data.is_file() && path.extension().is_some_and(|end| end == &ENDING[1..]) {
                let used = data.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                all.push((used, data.len(), path));
            }
        }
        all.sort();
        let mut size: u64 = all.iter().map(|(_, size, _)| size).sum();
        for (_, of, path) in all {
            if size <= self.largest {
                break;
            }
            fs::remove_file(path)?;
            size -= of;
        }
        Ok(())
    }
}

impl NewIndex {
    /// Returns the view in the index, if it is one of this trace.
    fn load(&self, trace: &Path, options: &Options) -> Option<View> {
        let folder = fs::symlink_metadata(&self.cache.folder).ok()?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(&self.path, flags, Mode::empty()).ok()?;
        let file = File::from(file);
        let data = file.metadata().ok()?;
        if !data.is_file() || !is_own(&folder) || !is_own(&data) {
            return None;
        }
        let used = FileTimes::new().set_modified(SystemTime::now());
        let mut reader = Reader::open(file.try_clone().ok()?).ok()?;
        if reader.bytes().ok()? != self.of {
            return None;
        }
        let of = Indexed {
            index: self.path.clone(),
            file: Arc::new(file),
            trace: trace.to_owned(),
            options: options.clone(),
        };
        let copy = of.file.clone();
        let view = View::load(&mut reader, of).ok()?;
        // Indexes that are used remain. If the time cannot be set, it may be removed early.
        let _ = copy.set_times(used);
        Some(view)
    }

    /// Writes the index of a view of this trace, unless a part of the trace is left out.
    ///
    /// # Errors
    ///
    /// Fails if the index cannot be written, or is larger than all of them may be, or than a
    /// quarter of the free disk space.
    pub fn write(&self, view: &View) -> anyhow::Result<()> {
        let folder = &self.cache.folder;
        if !view.trace().can_be_saved() || depends_on_others(view) {
            return Ok(());
        }
        let size = (view.trace().memory() + view.memory()) as u64;
        // The folder is created only for an index that may be written.
        let existing = folder.ancestors().find(|folder| folder.is_dir());
        let disk = statvfs(existing.unwrap_or(folder))?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let most = self.cache.largest.min(free / FREE_SHARE);
        if size > most {
            let [size, most] = [size, most].map(human_bytes);
            let folder = folder.display();
            anyhow::bail!("an index of {size} is larger than the {most} allowed in {folder}");
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        if !is_own(&fs::symlink_metadata(folder)?) {
            anyhow::bail!("other users may write to {}", folder.display());
        }
        ferretto_output::write_private(&self.path, &[], |file| {
            let mut writer = Writer::new(file);
            writer.bytes(&self.of)?;
            view.save(&mut writer)?;
            Ok(writer.finish()?)
        })?;
        Ok(self.cache.evict()?)
    }
}

/// Returns true if only this user may write to a file or folder.
fn is_own(data: &Metadata) -> bool {
    data.uid() == rustix::process::geteuid().as_raw() && data.mode() & 0o022 == 0
}

/// Returns true if more than the file of the trace was read, so that its index does not depend on
/// this file alone: recordings of perf name other files.
fn depends_on_others(view: &View) -> bool {
    let (files, strings) = (&view.trace().tables().trace_file, view.trace().strings());
    let mut types = files.trace_type().iter();
    types.any(|text| strings.text(text) == Format::PerfData.as_str())
}

/// Returns what tells a file from another one, and from an earlier state.
fn about(data: &Metadata) -> String {
    let changed = (data.ctime(), data.ctime_nsec());
    let modified = (data.mtime(), data.mtime_nsec());
    let (device, inode, size) = (data.dev(), data.ino(), data.len());
    format!("{device} {inode} {size} {modified:?} {changed:?} ")
}

/// Returns a hash of equally spaced parts of a file, with its beginning and its end.
fn hash_of_parts(file: &File, size: u64) -> io::Result<u64> {
    let mut hash = Fnv1a::new();
    let mut bytes = vec![0; PART as usize];
    let last = size.saturating_sub(PART);
    for part in 0..PARTS {
        let at = (u128::from(last) * u128::from(part) / u128::from(PARTS - 1)) as u64;
        let bytes = &mut bytes[..size.min(PART) as usize];
        file.read_exact_at(bytes, at)?;
        hash = hash.update(bytes);
    }
    Ok(hash.finish())
}
