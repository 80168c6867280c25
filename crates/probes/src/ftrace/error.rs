//! Why a data source cannot run.

use super::config::ConfigError;
use super::kernel_state::KernelError;
use super::tracefs::TracefsError;

/// Why an ftrace data source cannot run.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The config has a bad entry.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There is no tracefs to use.
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    /// The kernel refused.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Exclusive features were asked for while others record.
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
