//! Everything in one line.

use std::error::Error;
use std::fmt;

use tracing_core::dispatcher::{self, Dispatch};
use tracing_subscriber::layer::SubscriberExt;

use crate::layer::FerrettoLayer;

/// Why tracing could not be started.
#[derive(Debug)]
#[non_exhaustive]
pub enum InitError {
    /// See there.
    Ferretto(ferretto::InitError),
    /// Another subscriber is the global default already: add a [`FerrettoLayer`] to that.
    Taken,
    /// Messages of the crate `log` go elsewhere already.
    #[cfg(feature = "log")]
    LogTaken,
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ferretto(error) => error.fmt(f),
            Self::Taken => f.write_str("another subscriber is the global default already"),
            #[cfg(feature = "log")]
            Self::LogTaken => f.write_str("messages of the crate `log` go elsewhere already"),
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

/// Makes this process part of recordings by the service of this machine, with all its spans and
/// events. See [`FerrettoLayer::init`] for options.
///
/// # Errors
///
/// See [`InitError`]. The absence of a service is none: it is waited for in the background.
pub fn init() -> Result<(), InitError> {
    ferretto::init()?;
    FerrettoLayer::new().init()
}

impl FerrettoLayer {
    /// Makes this layer, alone, the global default for spans and events, and with the feature `log`
    /// for messages of the crate `log`. [`ferretto::init`] or [`ferretto::Options`] make the
    /// process take part in recordings.
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
