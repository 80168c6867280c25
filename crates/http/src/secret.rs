//! Addresses that cannot be guessed.

use std::io;
use std::sync::{Mutex, PoisonError};

use rustix::rand::{GetRandomFlags, getrandom};

use crate::response::Response;

/// Returns an unguessable name of 32 digits.
///
/// # Errors
///
/// Fails if the kernel has no random numbers.
pub fn random_name() -> io::Result<String> {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

/// Compares in constant time.
pub fn is_same(one: &str, other: &str) -> bool {
    let pairs = one.bytes().zip(other.bytes());
    one.len() == other.len() && pairs.fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// A path that leads a browser to a secret address, once. The arguments of a browser are readable
/// by every user, so they contain such a path instead of the secret.
#[derive(Debug)]
pub struct Ticket {
    path: String,
    location: Mutex<Option<String>>,
}

impl Ticket {
    /// Returns a ticket for an address.
    ///
    /// # Errors
    ///
    /// Fails if the kernel has no random numbers.
    pub fn new(location: String) -> io::Result<Self> {
        Ok(Self {
            path: format!("/{}", random_name()?),
            location: Mutex::new(Some(location)),
        })
    }

    /// Returns the path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns true if a requested path is that of the ticket.
    pub fn is_at(&self, path: &str) -> bool {
        is_same(path, &self.path)
    }

    /// Returns the reply to the first request.
    pub fn redeem(&self) -> Option<Response> {
        let mut location = self.location.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Response::redirect(&location.take()?))
    }
}
