//! The flushes that a session makes by itself.

use ferretto_proto::TraceConfig;
use ferretto_proto::trace_config::WriteFlushMode;

use super::config::write_period_ms;
use crate::limits::DEFAULT_WRITE_PERIOD_MS;

const WRITE_FLUSH_MODE: u32 = 44;

/// The plan of a session's own flushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlushPlan {
    Never,
    /// Periodically, in milliseconds.
    Every(u64),
    /// Before each write of the output file.
    BeforeWriting,
}

impl FlushPlan {
    pub(super) fn choose(config: &TraceConfig) -> Self {
        let asked = match config.flush_period_ms.unwrap_or(0) {
            0 => Self::Never,
            ms => Self::Every(ms.into()),
        };
        if !config.write_into_file.unwrap_or(false) {
            return asked;
        }
        // An unknown enum value is among the unknown fields, and disables flushes.
        let unknown = || {
            config
                .unknown_fields
                .iter()
                .any(|field| field.number == WRITE_FLUSH_MODE)
        };
        match config.write_flush_mode {
            Some(WriteFlushMode::WRITE_FLUSH_DISABLED) => asked,
            Some(WriteFlushMode::WRITE_FLUSH_ENABLED) => Self::BeforeWriting,
            None if unknown() => asked,
            _ if write_period_ms(config) <= DEFAULT_WRITE_PERIOD_MS => {
                Self::Every(DEFAULT_WRITE_PERIOD_MS)
            }
            _ => Self::BeforeWriting,
        }
    }
}
