//! Claims of processes to tracefs instances, with logs of their changes.
//!
//! A process locks a file for each instance that it uses, and logs how to undo its changes there.
//! The lock of a killed process is released, so the next process undoes the changes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

use super::tracefs::{MOUNTS, Tracefs};

/// The directory of the files. Only its owner may use it.
const FOLDER: &str = "/run/ferretto";
/// The prefix of the file names.
const PREFIX: &str = "ftrace-";
/// The maximum size of a file of this program.
const MAX_BYTES: u64 = 4 << 20;
/// The number of attempts to lock a file that others may remove.
const ATTEMPTS: usize = 8;

/// A step that undoes a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Undo<'a> {
    /// Writes a text into a file.
    Write(&'a str, &'a str),
    /// Appends a line to a file.
    Append(&'a str, &'a str),
    /// Truncates a file.
    Empty(&'a str),
}

impl<'a> Undo<'a> {
    fn line(self) -> String {
        match self {
            Self::Write(path, text) => format!("write {path} {text}\n"),
            Self::Append(path, text) => format!("append {path} {text}\n"),
            Self::Empty(path) => format!("empty {path} \n"),
        }
    }

    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.splitn(3, ' ');
        let (kind, path, text) = (words.next()?, words.next()?, words.next()?);
        let is_below = !path.starts_with('/') && !path.split('/').any(|part| part == "..");
        match kind {
            _ if !is_below => None,
            "write" => Some(Self::Write(path, text)),
            "append" => Some(Self::Append(path, text)),
            "empty" => Some(Self::Empty(path)),
            _ => None,
        }
    }

    /// Executes the step. Ignores files that do not exist any more.
    fn take(self, fs: &Tracefs) {
        let _ = match self {
            Self::Write(path, text) => fs.write(path, text),
            // These events belong to the whole kernel.
            Self::Append(path @ "kprobe_events", text) => fs.top().append(path, text),
            Self::Append(path, text) => fs.append(path, text),
            Self::Empty(path) => fs.truncate(path),
        };
    }
}

/// The claim to an instance, released on drop.
#[derive(Debug, Default)]
pub(super) struct Claim {
    /// The locked file; `None` if there is no directory for claims, so that other processes are not
    /// excluded.
    file: Option<(File, PathBuf)>,
}

/// The error if another process holds the claim.
#[derive(Debug)]
pub(super) struct Claimed {
    /// Its process id, if it is known.
    pub(super) pid: Option<u32>,
}

impl Claim {
    /// Claims an instance. Undoes the changes of a killed process there.
    pub(super) fn take(fs: &Tracefs) -> Result<Self, Claimed> {
        Self::take_in(Path::new(FOLDER), fs)
    }

    fn take_in(folder: &Path, fs: &Tracefs) -> Result<Self, Claimed> {
        let Some(path) = claim_path(folder, fs) else {
            return Ok(Self::default());
        };
        for _ in 0..ATTEMPTS {
            let Ok(mut file) = open(&path, true) else {
                break;
            };
            let lock = flock(&file, FlockOperation::NonBlockingLockExclusive);
            let text = text_of(&mut file);
            if lock.is_err() {
                let pid = text.split_whitespace().next();
                let pid = pid.and_then(|pid| pid.parse().ok());
                return Err(Claimed { pid });
            }
            // The previous process may have removed the file meanwhile.
            if !is_at(&file, &path) {
                continue;
            }
            undo(&text, Some(fs));
            let mut claim = Self {
                file: Some((file, path)),
            };
            claim.begin(&format!("{} {}\n", std::process::id(), fs.root().display()));
            return Ok(claim);
        }
        Ok(Self::default())
    }

    /// Logs how to undo a subsequent change. Steps are executed in reverse order.
    pub(super) fn note(&mut self, undo: Undo<'_>) {
        self.add(&undo.line());
    }

    fn add(&mut self, text: &str) {
        if let Some((file, _)) = &mut self.file {
            // Without disk space, changes of a killed process stay, as without a file.
            let _ = file.write_all(text.as_bytes());
        }
    }

    fn begin(&mut self, text: &str) {
        if let Some((file, _)) = &mut self.file {
            let _ = file.set_len(0).and(file.rewind());
        }
        self.add(text);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Everything has been undone. The lock is released after the file is removed.
        if let Some((file, path)) = self.file.take() {
            let _ = fs::remove_file(&path);
            let _ = path.parent().map(fs::remove_dir);
            drop(file);
        }
    }
}

/// Undoes the changes of killed processes in all instances.
pub(crate) fn reap() {
    reap_in(Path::new(FOLDER));
}

