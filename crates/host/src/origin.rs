//! Users of this machine, and everyone else.

use std::fmt;

/// The origin of connections that are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// A user of this machine.
    User(u32),
    /// Everyone on other machines: nobody vouches for who they say they are.
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
