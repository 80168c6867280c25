//! A user in the schedule: its waiting connections, and the size of its pieces of work.

use ferretto_service::ClientId;

use super::account::Account;
use super::line::Line;

/// The duration above which the next piece of work is smaller.
const LONG: u64 = 500_000;
/// The duration below which the next piece of work is larger.
const SHORT: u64 = 100_000;
/// The largest and the smallest number of bytes of a piece of work.
const LARGEST_PIECE: usize = 32 * 1024;
const SMALLEST_PIECE: usize = 1024;
/// The number of bytes of the first piece, when the cost of a user's requests is not known.
const FIRST_PIECE: usize = 4 * 1024;

#[derive(Debug, Default)]
pub(super) struct User {
    /// The waiting connections.
    pub(super) line: Line<ClientId>,
    /// The work that the user has had.
    pub(super) had: u64,
    /// Set if the user is in the line of users, or being served.
    pub(super) queued: bool,
    /// The number of bytes to read from a connection at a time; 0 before the first read.
    piece: usize,
    /// The work that was not deducted from the allowance yet.
    pub(super) undeducted: u64,
    pub(super) account: Account,
    pub(super) held_until: Option<u64>,
}

impl User {
    /// Returns the number of bytes to read from a connection at a time.
    pub(super) fn piece(&self) -> usize {
        match self.piece {
            0 => FIRST_PIECE,
            piece => piece,
        }
    }

    /// Makes the next piece smaller or larger, after one that took `work`.
    pub(super) fn adapt(&mut self, work: u64) {
        if work > LONG {
            self.piece = (self.piece() / 2).max(SMALLEST_PIECE);
        } else if work < SHORT {
            self.piece = (self.piece() * 2).min(LARGEST_PIECE);
        }
    }

    /// Returns true if one of its connections waits and may be served.
    pub(super) fn has_turn(&self) -> bool {
        !self.line.is_empty() && self.held_until.is_none()
    }
}