fn reap_in(folder: &Path) {
    if !is_own(folder) {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_claim = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(PREFIX));
        if !is_claim {
            continue;
        }
        if let Ok(file) = open(&entry.path(), false) {
            reap_file(file, &entry.path());
        }
    }
    let _ = fs::remove_dir(folder);
}

/// Undoes the changes in an open file, unless its process lives.
fn reap_file(mut file: File, path: &Path) {
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return;
    }
    // Its process may have ended normally since the file was opened, and another one may record in
    // the instance now, with a file of its own.
    if !is_at(&file, path) {
        return;
    }
    let text = text_of(&mut file);
    undo(&text, None);
    let _ = fs::remove_file(path);
}

/// Returns true if an open file has this path.
fn is_at(file: &File, path: &Path) -> bool {
    let of = |metadata: io::Result<fs::Metadata>| metadata.ok().map(|it| (it.dev(), it.ino()));
    of(file.metadata()) == of(fs::symlink_metadata(path))
}

/// Executes the steps in a file in reverse order, in the file's instance.
fn undo(text: &str, fs: Option<&Tracefs>) {
    let Some((first, steps)) = text.split_once('\n') else {
        return;
    };
    let root = first.split_once(' ').map(|(_, root)| Path::new(root));
    let fs = match (fs, root) {
        (Some(fs), _) => fs.clone(),
        (None, Some(root)) if MOUNTS.iter().any(|mount| root.starts_with(mount)) => {
            Tracefs::at(root)
        }
        _ => return,
    };
    // The last line may be incomplete.
    let whole = steps.rsplit_once('\n').map_or("", |(whole, _)| whole);
    for line in whole.lines().rev() {
        if let Some(undo) = Undo::parse(line) {
            undo.take(&fs);
        }
    }
}

/// Returns the file for an instance. Creates the directory if necessary.
fn claim_path(folder: &Path, fs: &Tracefs) -> Option<PathBuf> {
    let _ = fs::DirBuilder::new().mode(0o700).create(folder);
    if !is_own(folder) {
        return None;
    }
    let root = fs.root().to_str()?.trim_matches('/');
    Some(folder.join(format!("{PREFIX}{}", root.replace('/', "-"))))
}

/// Returns true if no other user can have written into a directory.
fn is_own(folder: &Path) -> bool {
    fs::symlink_metadata(folder).is_ok_and(|folder| {
        let is_private = folder.mode() & 0o022 == 0;
        folder.is_dir() && is_private && folder.uid() == rustix::process::geteuid().as_raw()
    })
}

fn open(path: &Path, creates: bool) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(creates)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
        .open(path)
}

fn text_of(file: &mut File) -> String {
    let mut text = Vec::new();
    let _ = file.take(MAX_BYTES).read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_changes_of_a_killed_process_are_undone_in_reverse() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("tracing");
        fs::create_dir(&root).unwrap();
        for file in ["tracing_on", "set_event"] {
            fs::write(root.join(file), "").unwrap();
        }
        let fs = Tracefs::at(&root);
        let claims = folder.path().join("claims");
        let mut claim = Claim::take_in(&claims, &fs).unwrap();
        claim.note(Undo::Write("tracing_on", "1"));
        claim.note(Undo::Append("set_event", "sched:sched_switch"));
        claim.note(Undo::Append("set_event", "*:*"));
        claim.note(Undo::Write("../outside", "1"));
        let second = Claim::take_in(&claims, &fs).unwrap_err();
        assert_eq!(second.pid, Some(std::process::id()));
        // As if the process was killed: the lock is released, but the steps are there.
        drop(claim.file.take());
        let claim = Claim::take_in(&claims, &fs).unwrap();
        let read = |file: &str| fs::read_to_string(root.join(file)).unwrap();
        assert!(read("tracing_on").starts_with('1'));
        assert_eq!(read("set_event"), "*:*sched:sched_switch");
        assert!(!folder.path().join("outside").exists());
        // A process that ended normally leaves nothing to undo.
        drop(claim);
        fs::write(root.join("tracing_on"), "0").unwrap();
        drop(Claim::take_in(&claims, &fs).unwrap());
        assert_eq!(read("tracing_on"), "0");
    }
    #[test]
    fn the_claim_of_a_later_process_is_not_reaped() {
        let folder = tempfile::tempdir().unwrap();
        let fs = Tracefs::at(folder.path());
        let claims = folder.path().join("claims");
        let earlier = Claim::take_in(&claims, &fs).unwrap();
        let path = claim_path(&claims, &fs).unwrap();
        // Another process is about to reap, when the first one ends and a second one begins.
        let opened = open(&path, false).unwrap();
        drop(earlier);
        let _later = Claim::take_in(&claims, &fs).unwrap();
        reap_file(opened, &path);
        assert!(path.exists());
        assert!(Claim::take_in(&claims, &fs).is_err());
    }
}
