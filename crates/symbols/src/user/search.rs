//! Finds the files of a module.

use std::fs;
use std::io::Read;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use ferretto_elf::open_regular;
use rustc_hash::FxHashMap;

use super::Module;
use super::debuginfod::Servers;
use super::image::{Image, Level, Reason, hex};
use super::options::{Mode, Options};
use super::vdso;

/// The largest number of files to index in the user's folders.
const MAX_FILES: usize = 200_000;
/// The largest depth of folders to search.
const MAX_DEPTH: usize = 32;
/// The largest debug file whose checksum is checked.
const MAX_CHECKED: u64 = 8 << 30;
/// The prefix of Android's names of libraries inside an archive.
const APK: &str = "base.apk!";

/// The files of a module.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The usable files, the best first.
    pub(super) images: Vec<Image>,
    /// The supplementary file of the best file, if it names one.
    pub(super) supplementary: Option<Image>,
    pub(super) skipped: Vec<(PathBuf, Reason)>,
}

/// Files by build id.
#[derive(Debug, Default)]
pub(super) struct Index {
    files: FxHashMap<Box<[u8]>, Vec<PathBuf>>,
}

/// Looks for the files of `module`.
pub(super) fn find(
    options: &Options,
    index: &OnceLock<Index>,
    servers: Option<&Servers>,
    module: &Module,
) -> Found {
    let mut found = Found::default();
    if vdso::is_vdso(&module.path) {
        match vdso::image(&module.build_id) {
            Ok(image) => found.images.push(image),
            Err(reason) => found.skipped.push((PathBuf::from(&module.path), reason)),
        }
        return found;
    }
    if module.build_id.is_empty() {
        unidentified(options, module, &mut found);
        return found;
    }
    for path in candidates(options, index, module) {
        if found.is_complete() {
            break;
        }
        let image = Image::open_identified(&path, &module.build_id);
        found.add(path, image);
    }
    found.follow_links(options);
    if let Some(servers) = servers.filter(|_| !found.is_complete()) {
        match servers.find(&module.build_id) {
            Ok(image) => found.images.push(image),
            Err(skipped) => found.skipped.extend(skipped),
        }
    }
    found.finish(options);
    found
}

impl Found {
    /// Returns true if no better file can exist.
    fn is_complete(&self) -> bool {
        self.images.iter().any(|image| image.level == Level::Lines)
    }

    /// Looks for the debug files that the found files link to.
    fn follow_links(&mut self, options: &Options) {
        if !self.is_complete() {
            linked(options, self);
        }
    }

    /// Sorts the files, and looks for the supplementary file of the best one.
    fn finish(&mut self, options: &Options) {
        self.images
            .sort_by_key(|image| std::cmp::Reverse(image.level));
        if let Some(image) = self.images.first() {
            match supplementary(options, image) {
                Some(Ok(file)) => self.supplementary = Some(file),
                Some(Err(skipped)) => self.skipped.push(skipped),
                None => {}
            }
        }
    }

    fn add(&mut self, path: PathBuf, image: Result<Image, Reason>) {
        match image {
            Ok(image) if image.level == Level::Nothing => {
                self.skipped.push((path, Reason::Stripped));
                // The file may still link to its debug information.
                self.images.push(image);
            }
            Ok(image) => self.images.push(image),
            Err(reason) => self.skipped.push((path, reason)),
        }
    }
}

/// Returns the possible paths of the module's file in order of preference.
fn candidates(options: &Options, index: &OnceLock<Index>, module: &Module) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    match options.mode {
        Mode::Index => {
            let index = index.get_or_init(|| Index::new(&options.roots));
            paths.extend(
                index
                    .files
                    .get(&*module.build_id)
                    .into_iter()
                    .flatten()
                    .cloned(),
            );
        }
        Mode::Find => {
            for root in &options.roots {
                paths.extend(candidates_below(root, module));
            }
        }
    }
    if options.system {
        paths.push(own_path(module));
        paths.push(by_build_id(&debug_folder(options), &module.build_id));
    }
    let mut known = std::collections::HashSet::new();
    paths.retain(|path| known.insert(path.clone()));
    paths
}

fn debug_folder(options: &Options) -> PathBuf {
    let folder = options.debug_folder.clone();
    folder.unwrap_or_else(|| PathBuf::from("/usr/lib/debug"))
}

/// Returns the recorded path on this machine.
fn own_path(module: &Module) -> PathBuf {
    let path = module
        .path
        .strip_suffix(" (deleted)")
        .unwrap_or(&module.path);
    PathBuf::from(path)
}

/// Returns the possible paths of the module's file below `root`.
fn candidates_below(root: &Path, module: &Module) -> Vec<PathBuf> {
    let own = own_path(module);
    let own = own.to_string_lossy();
    let name = own.rsplit('/').next().unwrap_or_default();
    let mut candidates = Vec::new();
    for part in [&own, name] {
        candidates.extend(below(root, part));
        candidates.extend(below(root, &part.replace(APK, "")));
    }
    candidates.push(by_build_id(root, &module.build_id));
    candidates
}

