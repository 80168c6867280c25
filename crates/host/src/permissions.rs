//! Group and mode of the socket files.

use std::io;
use std::path::Path;

use rustix::fs::{Gid, Mode};

/// The permissions of both sockets, as given by `--set-socket-permissions`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketPermissions {
    /// The permissions of the producer sockets.
    pub producer: FilePermissions,
    /// The permissions of the consumer socket.
    pub consumer: FilePermissions,
}

/// Group and mode of one socket file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePermissions {
    /// The group id.
    pub group: u32,
    /// The permission bits.
    pub mode: u32,
}

/// The reason why a text is not a description of permissions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PermissionsError {
    /// The text does not have four parts.
    #[error("\"{0}\" is not PRODUCER_GROUP:PRODUCER_MODE:CONSUMER_GROUP:CONSUMER_MODE")]
    Parts(String),
    /// The text does not have two parts.
    #[error("\"{0}\" is not GROUP:MODE")]
    Pair(String),
    /// There is no group of this name.
    #[error("there is no group \"{0}\"")]
    Group(String),
    /// The text is not a mode.
    #[error("\"{0}\" is not a mode of exactly four octal digits, such as 0660")]
    Mode(String),
}

impl SocketPermissions {
    /// Parses `group:mode:group:mode`, for producer and consumer. A group is a
    /// number or a name; a mode is four octal digits.
    ///
    /// # Errors
    ///
    /// See [`PermissionsError`].
    pub fn parse(text: &str) -> Result<Self, PermissionsError> {
        let parts: Vec<&str> = text.split(':').filter(|part| !part.is_empty()).collect();
        let [producer_group, producer_mode, consumer_group, consumer_mode] = parts[..] else {
            return Err(PermissionsError::Parts(text.to_owned()));
        };
        Ok(Self {
            producer: FilePermissions::parse(producer_group, producer_mode)?,
            consumer: FilePermissions::parse(consumer_group, consumer_mode)?,
        })
    }
}

impl FilePermissions {
    /// Parses `group:mode`.
    ///
    /// # Errors
    ///
    /// See [`PermissionsError`].
    pub fn from_pair(text: &str) -> Result<Self, PermissionsError> {
        match text.split(':').collect::<Vec<_>>()[..] {
            [group, mode] if !group.is_empty() && !mode.is_empty() => Self::parse(group, mode),
            _ => Err(PermissionsError::Pair(text.to_owned())),
        }
    }

    fn parse(group: &str, mode: &str) -> Result<Self, PermissionsError> {
        let bad_mode = || PermissionsError::Mode(mode.to_owned());
        if mode.len() != 4 || !mode.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(bad_mode());
        }
        let mode = u32::from_str_radix(mode, 8).map_err(|_| bad_mode())?;
        Ok(Self {
            group: group_id(group)?,
            mode,
        })
    }

    /// Applies group and mode to a socket file.
    ///
    /// # Errors
    ///
    /// Fails if the system refuses.
    pub fn apply(&self, path: &Path) -> io::Result<()> {
        let owner = rustix::process::geteuid();
        rustix::fs::chown(path, Some(owner), Some(Gid::from_raw(self.group)))?;
        rustix::fs::chmod(path, Mode::from_raw_mode(self.mode))?;
        Ok(())
    }
}

fn group_id(group: &str) -> Result<u32, PermissionsError> {
    if let Ok(id) = group.parse() {
        return Ok(id);
    }
    // Groups of a directory service are not in the file, but can be given by number.
    let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
    groups
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (name == group)
                .then(|| fields.nth(1)?.parse().ok())
                .flatten()
        })
        .next()
        .ok_or_else(|| PermissionsError::Group(group.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipc_028_permissions_are_group_and_mode_twice() {
        let parsed = SocketPermissions::parse("root:0660:17:0600").unwrap();
        assert_eq!(
            parsed.producer,
            FilePermissions {
                group: 0,
                mode: 0o660
            }
        );
        assert_eq!(
            parsed.consumer,
            FilePermissions {
                group: 17,
                mode: 0o600
            }
        );
    }

    #[test]
    fn ipc_028_a_mode_that_is_not_four_octal_digits_is_an_error() {
        for mode in ["660", "00660", "0668", "+660", "rwx-"] {
            let text = format!("0:{mode}:0:0600");
            assert_eq!(
                SocketPermissions::parse(&text),
                Err(PermissionsError::Mode(mode.to_owned()))
            );
        }
        assert!(matches!(
            SocketPermissions::parse("0:0600"),
            Err(PermissionsError::Parts(_))
        ));
        let unknown = SocketPermissions::parse("no-such-group-here:0600:0:0600");
        assert!(matches!(unknown, Err(PermissionsError::Group(_))));
    }
}
