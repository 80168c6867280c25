//! Initialization with a single call.

use std::error::Error;
use std::fmt;

use tracing_core::dispatcher::{self, Dispatch};
use tracing_subscriber::layer::SubscriberExt;

use crate::layer::FerrettoLayer;

/// An error of initialization.
#[derive(Debug)]
#[non_exhaustive]
pub enum InitError {
    /// Initialization of [`ferretto`] failed.
    Ferretto(ferretto::InitError),
    /// Another subscriber is already the global default: add a [`FerrettoLayer`] to it.
    Taken,
    /// The crate `log` already has a logger.
    #[cfg(feature = "log")]
    LogTaken,
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ferretto(error) => error.fmt(f),
            Self::Taken => f.write_str(
                "another subscriber is already the global default; add a FerrettoLayer to it",
            ),
            #[cfg(feature = "log")]
            Self::LogTaken => f.write_str("the crate `log` already has a logger"),
        }
    }
}

impl Error for InitError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Ferretto(error) => error.source(),
            _ => None,
        }
    }
}

impl From<ferretto::InitError> for InitError {
    fn from(error: ferretto::InitError) -> Self {
        Self::Ferretto(error)
    }
}

/// Records all spans and events of this process in recordings by the service of this machine. See
/// [`FerrettoLayer::init`] for options.
///
/// # Errors
///
/// See [`InitError`]. The absence of a service is not an error: the process connects in the
/// background.
pub fn init() -> Result<(), InitError> {
    ferretto::init()?;
    FerrettoLayer::new().init()
}

impl FerrettoLayer {
    /// Makes this layer the global default for spans and events, and with the feature `log` for
    /// messages of the crate `log`. [`ferretto::init`] or [`ferretto::Options`] connect the process
    /// to recordings.
    ///
    /// # Errors
    ///
    /// See [`InitError`].
    pub fn init(mut self) -> Result<(), InitError> {
        self.options.is_alone = true;
        crate::recorded::rebuild_on_change();
        let subscriber = tracing_subscriber::registry().with(self);
        dispatcher::set_global_default(Dispatch::new(subscriber)).map_err(|_| InitError::Taken)?;
        #[cfg(feature = "log")]
        tracing_log::LogTracer::init().map_err(|_| InitError::LogTaken)?;
        Ok(())
    }
}