/// Joins `path` to `root`, unless it leads out of `root`.
fn below(root: &Path, path: &str) -> Option<PathBuf> {
    let relative = Path::new(path.trim_start_matches('/'));
    let inside = relative
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    (inside && !path.is_empty()).then(|| root.join(relative))
}

/// Returns the path of a debug file by build id.
fn by_build_id(folder: &Path, build_id: &[u8]) -> PathBuf {
    let name = hex(build_id);
    let (first, rest) = name.split_at(name.len().min(2));
    folder
        .join(".build-id")
        .join(first)
        .join(format!("{rest}.debug"))
}

/// Looks for the debug files that the found files link to.
fn linked(options: &Options, found: &mut Found) {
    let links: Vec<_> = found
        .images
        .iter()
        .filter_map(|image| Some((image.path.clone(), image.elf.debug_link()?)))
        .collect();
    for (program, link) in links {
        let folder = program.parent().unwrap_or(Path::new("/"));
        let mut paths = vec![
            folder.join(&link.file),
            folder.join(".debug").join(&link.file),
        ];
        let debug = debug_folder(options);
        if let Some(candidate) = folder.to_str().and_then(|folder| below(&debug, folder)) {
            paths.push(candidate.join(&link.file));
        }
        for path in paths {
            if path == program || found.is_complete() {
                continue;
            }
            let image = match checksum(&path) {
                Ok(crc) if crc == link.crc => Image::open(&path),
                Ok(_) => Err(Reason::OtherChecksum),
                Err(reason) => Err(reason),
            };
            found.add(path, image);
        }
    }
}

/// Opens the supplementary file in `.gnu_debugaltlink`, which contains shared debug information.
fn supplementary(options: &Options, image: &Image) -> Option<Result<Image, (PathBuf, Reason)>> {
    let section = image.elf.section_header(".gnu_debugaltlink")?;
    let bytes = image.elf.section_data(section, 4096).ok()?;
    let end = bytes.iter().position(|&byte| byte == 0)?;
    let (name, build_id) = (&bytes[..end], &bytes[end + 1..]);
    let name = Path::new(std::str::from_utf8(name).ok()?);
    let folder = image.path.parent().unwrap_or(Path::new("/"));
    // An absolute name replaces the folder.
    let candidates = [
        folder.join(name),
        by_build_id(&debug_folder(options), build_id),
    ];
    let mut skipped = None;
    for candidate in candidates {
        match Image::open_identified(&candidate, build_id) {
            Ok(image) => return Some(Ok(image)),
            Err(reason) => skipped = skipped.or(Some(Err((candidate, reason)))),
        }
    }
    skipped
}

fn checksum(path: &Path) -> Result<u32, Reason> {
    let unusable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Reason::Missing,
        _ => Reason::Unusable(error.to_string()),
    };
    let mut file = open_regular(path).map_err(unusable)?.take(MAX_CHECKED);
    let mut crc = flate2::Crc::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match file.read(&mut buffer).map_err(unusable)? {
            0 => return Ok(crc.sum()),
            read => crc.update(&buffer[..read]),
        }
    }
}

/// Looks for a module recorded without a build id.
fn unidentified(options: &Options, module: &Module, found: &mut Found) {
    let path = own_path(module);
    if !options.system {
        return;
    }
    let image = if options.trust_paths {
        Image::open_unidentified(&path)
    } else {
        Err(Reason::NoBuildId)
    };
    found.add(path, image);
    found.follow_links(options);
    found.finish(options);
}

impl Index {
    fn new(roots: &[PathBuf]) -> Self {
        let mut index = Self::default();
        let mut left = MAX_FILES;
        let mut folders: Vec<(PathBuf, usize)> = Vec::new();
        for root in roots {
            if root.is_dir() {
                folders.push((root.clone(), 0));
            } else {
                index.add(root.clone());
            }
        }
        while let Some((folder, depth)) = folders.pop() {
            let Ok(entries) = fs::read_dir(&folder) else {
                continue;
            };
            for entry in entries.flatten() {
                if left == 0 {
                    return index;
                }
                left -= 1;
                // Symbolic links may form a cycle or lead anywhere, so they are not followed.
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() && depth < MAX_DEPTH => {
                        folders.push((entry.path(), depth + 1));
                    }
                    Ok(kind) if kind.is_file() && !kind.is_fifo() => index.add(entry.path()),
                    _ => {}
                }
            }
        }
        index
    }

    fn add(&mut self, path: PathBuf) {
        let Ok(image) = Image::open(&path) else {
            return;
        };
        let Some(build_id) = image.elf.build_id() else {
            return;
        };
        let files = self.files.entry(build_id.into()).or_default();
        // The better file comes first: a program may be next to its debug file.
        let better = files
            .iter()
            .position(|other| Image::open(other).is_ok_and(|other| other.level < image.level));
        files.insert(better.unwrap_or(files.len()), path);
    }
}
