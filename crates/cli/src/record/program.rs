//! Finding the program of a command.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::errors::{CANNOT_RUN, NOT_FOUND};

/// The reason why a command cannot be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    NotFound,
    NotExecutable,
}

impl Missing {
    pub(super) fn exit_code(self) -> u8 {
        match self {
            Self::NotFound => NOT_FOUND,
            Self::NotExecutable => CANNOT_RUN,
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "command not found",
            Self::NotExecutable => "the file is not executable",
        }
    }
}

/// Returns the exit code of shells for a command that cannot be executed.
pub(super) fn exit_code(error: &io::Error) -> u8 {
    match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => CANNOT_RUN,
    }
}

/// Looks up a command like the system, so that a wrong one is reported before the recording.
pub(super) fn find(program: &OsStr) -> Result<PathBuf, Missing> {
    if program.as_encoded_bytes().contains(&b'/') {
        return check(Path::new(program));
    }
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/bin:/usr/bin".into());
    let mut found = Err(Missing::NotFound);
    for folder in env::split_paths(&path) {
        match check(&folder.join(program)) {
            Ok(program) => return Ok(program),
            Err(Missing::NotExecutable) => found = Err(Missing::NotExecutable),
            Err(Missing::NotFound) => {}
        }
    }
    found
}

/// Returns the command of a program. It is searched here: the calls of the search would be recorded
/// as those of the command.
pub(super) fn command(program: &OsStr) -> Command {
    let path = find(program).unwrap_or_else(|_| program.into());
    let mut command = Command::new(path);
    command.arg0(program);
    command
}

fn check(path: &Path) -> Result<PathBuf, Missing> {
    match path.metadata() {
        Err(_) => Err(Missing::NotFound),
        Ok(file) if file.is_file() && file.permissions().mode() & 0o111 != 0 => {
            Ok(path.to_path_buf())
        }
        Ok(_) => Err(Missing::NotExecutable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_as_the_system_finds_them() {
        assert!(find("sh".as_ref()).is_ok());
        assert!(find("/bin/sh".as_ref()).is_ok());
        assert_eq!(
            find("no-such-command-at-all".as_ref()),
            Err(Missing::NotFound)
        );
        assert_eq!(find("/no/such/file".as_ref()), Err(Missing::NotFound));
        assert_eq!(find("/etc/passwd".as_ref()), Err(Missing::NotExecutable));
        assert_eq!(find("/etc".as_ref()), Err(Missing::NotExecutable));
    }
}
