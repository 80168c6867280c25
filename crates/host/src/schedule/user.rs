//! A user in the schedule: its connections that wait, and how it is served.

use ferretto_service::ClientId;

use super::account::Account;
use super::line::Line;

/// A piece of work that took longer is followed by a smaller one ...
const LONG: u64 = 500_000;
/// ... and one that took less by a larger one.
const SHORT: u64 = 100_000;
/// The bytes that make a piece of work, at most and at least.
const LARGEST_PIECE: usize = 32 * 1024;
const SMALLEST_PIECE: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct User {
    /// Its connections.
    pub(super) line: Line<ClientId>,
    /// The work it has had.
    pub(super) had: u64,
    /// In the line of users, or being served.
    pub(super) queued: bool,
    /// Bytes to be read from its connections at a time; 0 before the first.
    piece: usize,
    /// Work that is not taken off the account yet.
    pub(super) unsettled: u64,
    pub(super) account: Account,
    pub(super) held_until: Option<u64>,
}

impl User {
    /// Returns how many bytes to read from a connection at a time.
    pub(super) fn piece(&self) -> usize {
        match self.piece {
            0 => LARGEST_PIECE,
            piece => piece,
        }
    }

    /// Makes the next piece smaller or larger, after one that took so long.
    pub(super) fn adapt(&mut self, work: u64) {
        if work > LONG {
            self.piece = (self.piece() / 2).max(SMALLEST_PIECE);
        } else if work < SHORT {
            self.piece = (self.piece() * 2).min(LARGEST_PIECE);
        }
    }

    /// Returns true if one of its connections waits, and may be served.
    pub(super) fn has_turn(&self) -> bool {
        !self.line.is_empty() && self.held_until.is_none()
    }
}
