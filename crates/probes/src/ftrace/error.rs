//! Errors of starting a data source.

use super::config::ConfigError;
use super::kernel_state::KernelError;
use super::tracefs::TracefsError;

/// The reason why an ftrace data source cannot start.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The config is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No tracefs is available.
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    /// The kernel refused a setting.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Exclusive features were requested while others record.
    #[error(
        "Attempted to start an ftrace session with advanced features while another session was active."
    )]
    NotAlone,
    /// Others are using exclusive features.
    #[error(
        "Attempted to start an ftrace session while another session with advanced features was active."
    )]
    ExclusiveActive,
}
