//! The journal of this machine, if there is one and this user may read it.

use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The program that reads the journal.
pub(super) const PROGRAM: &str = "journalctl";
/// Folders of journals.
const FOLDERS: [&str; 2] = ["/run/log/journal", "/var/log/journal"];

/// The reason why there is no journal to be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoJournal {
    /// No systemd, or only a part of it.
    #[error("there is no journalctl to read the journal with")]
    Program,
    /// Nobody writes one.
    #[error(
        "this machine keeps no journal: no file of one is in /run/log/journal or /var/log/journal"
    )]
    Nowhere,
    /// The user may not.
    #[error("this user may not read the journal ({})", .0.display())]
    NotPermitted(PathBuf),
}

/// Returns whether the journal of this machine can be read.
pub(crate) fn usable() -> Result<(), NoJournal> {
    let path = env::var_os("PATH").unwrap_or_default();
    if !env::split_paths(&path).any(|folder| folder.join(PROGRAM).is_file()) {
        return Err(NoJournal::Program);
    }
    in_folders(&FOLDERS.map(Path::new))
}

fn in_folders(folders: &[&Path]) -> Result<(), NoJournal> {
    let mut refused = None;
    for folder in folders {
        // One folder for each machine that keeps journals here, one file for each user and more.
        for machine in entries(folder, &mut refused) {
            for file in entries(&machine, &mut refused) {
                if file.extension().is_some_and(|end| end == "journal") {
                    match File::open(&file) {
                        Ok(_) => return Ok(()),
                        Err(error) => note(&mut refused, &file, &error),
                    }
                }
            }
        }
    }
    Err(refused.map_or(NoJournal::Nowhere, NoJournal::NotPermitted))
}

fn entries(folder: &Path, refused: &mut Option<PathBuf>) -> Vec<PathBuf> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(error) => {
            note(refused, folder, &error);
            Vec::new()
        }
    }
}

fn note(refused: &mut Option<PathBuf>, path: &Path, error: &io::Error) {
    if error.kind() == io::ErrorKind::PermissionDenied {
        refused.get_or_insert_with(|| path.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_a_file_that_can_be_opened() {
        let folder = tempfile::tempdir().unwrap();
        let folders = [folder.path(), Path::new("/nonexistent")];
        assert_eq!(in_folders(&folders), Err(NoJournal::Nowhere));
        let machine = folder.path().join("0123");
        fs::create_dir(&machine).unwrap();
        fs::write(machine.join("notes"), "").unwrap();
        assert_eq!(in_folders(&folders), Err(NoJournal::Nowhere));
        fs::write(machine.join("system.journal"), "").unwrap();
        assert_eq!(in_folders(&folders), Ok(()));
    }
}
