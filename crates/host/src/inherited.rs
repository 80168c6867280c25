//! Sockets inherited from the parent process.

use std::env;
use std::io;
use std::os::fd::{OwnedFd, RawFd};

use ferretto_ipc::socket::Listener;
use ferretto_shm::take_inherited;
use rustix::process::getpid;

/// Upstream's variables for a pair of bound sockets, as set by Android's init.
const PRODUCER_VARIABLE: &str = "ANDROID_SOCKET_traced_producer";
const CONSUMER_VARIABLE: &str = "ANDROID_SOCKET_traced_consumer";
/// The variables of systemd's socket activation, see sd_listen_fds(3).
const LISTEN_PID: &str = "LISTEN_PID";
const LISTEN_FDS: &str = "LISTEN_FDS";
const LISTEN_NAMES: &str = "LISTEN_FDNAMES";
/// The first descriptor that systemd passes.
const LISTEN_FIRST: RawFd = 3;
/// The largest accepted number of sockets.
const LISTEN_MOST: RawFd = 256;

/// Sockets that the parent process bound for the service.
#[derive(Debug, Default)]
pub struct InheritedSockets {
    /// The sockets for producers; if empty, the service binds its own.
    pub producers: Vec<Listener>,
    /// The socket for consumers; if there is none, the service binds its own.
    pub consumer: Option<Listener>,
}

/// The reason why inherited sockets cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InheritedError {
    /// Only one of the two variables is set.
    #[error("{PRODUCER_VARIABLE} and {CONSUMER_VARIABLE} go together, but only {0} is set")]
    HalfAPair(&'static str),
    /// A variable does not contain a descriptor number.
    #[error("{variable} is \"{value}\", which is no number of a descriptor")]
    Number {
        /// The name of the variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// The descriptor does not exist, or is not a suitable socket.
    #[error("descriptor {number} cannot be listened at: {source}")]
    Socket {
        /// The descriptor number.
        number: RawFd,
        /// The reason.
        source: io::Error,
    },
    /// The purpose of a socket is not known.
    #[error(
        "is socket {number} for producers or consumers? FileDescriptorName= of its unit is \"{name}\", \
         which contains neither \"producer\" nor \"consumer\""
    )]
    Purpose {
        /// The descriptor number.
        number: RawFd,
        /// The name of the socket.
        name: String,
    },
    /// There is more than one socket for consumers.
    #[error("socket {number} is a second one for consumers")]
    SecondConsumer {
        /// The descriptor number.
        number: RawFd,
    },
}

impl InheritedSockets {
    /// Takes the sockets of systemd's socket activation, or of the variables of Android's init.
    /// Usually there are none.
    ///
    /// # Errors
    ///
    /// See [`InheritedError`].
    pub fn from_environment() -> Result<Self, InheritedError> {
        let mut sockets = Self::default();
        sockets.take_pair()?;
        if env::var(LISTEN_PID).is_ok_and(|pid| pid == getpid().to_string()) {
            sockets.take_activated()?;
        }
        Ok(sockets)
    }

    fn take_pair(&mut self) -> Result<(), InheritedError> {
        match (number(PRODUCER_VARIABLE)?, number(CONSUMER_VARIABLE)?) {
            (None, None) => {}
            (Some(_), None) => return Err(InheritedError::HalfAPair(PRODUCER_VARIABLE)),
            (None, Some(_)) => return Err(InheritedError::HalfAPair(CONSUMER_VARIABLE)),
            (Some(producer), Some(consumer)) => {
                self.producers.push(listener(producer)?);
                self.consumer = Some(listener(consumer)?);
            }
        }
        Ok(())
    }

    fn take_activated(&mut self) -> Result<(), InheritedError> {
        let count = number(LISTEN_FDS)?.unwrap_or(0).min(LISTEN_MOST);
        let names = env::var_os(LISTEN_NAMES).unwrap_or_default();
        let names = names.to_string_lossy().into_owned();
        let mut names = names.split(':');
        for number in LISTEN_FIRST..LISTEN_FIRST + count {
            let name = names.next().unwrap_or_default();
            let listener = listener(number)?;
            // Without a name, the address of the socket may tell its purpose.
            let address = listener.address().to_string();
            let name_of_role = if name.is_empty() { &address } else { name };
            match (
                name_of_role.contains("producer"),
                name_of_role.contains("consumer"),
            ) {
                (true, false) => self.producers.push(listener),
                (false, true) if self.consumer.is_none() => self.consumer = Some(listener),
                (false, true) => return Err(InheritedError::SecondConsumer { number }),
                _ => {
                    let name = name.to_owned();
                    return Err(InheritedError::Purpose { number, name });
                }
            }
        }
        Ok(())
    }
}

/// Takes the single socket of systemd's socket activation, for programs that have one.
///
/// # Errors
///
/// See [`InheritedError`].
pub fn activated_socket() -> Result<Option<OwnedFd>, InheritedError> {
    let is_for_us = env::var(LISTEN_PID).is_ok_and(|pid| pid == getpid().to_string());
    if !is_for_us || number(LISTEN_FDS)?.unwrap_or(0) == 0 {
        return Ok(None);
    }
    let socket = take_inherited(LISTEN_FIRST).map_err(|source| InheritedError::Socket {
        number: LISTEN_FIRST,
        source,
    })?;
    Ok(Some(socket))
}

fn listener(number: RawFd) -> Result<Listener, InheritedError> {
    take_inherited(number)
        .and_then(Listener::from_fd)
        .map_err(|source| InheritedError::Socket { number, source })
}

fn number(variable: &'static str) -> Result<Option<RawFd>, InheritedError> {
    let Some(value) = env::var_os(variable) else {
        return Ok(None);
    };
    let value = value.to_string_lossy().into_owned();
    match value.parse::<RawFd>() {
        Ok(number) if number >= 0 => Ok(Some(number)),
        _ => Err(InheritedError::Number { variable, value }),
    }
}
