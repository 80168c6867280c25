//! The origin of connections: a user of this machine, or another machine.

use std::fmt;

/// The origin of connections that are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// A user of this machine.
    User(u32),
    /// All other machines together, since their user ids are not vouched for.
    Remote,
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(uid) => write!(out, "user {uid}"),
            Self::Remote => out.write_str("other machines"),
        }
    }
}
